#include "../base/str.h"
#include "../base/utf8.h"
#include "evaluate.h"
#include "../sampling/sampler.h"

#include <stdlib.h>
#include <string.h>

/* A generation in progress. */
typedef struct generation {
    clv_session *session;
    clv_sampler *sampler;
    const clv_generate_params *params;
    const clv_model *model;
    llm_utf8 utf8;
    clv_generate_stats stats;
    const float *logits;
    uint32_t n_prefix; /* tokens in the cache behind the prompt */
} generation;

/* Runs the prompt in batches. On failure none of it stays in the cache. */
static clv_status run_prompt(generation *g)
{
    const clv_generate_params *p = g->params;
    clv_status status = llm_session_check(g->session, p->prompt, p->n_prompt);
    if (status)
        return clv_error_prefix(status, "prompt");

    const uint32_t at_once = llm_session_at_once(g->session, p->n_prompt);
    const uint32_t position = clv_session_position(g->session);
    for (uint32_t done = 0; done < p->n_prompt && !status;) {
        const uint32_t left = p->n_prompt - done;
        const uint32_t n = left < at_once ? left : at_once;
        status = clv_session_eval(g->session, p->prompt + done, n,
                                  n == left ? CLV_LOGITS_LAST : CLV_LOGITS_NONE,
                                  &g->logits);
        if (status)
            break;
        done += n;
        g->stats.n_prompt = done;
        if (p->progress &&
            p->progress(p->progress_ctx, "prompt", (double)done / p->n_prompt))
            status = clv_error(CLV_ERR_CANCELLED,
                               "cancelled after %u of %u prompt tokens", done,
                               p->n_prompt);
    }
    if (status) {
        clv_session_truncate(g->session, position);
        return status;
    }
    g->n_prefix = clv_session_position(g->session);
    clv_sampler_restart(g->sampler);
    clv_sampler_prime(g->sampler, p->prompt, p->n_prompt);
    return CLV_OK;
}

/* Passes a token to the caller; sets *stop if the caller asks to stop. */
static clv_status report(generation *g, int32_t id, bool *stop)
{
    const clv_generate_params *p = g->params;
    const char *bytes = "", *text;
    uint32_t n = 0, length;
    *stop = false;
    if (!p->on_token)
        return CLV_OK;
    if (g->model->tokenizer)
        bytes = clv_token_bytes(g->model->tokenizer, id, &n);
    CLV_TRY(llm_utf8_feed(&g->utf8, bytes, n, &text, &length));
    *stop = p->on_token(p->on_token_ctx, id, text, length) != 0;
    return CLV_OK;
}

/* The text may end inside a character. */
static clv_status report_end(generation *g)
{
    const clv_generate_params *p = g->params;
    const char *text;
    uint32_t length;
    if (!p->on_token || g->stats.stop == CLV_STOP_CALLBACK)
        return CLV_OK;
    CLV_TRY(llm_utf8_end(&g->utf8, &text, &length));
    if (length)
        p->on_token(p->on_token_ctx, -1, text, length);
    return CLV_OK;
}

/* Forgets the earlier half of what is not kept. Cached keys are rotated by
 * their positions and values depend on what was before them, so the rest is
 * evaluated again: that is right for every architecture. */
static clv_status shift(generation *g, bool *shifted)
{
    const uint32_t n = clv_session_position(g->session);
    const uint32_t most = g->params->n_keep;
    const uint32_t keep = most < g->n_prefix ? most : g->n_prefix;
    const uint32_t gone = (n - keep) / 2, left = n - keep - gone;
    *shifted = gone > 0;
    if (!gone)
        return CLV_OK;
    int32_t *ids = malloc(left * sizeof *ids);
    if (!ids)
        return llm_no_memory("tokens");
    memcpy(ids, llm_session_ids(g->session) + keep + gone, left * sizeof *ids);
    clv_status status = clv_session_truncate(g->session, keep);
    if (!status)
        status = clv_session_eval(g->session, ids, left, CLV_LOGITS_NONE, NULL);
    free(ids);
    return status;
}

/* Evaluates the latest token; *full if it does not fit the context. */
static clv_status go_on(generation *g, int32_t id, bool *full)
{
    *full = clv_session_position(g->session) == clv_session_n_ctx(g->session);
    if (*full && g->params->shift) {
        bool shifted;
        CLV_TRY(shift(g, &shifted));
        *full = !shifted;
    }
    return *full ? CLV_OK
                 : clv_session_eval(g->session, &id, 1, CLV_LOGITS_LAST,
                                    &g->logits);
}

/* Samples until there is a reason to stop. A token enters the cache when the
 * next one is computed, so the last one never does. */
static clv_status run_tokens(generation *g)
{
    const clv_generate_params *p = g->params;
    clv_generate_stats *stats = &g->stats;
    int32_t id = -1;
    while (p->n_predict < 0 || stats->n_generated < (uint32_t)p->n_predict) {
        if (id >= 0) {
            bool full;
            CLV_TRY(go_on(g, id, &full));
            if (full) {
                stats->stop = CLV_STOP_CONTEXT;
                return CLV_OK;
            }
        }
        CLV_TRY(clv_sampler_sample(g->sampler, g->logits, &id));
        clv_sampler_accept(g->sampler, id);
        if (llm_model_is_end(g->model, id) &&
            (!p->ignore_end || llm_sampler_is_bound(g->sampler))) {
            stats->stop = CLV_STOP_END;
            return CLV_OK;
        }
        stats->n_generated++;
        bool stop;
        CLV_TRY(report(g, id, &stop));
        if (stop) {
            stats->stop = CLV_STOP_CALLBACK;
            return CLV_OK;
        }
    }
    stats->stop = CLV_STOP_LIMIT;
    return CLV_OK;
}

static clv_status check_params(clv_session *session, clv_sampler *sampler,
                               const clv_generate_params *params)
{
    if (!session || !sampler || !params)
        return clv_error(CLV_ERR_INVALID,
                         "clv_generate: session, sampler or params is NULL");
    if (!params->prompt || !params->n_prompt)
        return clv_error(CLV_ERR_INVALID,
                         "the prompt is empty; give it at least one token");
    if (params->n_predict < -1)
        return clv_error(CLV_ERR_INVALID,
                         "%d tokens to predict; give 0 or more, or -1 for no "
                         "limit",
                         params->n_predict);
    return llm_sampler_check(sampler, llm_session_model(session)->hp->n_vocab);
}

clv_status clv_generate(clv_session *session, clv_sampler *sampler,
                        const clv_generate_params *params,
                        clv_generate_stats *stats)
{
    if (stats)
        *stats = (clv_generate_stats){0};
    CLV_TRY(check_params(session, sampler, params));
    generation g = {
        .session = session,
        .sampler = sampler,
        .params = params,
        .model = llm_session_model(session),
    };
    clv_watch *watch;
    CLV_TRY(clv_watch_create(g.model->ctx, &watch));
    clv_status status = run_prompt(&g);
    clv_elapsed took = clv_watch_read(watch, clv_session_plan(session));
    g.stats.prompt_ns = (uint64_t)took.ns;
    if (!status) {
        clv_watch_start(watch);
        status = run_tokens(&g);
        if (!status)
            status = report_end(&g);
        took = clv_watch_read(watch, clv_session_plan(session));
        g.stats.generate_ns = (uint64_t)took.ns;
    }
    g.stats.is_virtual = took.is_virtual;
    clv_watch_destroy(watch);
    if (!status)
        llm_session_forget_cancel(session);
    llm_utf8_finish(&g.utf8);
    if (stats)
        *stats = g.stats;
    return status;
}
