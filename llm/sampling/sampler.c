#include "sampler.h"

#include "../base/str.h"
#include "../grammar/matcher.h"
#include "draw.h"
#include "dry.h"
#include "filters.h"
#include "params.h"
#include "penalties.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHAIN 32

typedef void (*step)(clv_sampler *s);

struct clv_sampler {
    clv_sampler_params params; /* its pointers are not used */
    uint32_t n_vocab;
    const clv_tokenizer *tokenizer;
    llm_random rng;
    llm_candidates candidates; /* space for n_vocab */
    float *bias;               /* [n_vocab], or NULL */
    step chain[MAX_CHAIN];
    uint32_t n_chain;
    llm_history history;
    llm_penalties penalties;
    llm_dry dry;
    llm_mirostat mirostat;
    llm_grammar *grammar; /* NULL: any text */
    llm_matcher *matcher;
};

/* ------------------------------------------------------------------------ */
/* The chain                                                                */

static void penalties(clv_sampler *s)
{
    llm_penalties_apply(&s->penalties, &s->candidates);
}

static void dry(clv_sampler *s)
{
    llm_dry_apply(&s->dry, &s->history, &s->candidates);
}

static void top_n_sigma(clv_sampler *s)
{
    llm_filter_top_n_sigma(&s->candidates, s->params.top_n_sigma);
}

static void top_k(clv_sampler *s)
{
    llm_filter_top_k(&s->candidates, s->params.top_k);
}

static void typical(clv_sampler *s)
{
    llm_filter_typical(&s->candidates, s->params.typical_p);
}

static void top_p(clv_sampler *s)
{
    llm_filter_top_p(&s->candidates, s->params.top_p);
}

static void min_p(clv_sampler *s)
{
    llm_filter_min_p(&s->candidates, s->params.min_p);
}

static void xtc(clv_sampler *s)
{
    llm_filter_xtc(&s->candidates, s->params.xtc_probability,
                   s->params.xtc_threshold, &s->rng);
}

static void temperature(clv_sampler *s)
{
    llm_temperature(&s->candidates, s->params.temperature,
                    s->params.dynatemp_range, s->params.dynatemp_exponent);
}

static const struct {
    const char *name;
    step apply;
} steps[] = {
    {"penalties", penalties}, {"dry", dry},       {"top_n_sigma", top_n_sigma},
    {"top_k", top_k},         {"typ_p", typical}, {"top_p", top_p},
    {"min_p", min_p},         {"xtc", xtc},       {"temperature", temperature},
};

static const char default_chain[] =
    "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";

static clv_status parse_chain(clv_sampler *s, const char *text)
{
    for (const char *p = text; *p;) {
        const size_t length = strcspn(p, ";"), n = sizeof steps / sizeof *steps;
        size_t i = 0;
        while (i < n && (strlen(steps[i].name) != length ||
                         memcmp(steps[i].name, p, length)))
            i++;
        if (i == n)
            return clv_error(CLV_ERR_INVALID,
                             "unknown sampler '%s' in the chain; there are %s",
                             llm_str_show((llm_str){p, length}).text,
                             default_chain);
        if (s->n_chain == MAX_CHAIN)
            return clv_error(CLV_ERR_LIMIT, "a chain of more than %d samplers",
                             MAX_CHAIN);
        s->chain[s->n_chain++] = steps[i].apply;
        p += length + (p[length] == ';');
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Choosing                                                                 */

static bool fits_grammar(clv_sampler *s, int32_t id)
{
    uint32_t n;
    if (clv_token_is_end(s->tokenizer, id))
        return llm_matcher_is_complete(s->matcher);
    const char *bytes = clv_token_bytes(s->tokenizer, id, &n);
    return n && llm_matcher_accepts(s->matcher, bytes, n);
}

/* All tokens that can be drawn; bound: only those that fit the grammar. */
static void gather(clv_sampler *s, const float *logits, bool bound)
{
    llm_candidate *c = s->candidates.items;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const float x = s->bias ? logits[i] + s->bias[i] : logits[i];
        if (isfinite(x) && (!bound || fits_grammar(s, (int32_t)i)))
            c[n++] = (llm_candidate){.logit = x, .id = (int32_t)i};
    }
    s->candidates.n = n;
}

/* There is at least one candidate. */
static int32_t choose(clv_sampler *s)
{
    llm_candidates *c = &s->candidates;
    const bool greedy =
        s->params.temperature <= 0 && s->params.dynatemp_range <= 0;
    if (greedy) {
        penalties(s);
        dry(s);
        return llm_candidates_best(c).id;
    }
    if (s->mirostat.version) {
        temperature(s);
        return llm_mirostat_draw(&s->mirostat, c, s->n_vocab, &s->rng);
    }
    for (uint32_t i = 0; i < s->n_chain; i++)
        s->chain[i](s);
    return c->items[llm_draw(c, &s->rng)].id;
}

/* Nearly always the first choice fits, and is all that has to be tried. */
static clv_status choose_bound(clv_sampler *s, const float *logits, int32_t *id)
{
    const llm_mirostat mirostat = s->mirostat;
    int32_t chosen = choose(s);
    if (!fits_grammar(s, chosen)) {
        s->mirostat = mirostat;
        gather(s, logits, true);
        CLV_TRY(llm_matcher_status(s->matcher));
        if (!s->candidates.n)
            return clv_error(CLV_ERR_INVALID,
                             llm_matcher_is_complete(s->matcher)
                                 ? "the grammar's text is complete, and the "
                                   "vocabulary has no token that ends a text; "
                                   "limit the number of tokens"
                                 : "no token of the vocabulary goes on with "
                                   "what the grammar accepts");
        chosen = choose(s);
    }
    CLV_TRY(llm_matcher_status(s->matcher));
    *id = chosen;
    return CLV_OK;
}

clv_status clv_sampler_sample(clv_sampler *sampler, const float *logits,
                              int32_t *id)
{
    clv_sampler *s = sampler;
    if (!s || !logits || !id)
        return clv_error(CLV_ERR_INVALID,
                         "clv_sampler_sample: sampler, logits or id is NULL");
    gather(s, logits, false);
    if (!s->candidates.n)
        return clv_error(CLV_ERR_INVALID,
                         "none of %u logits is finite; the model's weights are "
                         "damaged or too large for their type",
                         s->n_vocab);
    if (s->matcher)
        return choose_bound(s, logits, id);
    *id = choose(s);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* History                                                                  */

static bool remember(clv_sampler *s, int32_t id)
{
    if (!s || id < 0 || (uint32_t)id >= s->n_vocab)
        return false;
    llm_penalties_add(&s->penalties, &s->history, id);
    llm_history_add(&s->history, id);
    llm_dry_add(&s->dry, id);
    return true;
}

void clv_sampler_accept(clv_sampler *sampler, int32_t id)
{
    uint32_t n;
    if (!remember(sampler, id) || !sampler->matcher ||
        clv_token_is_end(sampler->tokenizer, id))
        return;
    const char *bytes = clv_token_bytes(sampler->tokenizer, id, &n);
    llm_matcher_advance(sampler->matcher, bytes, n);
}

void clv_sampler_prime(clv_sampler *sampler, const int32_t *ids, uint64_t n)
{
    for (uint64_t i = 0; ids && i < n; i++)
        remember(sampler, ids[i]);
}

void clv_sampler_restart(clv_sampler *sampler)
{
    if (!sampler)
        return;
    sampler->mirostat.mu = 2 * sampler->mirostat.tau;
    if (sampler->matcher)
        llm_matcher_restart(sampler->matcher);
}

void clv_sampler_reset(clv_sampler *sampler)
{
    if (!sampler)
        return;
    clv_sampler_restart(sampler);
    llm_history_clear(&sampler->history);
    llm_penalties_clear(&sampler->penalties, sampler->n_vocab);
    llm_dry_clear(&sampler->dry);
}

clv_status llm_sampler_check(const clv_sampler *sampler, uint32_t n_vocab)
{
    if (sampler->n_vocab == n_vocab)
        return CLV_OK;
    return clv_error(CLV_ERR_INVALID,
                     "the sampler is for %u tokens, the model has %u",
                     sampler->n_vocab, n_vocab);
}

bool llm_sampler_is_bound(const clv_sampler *sampler)
{
    return sampler->matcher != NULL;
}

/* ------------------------------------------------------------------------ */
/* Creation                                                                 */

static clv_status set_bias(clv_sampler *s, const clv_sampler_params *p)
{
    if (!p->n_bias)
        return CLV_OK;
    s->bias = calloc(s->n_vocab, sizeof *s->bias);
    if (!s->bias)
        return llm_no_memory("a sampler");
    for (uint32_t i = 0; i < p->n_bias; i++)
        s->bias[p->bias[i].id] += p->bias[i].bias;
    return CLV_OK;
}

static clv_status set_grammar(clv_sampler *s, const clv_sampler_params *p)
{
    if (!p->grammar)
        return CLV_OK;
    if (!p->tokenizer)
        return clv_error(CLV_ERR_INVALID,
                         "a grammar accepts texts, and there is no tokenizer "
                         "to make them with; set clv_sampler_params.tokenizer");
    CLV_TRY(llm_grammar_parse(p->grammar, strlen(p->grammar), &s->grammar));
    return llm_matcher_create(s->grammar, &s->matcher);
}

static clv_status init(clv_sampler *s, const clv_sampler_params *p)
{
    s->candidates.items = calloc(s->n_vocab, sizeof *s->candidates.items);
    if (!s->candidates.items)
        return llm_no_memory("a sampler");
    CLV_TRY(parse_chain(s, p->chain ? p->chain : default_chain));
    CLV_TRY(set_bias(s, p));
    CLV_TRY(llm_penalties_init(&s->penalties, p, s->n_vocab));
    CLV_TRY(llm_dry_init(&s->dry, p, s->n_vocab));
    const uint32_t seen = s->penalties.counts ? s->penalties.last : 0;
    const uint32_t repeated = s->dry.multiplier > 0 ? s->dry.last : 0;
    CLV_TRY(llm_history_init(&s->history, seen > repeated ? seen : repeated));
    s->mirostat = (llm_mirostat){p->mirostat, p->mirostat_tau, p->mirostat_eta,
                                 2 * p->mirostat_tau};
    return set_grammar(s, p);
}

clv_status clv_sampler_create(const clv_sampler_params *params,
                              uint32_t n_vocab, clv_sampler **out)
{
    if (!out)
        return clv_error(CLV_ERR_INVALID, "clv_sampler_create: out is NULL");
    *out = NULL;
    const clv_sampler_params p = params ? *params : clv_sampler_defaults();
    CLV_TRY(llm_sampler_params_check(&p, n_vocab));

    clv_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return llm_no_memory("a sampler");
    s->params = p;
    s->n_vocab = n_vocab;
    s->tokenizer = p.tokenizer;
    llm_random_seed(&s->rng, p.seed);
    clv_status status = init(s, &p);
    if (status) {
        clv_sampler_destroy(s);
        return status;
    }
    *out = s;
    return CLV_OK;
}

void clv_sampler_destroy(clv_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->candidates.items);
    free(sampler->bias);
    llm_history_finish(&sampler->history);
    llm_penalties_finish(&sampler->penalties);
    llm_dry_finish(&sampler->dry);
    llm_matcher_destroy(sampler->matcher);
    llm_grammar_destroy(sampler->grammar);
    free(sampler);
}
