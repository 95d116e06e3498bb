#include "evaluate.h"

#include "../base/str.h"
#include "../models/rope.h"
#include "session_loss.h"
#include "split.h"

#include <stdlib.h>
#include <string.h>

clv_status llm_session_check(const clv_session *session, const int32_t *ids,
                             uint32_t n)
{
    const uint32_t n_vocab = session->model->hp->n_vocab;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return clv_error(CLV_ERR_INVALID,
                             "token %u is id %d; the vocabulary has 0..%u", i,
                             ids[i], n_vocab - 1);
    const uint64_t needed = (uint64_t)session->now->position + n;
    if (needed > session->n_ctx)
        return clv_error(CLV_ERR_LIMIT,
                         "context of %u tokens is too small: %u in it and %u "
                         "more need %llu; use a larger context (n_ctx %llu)",
                         session->n_ctx, session->now->position, n,
                         (unsigned long long)needed,
                         (unsigned long long)needed);
    return CLV_OK;
}

void llm_session_forget_dropped(clv_session *s)
{
    if (!llm_runners_hold(&s->runners, s->latest))
        s->latest = NULL;
    if (!llm_runners_hold(&s->runners, s->several))
        s->several = NULL;
}

/* It may replace the latest one. */
static clv_status take_runner(clv_session *s, const llm_request *request,
                              llm_runner **out)
{
    const clv_status status = llm_runners_get(&s->runners, request, out);
    llm_session_forget_dropped(s);
    return status;
}

/* For n more tokens, once `ahead` others have been run. */
static llm_request request_of(const clv_session *s, uint32_t n, uint32_t ahead,
                              uint32_t which)
{
    const uint32_t left = s->n_ctx - s->now->position - ahead;
    return (llm_request){.n = n,
                         .n_free = left > n ? left : n,
                         .all_logits = which == CLV_LOGITS_ALL && n > 1};
}

static llm_input input_of(const clv_session *s, const int32_t *ids, uint32_t n)
{
    return (llm_input){
        .ids = ids,
        .n = n,
        .first = {(uint32_t)(s->now - s->sequences), s->now->position},
        .far = s->far};
}

/* Fills the cache again, with the tokens of the selected sequence. */
static clv_status replay_one(clv_session *s)
{
    const uint32_t end = s->now->position;
    clv_status status = CLV_OK;
    for (s->now->position = 0; s->now->position < end && !status;) {
        const uint32_t left = end - s->now->position;
        const uint32_t n = left < s->n_batch ? left : s->n_batch;
        const llm_request request = request_of(s, n, 0, CLV_LOGITS_NONE);
        llm_runner *runner;
        status = take_runner(s, &request, &runner);
        const llm_input input = input_of(s, s->now->ids + s->now->position, n);
        if (!status)
            status = llm_runner_run(runner, &input);
        s->now->position += n;
    }
    s->now->position = end;
    return status;
}

/* And of all of them. */
static clv_status replay(clv_session *s)
{
    llm_sequence *now = s->now;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < s->cache.n_sequences && !status; i++) {
        s->now = &s->sequences[i];
        status = replay_one(s);
    }
    s->now = now;
    s->stale = status != CLV_OK;
    return status;
}

static clv_status run_once(clv_session *s, const llm_request *request,
                           const llm_input *input, llm_runner **runner)
{
    CLV_TRY(llm_session_leave_lost_out(s));
    if (s->stale && input)
        CLV_TRY(replay(s));
    CLV_TRY(take_runner(s, request, runner));
    return input ? llm_runner_run(*runner, input) : CLV_OK;
}

/* That is repeated without a device that fails, at most once for each device:
 * rows of earlier batches are in the cache, or are computed again if only the
 * lost device had them. */
clv_status llm_session_run(clv_session *s, const llm_request *request,
                           const llm_input *input, llm_runner **runner)
{
    for (;;) {
        const uint32_t lost = llm_session_count_lost(s);
        clv_status status = run_once(s, request, input, runner);
        if (!status || llm_session_count_lost(s) == lost)
            return status;
        if (llm_session_count_lost(s) == llm_session_count_devices(s))
            return clv_error(status, "%s; no other device is left",
                             clv_last_error());
        llm_session_tell_of_loss(s);
    }
}

clv_status clv_session_prepare(clv_session *session, uint32_t n,
                               const clv_plan **plan)
{
    llm_runner *runner;
    if (!session || !plan || !n || n > llm_split_most(&session->splits))
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_prepare: no session, or %u tokens where "
                         "1 to the batch are",
                         n);
    *plan = NULL;
    llm_request request = request_of(session, n, 0, CLV_LOGITS_LAST);
    request.prepare = true;
    CLV_TRY(llm_session_run(session, &request, NULL, &runner));
    *plan = runner->plan;
    return CLV_OK;
}

static clv_status reserve_rows(clv_session *s, uint32_t n)
{
    uint64_t size;
    if (__builtin_mul_overflow((uint64_t)n * sizeof(float),
                               (uint64_t)s->model->hp->n_vocab, &size))
        size = UINT64_MAX;
    if (size <= s->rows_size)
        return CLV_OK;
    free(s->rows);
    s->rows_size = 0;
    s->rows = malloc(size);
    if (!s->rows)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "out of memory for the logits of %u tokens, %.1f MiB; "
                         "ask for fewer at a time",
                         n, (double)size / (1 << 20));
    s->rows_size = size;
    return CLV_OK;
}

static llm_split_text text_of(const clv_session *s, uint32_t n)
{
    return (llm_split_text){
        .n = n, .position = s->now->position, .n_ctx = s->n_ctx, .far = s->far};
}

/* How to run n more tokens. What keeps from a choice shows when they are run.
 */
static llm_split choose_split(clv_session *s, uint32_t n, uint32_t which)
{
    llm_split plain = llm_split_plain(&s->splits), split;
    const llm_split_text text = text_of(s, n);
    if (which == CLV_LOGITS_ALL)
        plain.length = s->runners.n_rows;
    if (which == CLV_LOGITS_ALL || s->stale || llm_session_leave_lost_out(s) ||
        s->stale)
        return plain;
    const uint32_t lost = llm_session_count_lost(s);
    const clv_status status =
        llm_split_choose(&s->splits, &s->runners, &text, &split);
    llm_session_forget_dropped(s);
    if (status && llm_session_count_lost(s) > lost &&
        llm_session_count_lost(s) < llm_session_count_devices(s))
        llm_session_tell_of_loss(s);
    return status ? plain : split;
}

uint32_t llm_session_at_once(clv_session *session, uint32_t n)
{
    const llm_split split = choose_split(session, n, CLV_LOGITS_LAST);
    return split.length * (split.n_flight > 1 ? split.n_flight * 4 : 1);
}

clv_status clv_session_batches(clv_session *session, uint32_t n,
                               clv_batches *out)
{
    if (!session || !n || n > session->n_ctx - session->now->position || !out)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_batches: no session or result, or %u "
                         "tokens, which the context has no room for",
                         n);
    const llm_split split = choose_split(session, n, CLV_LOGITS_LAST);
    *out = (clv_batches){.n_batch = split.length, .n_flight = split.n_flight};
    return CLV_OK;
}

/* As many whole batches as there are, in flight, where several devices work for
 * them. *done: their tokens, which have been run. */
static clv_status run_chunks(clv_session *s, const int32_t *ids, uint32_t n,
                             uint32_t which, const llm_split *split,
                             float *rows, uint32_t *done)
{
    llm_chunks chunks = {.ids = ids,
                         .n = n / split->length,
                         .length = split->length,
                         .sequence = (uint32_t)(s->now - s->sequences),
                         .position = s->now->position,
                         .n_flight = split->n_flight,
                         .far = s->far,
                         .cancelled = &s->cancelled,
                         .rows = rows};
    llm_runner *runner = NULL;
    uint32_t n_done = 0;
    if (split->n_flight == 1 || chunks.n < 2 || s->stale)
        return CLV_OK;
    CLV_TRY(llm_sequence_reserve(s->now, chunks.n * chunks.length, s->n_ctx));
    CLV_TRY(llm_session_leave_lost_out(s));
    llm_request request =
        request_of(s, chunks.length, (chunks.n - 1) * chunks.length, which);
    request.flight = split->planned;
    CLV_TRY(take_runner(s, &request, &runner));
    if (s->stale || clv_plan_summarise(runner->plan).n_devices < 2)
        return CLV_OK;
    const bool warm = runner->latest && runner->n_runs > 1;
    const llm_split_text text = text_of(s, n);
    const uint64_t begin = clv_now_ns();
    const clv_status status =
        llm_chunks_run(runner, &s->runners.params, &chunks, &n_done);
    if (!status && warm)
        llm_split_judge(&s->splits, &text, runner,
                        (double)(clv_now_ns() - begin));
    *done = n_done * chunks.length;
    llm_sequence_add(s->now, ids, *done);
    s->latest = n_done ? runner : s->latest;
    s->several = status ? NULL : runner;
    s->chunks = chunks;
    return status;
}

/* If a device fails, the rest is left to be run without it. */
static clv_status run_in_flight(clv_session *s, const int32_t *ids, uint32_t n,
                                uint32_t which, const llm_split *split,
                                float *rows, uint32_t *done)
{
    const uint32_t lost = llm_session_count_lost(s);
    *done = 0;
    const clv_status status = run_chunks(s, ids, n, which, split, rows, done);
    if (!status || llm_session_count_lost(s) == lost ||
        llm_session_count_lost(s) == llm_session_count_devices(s))
        return status;
    llm_session_tell_of_loss(s);
    return CLV_OK;
}

/* The whole batches of a text that is run one batch at a time. */
static llm_chunks one_by_one(const clv_session *s, const llm_split *split,
                             uint32_t n)
{
    return (llm_chunks){.n = n / split->length,
                        .length = split->length,
                        .position = s->now->position,
                        .n_flight = 1,
                        .far = s->far};
}

/* Runs the ids in batches. With rows, all logits are copied there. */
static clv_status run_batches(clv_session *s, const int32_t *ids, uint32_t n,
                              uint32_t which, float *rows)
{
    const uint64_t n_vocab = s->model->hp->n_vocab;
    const llm_split split = choose_split(s, n, which);
    const uint64_t begin = clv_now_ns();
    uint32_t done;
    s->several = NULL;
    CLV_TRY(run_in_flight(s, ids, n, which, &split, rows, &done));
    s->rest = done < n;
    const bool alone = !done;
    bool steady = true; /* what they take was known before */
    const bool several = !done && n >= 2 * split.length;
    if (several) {
        s->chunks = one_by_one(s, &split, n);
        s->rest = n % split.length != 0;
    }
    while (done < n) {
        if (atomic_exchange(&s->cancelled, false))
            return n == 1
                       ? clv_error(CLV_ERR_CANCELLED, "cancelled")
                       : clv_error(CLV_ERR_CANCELLED,
                                   "cancelled after %u of %u tokens", done, n);
        const uint32_t left = n - done;
        const uint32_t batch = left < split.length ? left : split.length;
        llm_runner *runner = NULL;
        CLV_TRY(llm_sequence_reserve(s->now, batch, s->n_ctx));
        const llm_request request = request_of(s, batch, 0, which);
        const llm_input input = input_of(s, ids + done, batch);
        CLV_TRY(llm_session_run(s, &request, &input, &runner));
        s->latest = runner;
        steady &= runner->learned == CLV_LEARNED_NOTHING;
        if (several && batch == split.length)
            s->several = runner;
        if (rows)
            memcpy(rows + done * n_vocab, llm_runner_logits(runner),
                   batch * n_vocab * sizeof *rows);
        llm_sequence_add(s->now, ids + done, batch);
        done += batch;
    }
    if (alone)
        llm_split_review(&s->splits, &split, s->latest, steady,
                         (double)(clv_now_ns() - begin));
    if (s->latest && s->latest->learned == CLV_LEARNED_COSTS)
        llm_split_forget(&s->splits);
    return CLV_OK;
}

clv_status clv_session_eval(clv_session *session, const int32_t *ids,
                            uint32_t n, uint32_t which, const float **logits)
{
    clv_session *s = session;
    if (!s || !ids || !n)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_eval: no session or no tokens");
    if (which > CLV_LOGITS_NONE || (which != CLV_LOGITS_NONE && !logits))
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_eval: logits %u asked for, to %s", which,
                         logits ? "a pointer" : "NULL");
    clv_status status = llm_session_check(s, ids, n);
    if (!status)
        status = llm_session_choose_rope(s, s->now->position + n);
    if (status)
        return status;
    const bool gather = which == CLV_LOGITS_ALL && n > s->runners.n_rows;
    if (gather)
        status = reserve_rows(s, n);
    const uint32_t position = s->now->position;
    if (!status)
        status = run_batches(s, ids, n, which, gather ? s->rows : NULL);
    if (status) {
        s->now->position = position;
        return status;
    }
    if (logits)
        *logits = which == CLV_LOGITS_NONE ? NULL
                  : gather                 ? s->rows
                                           : llm_runner_logits(s->latest);
    return CLV_OK;
}
