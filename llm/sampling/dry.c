#include "dry.h"

#include "../base/str.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Breakers                                                                 */

static clv_status copy_breakers(llm_dry *d, const clv_sampler_params *p)
{
    if (!p->n_dry_breakers)
        return CLV_OK;
    if (!p->dry_breakers || !p->tokenizer)
        return clv_error(
            CLV_ERR_INVALID,
            "DRY: sequence breakers are texts, and there is no "
            "tokenizer to find them with; set "
            "clv_sampler_params.tokenizer, or n_dry_breakers to 0");
    if (p->n_dry_breakers > LLM_DRY_BREAKERS)
        return clv_error(CLV_ERR_LIMIT, "DRY: %u sequence breakers; at most %u",
                         p->n_dry_breakers, LLM_DRY_BREAKERS);
    for (uint32_t i = 0; i < p->n_dry_breakers; i++) {
        const size_t size = p->dry_breakers[i] ? strlen(p->dry_breakers[i]) : 0;
        if (!size || size > LLM_DRY_BREAKER_SIZE)
            return clv_error(CLV_ERR_LIMIT,
                             "DRY: sequence breaker %u has %zu bytes; it must "
                             "have 1..%u",
                             i, size, LLM_DRY_BREAKER_SIZE);
        d->breakers[i] = strdup(p->dry_breakers[i]);
        if (!d->breakers[i])
            return llm_no_memory("a sampler");
        d->n_breakers++;
    }
    return CLV_OK;
}

/* Whether a breaker ends in the last n of the bytes. */
static bool breaks(const llm_dry *d, const char *bytes, uint32_t size,
                   uint32_t n)
{
    for (uint32_t i = 0; i < d->n_breakers; i++) {
        const uint32_t length = (uint32_t)strlen(d->breakers[i]);
        uint32_t end = size - n + 1 > length ? size - n + 1 : length;
        for (; end <= size; end++)
            if (!memcmp(bytes + end - length, d->breakers[i], length))
                return true;
    }
    return false;
}

/* Whether a breaker lies in the text of a token, which so is one itself. */
static bool is_breaker(const llm_dry *d, int32_t id)
{
    uint32_t n = 0;
    const char *bytes =
        d->n_breakers ? clv_token_bytes(d->tokenizer, id, &n) : NULL;
    return n && breaks(d, bytes, n, n);
}

/* ------------------------------------------------------------------------ */

clv_status llm_dry_init(llm_dry *d, const clv_sampler_params *params,
                        uint32_t n_vocab)
{
    *d = (llm_dry){.multiplier = params->dry_multiplier,
                   .base = params->dry_base,
                   .allowed = params->dry_allowed_length,
                   .last = params->dry_last,
                   .tokenizer = params->tokenizer};
    if (d->multiplier == 0 || d->base < 1 || !d->last) {
        d->multiplier = 0;
        return CLV_OK;
    }
    CLV_TRY(copy_breakers(d, params));
    d->matches = calloc(d->last, sizeof *d->matches);
    d->lengths = calloc(n_vocab, sizeof *d->lengths);
    return d->matches && d->lengths ? CLV_OK : llm_no_memory("a sampler");
}

void llm_dry_finish(llm_dry *d)
{
    for (uint32_t i = 0; i < d->n_breakers; i++)
        free(d->breakers[i]);
    free(d->matches);
    free(d->lengths);
    *d = (llm_dry){0};
}

void llm_dry_clear(llm_dry *d)
{
    d->n_tail = 0;
    d->since = 0;
}

void llm_dry_add(llm_dry *d, int32_t id)
{
    char text[512 + LLM_DRY_BREAKER_SIZE];
    uint32_t n = 0;
    d->since++;
    if (!d->n_breakers)
        return;
    const char *bytes = clv_token_bytes(d->tokenizer, id, &n);
    /* Of a long token, pieces. */
    while (n) {
        const uint32_t piece = n < 512 ? n : 512, size = d->n_tail + piece;
        memcpy(text, d->tail, d->n_tail);
        memcpy(text + d->n_tail, bytes, piece);
        if (breaks(d, text, size, piece))
            d->since = 0;
        d->n_tail = size < sizeof d->tail ? size : (uint32_t)sizeof d->tail;
        memcpy(d->tail, text + size - d->n_tail, d->n_tail);
        bytes += piece;
        n -= piece;
    }
}

/* matches[i]: how many tokens before the i-th latest one, with it, are those
 * that the history ends with; by the Z algorithm, in linear time. Sequences
 * are no longer than most. */
static void find_matches(llm_dry *d, const llm_history *h, uint32_t n,
                         uint32_t most)
{
    uint32_t *z = d->matches;
    uint32_t from = 0, to = 0; /* of the match that reaches farthest */
    for (uint32_t i = 1; i < n; i++) {
        uint32_t k = 0;
        if (i < to)
            k = z[i - from] < to - i ? z[i - from] : to - i;
        while (i + k < n &&
               llm_history_back(h, k) == llm_history_back(h, i + k))
            k++;
        z[i] = k;
        if (i + k > to) {
            from = i;
            to = i + k;
        }
    }
    for (uint32_t i = 1; i < n; i++)
        if (z[i] > most)
            z[i] = most;
}

static double penalty(const llm_dry *d, uint32_t length)
{
    const double x = d->multiplier * pow(d->base, length - d->allowed);
    return x < FLT_MAX ? x : FLT_MAX;
}

void llm_dry_apply(llm_dry *d, const llm_history *h, llm_candidates *c)
{
    const uint32_t n = h->n < d->last ? h->n : d->last;
    const uint32_t most = d->since < n ? (uint32_t)d->since : n;
    if (d->multiplier == 0 || n < 2 || most < d->allowed || !most)
        return;
    find_matches(d, h, n, most);
    /* A match is followed by the token behind it. */
    for (uint32_t i = 1; i < n; i++) {
        const int32_t next = llm_history_back(h, i - 1);
        if (d->matches[i] >= d->allowed && d->matches[i] > d->lengths[next])
            d->lengths[next] = d->matches[i];
    }
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t length = d->lengths[c->items[i].id];
        if (!length || is_breaker(d, c->items[i].id))
            continue;
        const double x = c->items[i].logit - penalty(d, length);
        c->items[i].logit = (float)fmax(-FLT_MAX, fmin(FLT_MAX, x));
    }
    for (uint32_t i = 1; i < n; i++)
        d->lengths[llm_history_back(h, i - 1)] = 0;
}
