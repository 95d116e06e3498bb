#include "sampling.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WINDOW_MAX (1u << 20)

void tool_sampling_init(tool_sampling *args)
{
    const clv_sampler_params p = clv_sampler_defaults();
    *args = (tool_sampling){
        .seed = -1,
        .top_k = p.top_k,
        .repeat_last = p.repeat_last,
        .dry_length = p.dry_allowed_length,
        .dry_last = -1,
        .temperature = p.temperature,
        .top_p = p.top_p,
        .min_p = p.min_p,
        .top_n_sigma = -1,
        .typical_p = p.typical_p,
        .repeat_penalty = p.repeat_penalty,
        .dry_base = p.dry_base,
        .xtc_threshold = p.xtc_threshold,
        .dynatemp_exponent = p.dynatemp_exponent,
        .mirostat_tau = p.mirostat_tau,
        .mirostat_eta = p.mirostat_eta,
    };
}

int tool_sampling_check(const tool_sampling *args)
{
    const int n = !!args->grammar + !!args->grammar_file + !!args->schema +
                  !!args->schema_file;
    if (n > 1)
        return tool_usage("give one of --grammar, --grammar-file, "
                          "--json-schema and --json-schema-file");
    return -1;
}

/* "15043+1", "13-inf" */
static clv_status read_bias(const char *text, clv_logit_bias *out)
{
    char *end;
    errno = 0;
    const long long id = strtoll(text, &end, 10);
    const char *sign = end;
    const double bias = strtod(sign, &end);
    if (sign == text || (*sign != '+' && *sign != '-') || end == sign || *end ||
        errno || id < 0 || id > INT32_MAX || isnan(bias) || bias == INFINITY)
        return clv_error(CLV_ERR_INVALID,
                         "--logit-bias: '%s' is not ID+BIAS, ID-BIAS or ID-inf",
                         text);
    *out = (clv_logit_bias){(int32_t)id, (float)bias};
    return CLV_OK;
}

static clv_status read_biases(const tool_strings *texts, clv_logit_bias *out)
{
    for (uint32_t i = 0; i < texts->n; i++) {
        clv_status status = read_bias(texts->items[i], &out[i]);
        if (status)
            return status;
    }
    return CLV_OK;
}

/* copies: of the texts, with their escapes read; freed by the caller. */
static clv_status set_breakers(const tool_strings *given, clv_sampler_params *p,
                               char *copies[TOOL_LIST_MAX])
{
    if (!given->n)
        return CLV_OK;
    for (uint32_t i = 0; i < given->n; i++) {
        copies[i] = strdup(given->items[i]);
        if (!copies[i])
            return clv_error(CLV_ERR_NO_MEMORY, "no memory for breakers");
        tool_unescape(copies[i], strlen(copies[i]));
    }
    p->dry_breakers = (const char *const *)copies;
    p->n_dry_breakers =
        given->n == 1 && !strcmp(given->items[0], "none") ? 0 : given->n;
    return CLV_OK;
}

/* NULL where no grammar is wanted. */
static clv_status read_grammar(const tool_sampling *args, char **grammar)
{
    const char *path =
        args->grammar_file ? args->grammar_file : args->schema_file;
    const char *given = args->grammar ? args->grammar : args->schema;
    char *text = NULL;
    uint64_t length = 0;
    if (!path && !given)
        return CLV_OK;
    clv_status status = CLV_OK;
    if (path) {
        status = tool_read_file(path, &text, &length);
    } else if ((text = strdup(given))) {
        length = strlen(text);
    } else {
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory for the grammar");
    }
    if (status)
        return status;
    if (strlen(text) != length) {
        free(text);
        return clv_error(CLV_ERR_INVALID, "%s: a grammar with a byte of zero",
                         path);
    }
    if (args->grammar || args->grammar_file) {
        *grammar = text;
        return CLV_OK;
    }
    status = clv_json_schema_grammar(text, length, grammar);
    free(text);
    return status;
}

/* -1: the context, as far as a window can reach. */
static uint32_t window(int64_t given, uint32_t n_ctx)
{
    const uint32_t all = n_ctx < WINDOW_MAX ? n_ctx : WINDOW_MAX;
    return given < 0 ? all : (uint32_t)given;
}

clv_status tool_sampling_create(const tool_sampling *args,
                                const clv_model *model, uint32_t n_ctx,
                                uint64_t *seed, clv_sampler **out)
{
    uint32_t drawn = 0;
    clv_logit_bias bias[TOOL_LIST_MAX];
    char *grammar = NULL, *breakers[TOOL_LIST_MAX] = {NULL};
    if (args->seed < 0 && getrandom(&drawn, sizeof drawn, 0) < 0)
        return clv_error(CLV_ERR_IO, "no random seed: %s; give one with -s",
                         strerror(errno));
    *seed = args->seed < 0 ? drawn : (uint64_t)args->seed;
    clv_sampler_params p = clv_sampler_defaults();
    p.temperature = (float)args->temperature;
    p.top_k = (uint32_t)args->top_k;
    p.top_p = (float)args->top_p;
    p.min_p = (float)args->min_p;
    p.repeat_penalty = (float)args->repeat_penalty;
    p.repeat_last = window(args->repeat_last, n_ctx);
    p.seed = *seed;
    p.frequency_penalty = (float)args->frequency_penalty;
    p.presence_penalty = (float)args->presence_penalty;
    p.dry_multiplier = (float)args->dry_multiplier;
    p.dry_base = (float)args->dry_base;
    p.dry_allowed_length = (uint32_t)args->dry_length;
    p.dry_last = window(args->dry_last, n_ctx);
    p.top_n_sigma = (float)args->top_n_sigma;
    p.typical_p = (float)args->typical_p;
    p.xtc_probability = (float)args->xtc_probability;
    p.xtc_threshold = (float)args->xtc_threshold;
    p.dynatemp_range = (float)args->dynatemp_range;
    p.dynatemp_exponent = (float)args->dynatemp_exponent;
    p.mirostat = (uint32_t)args->mirostat;
    p.mirostat_tau = (float)args->mirostat_tau;
    p.mirostat_eta = (float)args->mirostat_eta;
    p.chain = args->samplers;
    p.bias = bias;
    p.n_bias = args->logit_bias.n;
    p.tokenizer = clv_model_tokenizer(model);
    clv_status status = set_breakers(&args->dry_breakers, &p, breakers);
    if (!status)
        status = read_biases(&args->logit_bias, bias);
    if (!status)
        status = read_grammar(args, &grammar);
    p.grammar = grammar;
    if (!status)
        status =
            clv_sampler_create(&p, clv_model_describe(model)->n_vocab, out);
    clv_string_free(grammar);
    for (uint32_t i = 0; i < TOOL_LIST_MAX; i++)
        free(breakers[i]);
    return status;
}
