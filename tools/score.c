#include "score.h"

#include "interrupt.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scoring {
    const tool_score_params *params;
    tool_env *env;
    clv_model *model;
    clv_session *session;
    int32_t *ids; /* of the text */
    uint64_t n_ids;
    int32_t *window;                /* [n_ctx] */
    int32_t bos;                    /* -1: none */
    uint64_t n_windows, per_window; /* text tokens of a window */
    uint64_t tokens;                /* scored */
    double nll;                     /* their sum */
} scoring;

/* ------------------------------------------------------------------------ */

/* -log softmax(logits)[id] */
static double surprise(const float *logits /* [n] */, uint32_t n, int32_t id)
{
    float max = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)expf(logits[i] - max);
    return log(sum) + (double)max - (double)logits[id];
}

/* Runs all of the window but its last token, which is only predicted. */
static clv_status score_window(scoring *state)
{
    uint32_t n = (uint32_t)state->params->n_ctx - 1;
    uint32_t n_vocab = clv_model_describe(state->model)->n_vocab;
    clv_status status = clv_session_truncate(state->session, 0);
    for (uint32_t i = 0; !status && i < n;) {
        const float *logits; /* [step, n_vocab] */
        uint32_t step = (uint32_t)state->params->n_batch;
        if (step > n - i)
            step = n - i;
        status = clv_session_eval(state->session, state->window + i, step,
                                  CLV_LOGITS_ALL, &logits);
        for (uint32_t k = 0; !status && k < step; k++)
            state->nll += surprise(logits + (uint64_t)k * n_vocab, n_vocab,
                                   state->window[i + k + 1]);
        i += step;
    }
    if (!status)
        state->tokens += n;
    if (!status && !isfinite(state->nll))
        status = clv_error(CLV_ERR_INTERNAL,
                           "%s: predictions that are not "
                           "finite numbers, after %" PRIu64 " tokens",
                           state->params->model, state->tokens);
    return status;
}

static clv_status score(scoring *state)
{
    clv_status status = CLV_OK;
    uint32_t n_bos = state->bos >= 0;
    char what[64] = "perplexity";
    for (uint64_t i = 0; !status && i < state->n_windows; i++) {
        if (tool_progress_report(&state->env->progress, what,
                                 (double)i / (double)state->n_windows))
            return clv_error(CLV_ERR_CANCELLED, "interrupted");
        if (n_bos)
            state->window[0] = state->bos;
        memcpy(state->window + n_bos, state->ids + i * state->per_window,
               state->per_window * sizeof *state->window);
        status = score_window(state);
        if (!status)
            snprintf(what, sizeof what, "perplexity %.4f",
                     exp(state->nll / (double)state->tokens));
    }
    return status;
}

/* ------------------------------------------------------------------------ */

clv_status tool_tokenize_file(const clv_model *model, const char *path,
                              const char *file, int32_t **ids, uint64_t *n)
{
    char *text;
    uint64_t length;
    CLV_TRY(tool_need_tokenizer(model, path));
    CLV_TRY(tool_read_file(file, &text, &length));
    clv_status status =
        clv_tokenize(clv_model_tokenizer(model), text, length, 0, ids, n);
    free(text);
    if (status)
        return status;
    uint32_t n_vocab = clv_model_describe(model)->n_vocab;
    for (uint64_t i = 0; i < *n; i++)
        if ((uint32_t)(*ids)[i] >= n_vocab)
            return clv_error(CLV_ERR_FORMAT,
                             "%s: the tokenizer gives id %d, "
                             "the model has a vocabulary of %" PRIu32,
                             path, (*ids)[i], n_vocab);
    return CLV_OK;
}

static clv_status cut_windows(scoring *state)
{
    const tool_score_params *p = state->params;
    state->bos = clv_tokenizer_describe(clv_model_tokenizer(state->model)).bos;
    state->per_window = p->n_ctx - (state->bos >= 0);
    state->n_windows = state->n_ids / state->per_window;
    if (state->n_windows == 0)
        return clv_error(CLV_ERR_INVALID,
                         "%s: has %" PRIu64 " tokens, one "
                         "window takes %" PRIu64 "; take a longer text or a "
                         "smaller -c",
                         p->file, state->n_ids, state->per_window);
    if (p->chunks >= 0 && (uint64_t)p->chunks < state->n_windows)
        state->n_windows = (uint64_t)p->chunks;
    state->window = malloc(p->n_ctx * sizeof *state->window);
    return state->window
               ? CLV_OK
               : clv_error(CLV_ERR_NO_MEMORY,
                           "no memory for a window of %" PRIu32 " tokens",
                           p->n_ctx);
}

static clv_status make_session(scoring *state)
{
    static const tool_strings none = {.n = 0};
    const tool_score_params *p = state->params;
    const clv_session_params params = {
        .n_ctx = p->n_ctx,
        .n_batch = p->n_batch,
        .kv_dtype = p->kv_dtype,
    };
    clv_status status = tool_session_create(
        state->model, &params, p->plans ? p->plans : &none, &state->session);
    if (!status)
        tool_interrupt_target(state->session);
    return status;
}

clv_status tool_score_text(tool_env *env, clv_model *model,
                           const tool_score_params *params, tool_score *out)
{
    scoring state = {.params = params, .env = env, .model = model};
    clv_status status = tool_tokenize_file(model, params->model, params->file,
                                           &state.ids, &state.n_ids);
    if (!status)
        status = cut_windows(&state);
    if (!status)
        status = make_session(&state);
    const uint64_t begin_ns = clv_now_ns();
    if (!status)
        status = score(&state);
    tool_progress_clear(&env->progress);
    *out =
        (tool_score){state.tokens, state.n_windows,
                     state.nll / (double)state.tokens, clv_now_ns() - begin_ns};
    tool_interrupt_target(NULL);
    clv_session_destroy(state.session);
    clv_tokens_free(state.ids);
    free(state.window);
    return status;
}
