#include "objective.h"
#include "../base/error.h"

#include <stdlib.h>
#include <string.h>

#define KEY "core.objective"
/* Decimal digits of a number of tokens. */
#define MAX_DIGITS 9

/* Takes a number off the front of the text. */
static bool take_tokens(const char **text, uint32_t *out)
{
    const size_t n = strspn(*text, "0123456789");
    if (!n || n > MAX_DIGITS)
        return false;
    *out = (uint32_t)strtoul(*text, NULL, 10);
    *text += n;
    return true;
}

/* "2048:64". */
static bool parse_tokens(const char *text, clv_objective *out)
{
    return take_tokens(&text, &out->prompt) && *text++ == ':' &&
           take_tokens(&text, &out->generated) && !*text &&
           (out->prompt || out->generated);
}

static bool parse_energy(const char *text, clv_objective *out)
{
    static const clv_option weight = {.type = CLV_OPTION_FLOAT, .max = 1};
    if (core_option_check(&weight, text))
        return false;
    out->energy = core_option_float(text);
    return true;
}

static bool parse(const char *text, clv_objective *out)
{
    char first[64];
    const size_t n = strcspn(text, ",");
    if (n >= sizeof first)
        return false;
    memcpy(first, text, n);
    first[n] = 0;
    if (!text[n])
        return parse_energy(text, out) || parse_tokens(text, out);
    return parse_energy(first, out) && parse_tokens(text + n + 1, out);
}

clv_status core_config_objective(const clv_config *config, clv_objective *out)
{
    const char *text = clv_config_get(config, KEY);
    clv_objective objective = {0};
    if (!parse(text, &objective))
        return clv_error(
            CLV_ERR_FORMAT,
            "%s: " KEY " is '%s'; give a weight of energy from 0 to 1, tokens "
            "of a prompt and after it as in 2048:64, or both as in 0.5,2048:64",
            clv_config_origin(config, KEY), text);
    *out = objective;
    return CLV_OK;
}
