#include "ptx.h"

#include <stdlib.h>
#include <string.h>

#define MARK "//@"
#define VERSION ".version "
#define LEAST_VERSION 8.0
#define TARGET ".target sm_"
#define GROWTH 64 /* bytes that the head may become longer by */

bool gpu_ptx_is_closed(const char *source)
{
    return strstr(source, MARK) != NULL;
}

/* Where a line begins with the word; NULL: none does. */
static const char *find_line(const char *text, const char *word)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (!strncmp(text, word, strlen(word)))
            return text;
    return NULL;
}

static char *append(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

/* The head with our version and target; *text: what is behind. */
static char *put_head(char *to, const char **text, const char *version,
                      const char *target)
{
    const char *behind = version + strcspn(version, "\n");
    const size_t before = (size_t)(version - *text);
    to = append(to, *text, before);
    if (strtod(version + strlen(VERSION), NULL) < LEAST_VERSION)
        to = append(to, VERSION "8.0", strlen(VERSION "8.0"));
    else
        to = append(to, version, (size_t)(behind - version));
    to = append(to, behind, (size_t)(target - behind));
    to = append(to, TARGET "90a", strlen(TARGET "90a"));
    *text = target + strlen(TARGET) + strcspn(target + strlen(TARGET), ", \n");
    return to;
}

static char *open_text(const clv_host_api *host, const char *text,
                       const char **why)
{
    const char *version = find_line(text, VERSION);
    const char *target = version ? find_line(version, TARGET) : NULL;
    *why = !target               ? "its binary is no PTX"
           : !strstr(text, MARK) ? "its PTX lost what is to be opened"
                                 : NULL;
    if (*why)
        return NULL;
    char *out = clv_new(host, strlen(text) + GROWTH), *to = out;
    if (!out)
        return NULL;
    to = put_head(to, &text, version, target);
    for (const char *at; (at = strstr(text, MARK)); text = at + strlen(MARK))
        to = append(to, text, (size_t)(at - text));
    append(to, text, strlen(text) + 1);
    return out;
}

char *gpu_ptx_open(const clv_host_api *host, const char *ptx, size_t size,
                   const char **why)
{
    char *text = clv_new(host, size + 1), *out;
    *why = NULL;
    if (!text)
        return NULL;
    memcpy(text, ptx, size);
    out = open_text(host, text, why);
    clv_free(host, text);
    return out;
}
