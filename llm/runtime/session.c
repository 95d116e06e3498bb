#include "session.h"

#include "../base/str.h"
#include "choice.h"
#include "chunks.h"
#include "profile.h"
#include "../models/rope.h"
#include "runners.h"
#include "split.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CTX 4096

struct clv_session {
    clv_model *model;
    uint32_t n_ctx, n_batch;
    clv_device **devices; /* owned; NULL: all */
    uint32_t n_devices;
    uint32_t n_lost; /* devices left out so far */
    char **plans;    /* saved ones; owned, as are their strings */
    uint32_t n_plans;
    llm_kv_cache cache;
    uint32_t position;
    int32_t *ids; /* [position]: the tokens in the cache */
    uint32_t ids_capacity;
    bool stale; /* the cache's rows must be computed again: it was lost, or
                   the frequencies are others */
    bool far;   /* with frequencies for long contexts */
    llm_runners runners;
    llm_splits splits;
    const llm_runner *latest;  /* one of them, or NULL */
    const llm_runner *several; /* one of them: it ran these chunks of the latest
                                  evaluation; NULL: it was one batch */
    llm_chunks chunks;
    bool rest;   /* another batch followed them */
    float *rows; /* logits of several batches, grown when asked for */
    uint64_t rows_size;
    atomic_bool cancelled;
};

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "signal handlers cancel");

/* ------------------------------------------------------------------------ */
/* Creation                                                                 */

static clv_status check_kv_dtype(const llm_hparams *hp, uint32_t dtype)
{
    const char *name = clv_dtype_name(dtype);
    if (dtype && dtype != CLV_DTYPE_F16 && dtype != CLV_DTYPE_F32 &&
        dtype != CLV_DTYPE_Q8_0)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "KV cache of type %s; it can be f16, f32 or q8_0",
                         name ? name : "unknown");
    if (dtype == CLV_DTYPE_Q8_0 && hp->head_dim % 32)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "KV cache of type q8_0: heads of %u channels are not "
                         "whole blocks of 32; use f16",
                         hp->head_dim);
    return CLV_OK;
}

static clv_status set_params(clv_session *s, const clv_session_params *p)
{
    const uint32_t trained = s->model->hp->n_ctx_train;
    s->n_ctx = p->n_ctx;
    if (!s->n_ctx)
        s->n_ctx = trained && trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    if (s->n_ctx > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "a context of %u tokens; at most %d (n_ctx)", s->n_ctx,
                         INT32_MAX);
    if (trained && s->n_ctx > trained)
        clv_log(s->model->ctx, CLV_LOG_WARN,
                "context of %u tokens: the model was trained for %u and may "
                "lose the thread beyond",
                s->n_ctx, trained);
    s->n_batch = p->n_batch ? p->n_batch : LLM_SPLIT_BATCH;
    if (s->n_batch > s->n_ctx)
        s->n_batch = s->n_ctx;
    s->splits.n_batch =
        p->n_batch || s->n_batch < LLM_SPLIT_BATCH ? s->n_batch : 0;
    s->splits.n_flight = p->n_flight;
    if (p->n_flight > LLM_MAX_FLIGHT)
        return clv_error(CLV_ERR_LIMIT,
                         "%u runs in flight; at most %d (n_flight)",
                         p->n_flight, LLM_MAX_FLIGHT);
    CLV_TRY(check_kv_dtype(s->model->hp, p->kv_dtype));
    if (!p->devices != !p->n_devices)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_create: devices and n_devices disagree");
    if (!p->devices)
        return CLV_OK;
    s->devices = calloc(p->n_devices, sizeof *s->devices);
    if (!s->devices)
        return llm_no_memory("devices");
    memcpy(s->devices, p->devices, p->n_devices * sizeof *s->devices);
    s->n_devices = p->n_devices;
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->devices[i] && clv_device_lost(s->devices[i]))
            return clv_error(CLV_ERR_DEVICE_LOST,
                             "device '%s' is lost; leave it out, or open a new "
                             "context",
                             clv_device_id(s->devices[i]));
    return CLV_OK;
}

static clv_status copy_plans(clv_session *s, const clv_session_params *p)
{
    if (!p->n_plans)
        return CLV_OK;
    if (!p->plans)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_create: plans and n_plans disagree");
    s->plans = calloc(p->n_plans, sizeof *s->plans);
    for (uint32_t i = 0; s->plans && i < p->n_plans; i++) {
        s->plans[i] = strdup(p->plans[i]);
        if (!s->plans[i])
            break;
        s->n_plans++;
    }
    return s->n_plans == p->n_plans ? CLV_OK : llm_no_memory("saved plans");
}

static clv_device *device_at(const clv_session *s, uint32_t index)
{
    return s->devices ? s->devices[index]
                      : clv_context_device(s->model->ctx, index);
}

static uint32_t count_devices(const clv_session *s)
{
    return s->devices ? s->n_devices : clv_context_device_count(s->model->ctx);
}

static uint32_t count_lost(const clv_session *s)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < count_devices(s); i++)
        lost += device_at(s, i) && clv_device_lost(device_at(s, i));
    return lost;
}

static clv_status init(clv_session *s, const clv_session_params *p)
{
    CLV_TRY(set_params(s, p));
    CLV_TRY(copy_plans(s, p));
    CLV_TRY(llm_kv_cache_init(&s->cache, s->model->ctx, s->model->hp, s->n_ctx,
                              p->kv_dtype ? p->kv_dtype : CLV_DTYPE_F16));
    s->n_lost = count_lost(s);
    s->runners.model = s->model;
    s->runners.cache = &s->cache;
    s->runners.n_batch = s->n_batch;
    return llm_runners_reset(&s->runners, s->devices, s->n_devices, s->plans,
                             s->n_plans);
}

clv_status clv_session_create(clv_model *model,
                              const clv_session_params *params,
                              clv_session **out)
{
    if (!out)
        return clv_error(CLV_ERR_INVALID, "clv_session_create: out is NULL");
    *out = NULL;
    if (!model)
        return clv_error(CLV_ERR_INVALID, "clv_session_create: model is NULL");
    const clv_session_params p = params ? *params : (clv_session_params){0};
    clv_session *s = calloc(1, sizeof *s);
    if (!s)
        return llm_no_memory("a session");
    s->model = model;
    atomic_init(&s->cancelled, false);
    clv_status status = init(s, &p);
    if (status) {
        clv_session_destroy(s);
        return status;
    }
    *out = s;
    return CLV_OK;
}

void clv_session_destroy(clv_session *session)
{
    if (!session)
        return;
    llm_runners_finish(&session->runners);
    llm_kv_cache_finish(&session->cache);
    for (uint32_t i = 0; i < session->n_plans; i++)
        free(session->plans[i]);
    free(session->plans);
    free(session->devices);
    free(session->rows);
    free(session->ids);
    free(session);
}

/* ------------------------------------------------------------------------ */
/* State                                                                    */

uint32_t clv_session_n_ctx(const clv_session *session)
{
    return session->n_ctx;
}

uint64_t clv_session_kv_size(const clv_session *session)
{
    return session->cache.size;
}

uint32_t clv_session_position(const clv_session *session)
{
    return session->position;
}

clv_status clv_session_truncate(clv_session *session, uint32_t position)
{
    if (!session)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_truncate: session is NULL");
    if (position > session->position)
        return clv_error(CLV_ERR_INVALID,
                         "cannot truncate to %u tokens, the cache holds %u",
                         position, session->position);
    session->position = position;
    return CLV_OK;
}

clv_status clv_session_reuse(clv_session *session, const int32_t *ids,
                             uint32_t n, uint32_t *n_kept)
{
    if (!session || !ids || !n || !n_kept)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_reuse: no session, no ids or no n_kept");
    const uint32_t most = session->position < n ? session->position : n - 1;
    uint32_t kept = 0;
    while (kept < most && session->ids[kept] == ids[kept])
        kept++;
    session->position = kept;
    *n_kept = kept;
    return CLV_OK;
}

const clv_plan *clv_session_plan(const clv_session *session)
{
    return session->latest ? session->latest->plan : NULL;
}

clv_status clv_session_predict(const clv_session *session, clv_prediction *out)
{
    if (!session || !out || !session->latest)
        return clv_error(CLV_ERR_INVALID, "clv_session_predict: no session, or "
                                          "one that has run nothing yet");
    const llm_runner *latest = session->latest;
    clv_prediction rest = {0};
    *out = rest;
    if (session->several)
        CLV_TRY(llm_chunks_predict(session->several, &session->chunks, out));
    if (session->several && !session->rest)
        return CLV_OK;
    CLV_TRY(clv_plan_predict(latest->plan, latest->symbols, latest->n_symbols,
                             &rest));
    out->ns += rest.ns;
    out->energy_nj = session->several ? 0 : rest.energy_nj;
    return CLV_OK;
}

bool clv_session_is_learning(const clv_session *session)
{
    return session && session->latest &&
           session->latest->learned != CLV_LEARNED_NOTHING;
}

void clv_session_cancel(clv_session *session)
{
    atomic_store(&session->cancelled, true);
}

clv_model *llm_session_model(const clv_session *session)
{
    return session->model;
}

const int32_t *llm_session_ids(const clv_session *session)
{
    return session->ids;
}

void llm_session_forget_cancel(clv_session *session)
{
    atomic_store(&session->cancelled, false);
}

/* ------------------------------------------------------------------------ */
/* Evaluation                                                               */

clv_status llm_session_check(const clv_session *session, const int32_t *ids,
                             uint32_t n)
{
    const uint32_t n_vocab = session->model->hp->n_vocab;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return clv_error(CLV_ERR_INVALID,
                             "token %u is id %d; the vocabulary has 0..%u", i,
                             ids[i], n_vocab - 1);
    const uint64_t needed = (uint64_t)session->position + n;
    if (needed > session->n_ctx)
        return clv_error(CLV_ERR_LIMIT,
                         "context of %u tokens is too small: %u in it and %u "
                         "more need %llu; use a larger context (n_ctx %llu)",
                         session->n_ctx, session->position, n,
                         (unsigned long long)needed,
                         (unsigned long long)needed);
    return CLV_OK;
}

/* Runners that others replaced. */
static void forget_dropped(clv_session *s)
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
    forget_dropped(s);
    return status;
}

/* For n more tokens, once `ahead` others have been run. */
static llm_request request_of(const clv_session *s, uint32_t n, uint32_t ahead,
                              uint32_t which)
{
    const uint32_t left = s->n_ctx - s->position - ahead;
    return (llm_request){.n = n,
                         .n_free = left > n ? left : n,
                         .all_logits = which == CLV_LOGITS_ALL && n > 1};
}

static clv_status get_runner(clv_session *s, uint32_t n, uint32_t which,
                             bool prepare, llm_runner **out)
{
    llm_request request = request_of(s, n, 0, which);
    request.prepare = prepare;
    return take_runner(s, &request, out);
}

static void tell_of_loss(const clv_session *s)
{
    clv_log(s->model->ctx, CLV_LOG_ERROR,
            "going on without a device that failed: %s", clv_last_error());
}

/* If devices were lost since the runners were made, makes new ones for the
 * other devices and for memory that no lost device writes. */
static clv_status leave_lost_out(clv_session *s)
{
    const uint32_t lost = count_lost(s);
    if (lost == s->n_lost)
        return CLV_OK;
    if (lost == count_devices(s))
        return clv_error(CLV_ERR_DEVICE_LOST,
                         "no device of the session is left; open a new context "
                         "to use them again");
    s->latest = s->several = NULL;
    llm_split_forget(&s->splits);
    llm_runners_finish(&s->runners);
    const bool gone = llm_kv_cache_lost(&s->cache);
    s->stale |= gone;
    CLV_TRY(gone ? llm_kv_cache_renew(&s->cache, s->model->ctx)
                 : llm_kv_cache_rescue(&s->cache, s->model->ctx, s->position));
    CLV_TRY(llm_runners_reset(&s->runners, s->devices, s->n_devices, NULL, 0));
    s->n_lost = lost;
    return CLV_OK;
}

/* Fills the cache again, with the tokens so far. */
static clv_status replay(clv_session *s)
{
    const uint32_t end = s->position;
    clv_status status = CLV_OK;
    for (s->position = 0; s->position < end && !status;) {
        const uint32_t left = end - s->position;
        const uint32_t n = left < s->n_batch ? left : s->n_batch;
        llm_runner *runner;
        status = get_runner(s, n, CLV_LOGITS_NONE, false, &runner);
        if (!status)
            status = llm_runner_run(runner, s->ids + s->position, n,
                                    s->position, s->far);
        s->position += n;
    }
    s->position = end;
    s->stale = status != CLV_OK;
    return status;
}

/* ids NULL: only prepares. */
static clv_status run_once(clv_session *s, const int32_t *ids, uint32_t n,
                           uint32_t which, llm_runner **runner)
{
    CLV_TRY(leave_lost_out(s));
    if (s->stale && ids)
        CLV_TRY(replay(s));
    CLV_TRY(get_runner(s, n, which, !ids, runner));
    return ids ? llm_runner_run(*runner, ids, n, s->position, s->far) : CLV_OK;
}

/* Runs a batch, or prepares for one where ids is NULL. If a device fails, that
 * is repeated without it, at most once for each device: rows of earlier batches
 * are in the cache, or are computed again if only the lost device had them. */
static clv_status run_batch(clv_session *s, const int32_t *ids, uint32_t n,
                            uint32_t which, llm_runner **runner)
{
    for (;;) {
        const uint32_t lost = count_lost(s);
        clv_status status = run_once(s, ids, n, which, runner);
        if (!status || count_lost(s) == lost)
            return status;
        if (count_lost(s) == count_devices(s))
            return clv_error(status, "%s; no other device is left",
                             clv_last_error());
        tell_of_loss(s);
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
    CLV_TRY(run_batch(session, NULL, n, CLV_LOGITS_LAST, &runner));
    *plan = runner->plan;
    return CLV_OK;
}

clv_memory_use clv_session_memory(const clv_session *session,
                                  const clv_device *dev)
{
    const clv_plan *plans[LLM_MAX_RUNNERS];
    uint32_t n = 0;
    for (uint32_t i = 0; session && i < session->runners.n; i++)
        if (session->runners.items[i]->exec)
            plans[n++] = session->runners.items[i]->plan;
    return clv_plans_memory(plans, n, session->runners.params.workspace, dev);
}

clv_status clv_session_weigh(clv_session *session, uint32_t n,
                             const clv_device *dev, uint64_t bytes, double *ns)
{
    if (!session || !n || n > session->n_batch || !dev || !ns)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_weigh: no session, device or result, or "
                         "%u tokens where 1 to the batch are",
                         n);
    const llm_request request = {.n = n, .n_free = session->n_ctx};
    CLV_TRY(leave_lost_out(session));
    return llm_choice_weigh(&session->runners, &request, dev, bytes, ns);
}

clv_status clv_session_profile(clv_session *session, const uint32_t *lengths,
                               uint32_t n, const clv_profile_params *params)
{
    if (!session || !lengths || !n)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_profile: no session or no lengths");
    for (uint32_t i = 0; i < n; i++)
        if (!lengths[i] || lengths[i] > session->n_batch)
            return clv_error(CLV_ERR_INVALID,
                             "runs of %u tokens cannot be measured, those of "
                             "this session have 1 to %u; use another batch "
                             "size (n_batch)",
                             lengths[i], session->n_batch);
    CLV_TRY(leave_lost_out(session));
    return llm_profile(&session->runners, lengths, n, session->n_ctx, params);
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

/* Reserves memory for n more ids. */
static clv_status reserve_ids(clv_session *s, uint32_t n)
{
    const uint32_t wanted = s->position + n;
    if (wanted <= s->ids_capacity)
        return CLV_OK;
    const uint32_t capacity = wanted < s->n_ctx / 2 ? wanted * 2 : s->n_ctx;
    int32_t *grown = realloc(s->ids, (size_t)capacity * sizeof *grown);
    if (!grown)
        return llm_no_memory("tokens");
    s->ids = grown;
    s->ids_capacity = capacity;
    return CLV_OK;
}

static void keep_ids(clv_session *s, const int32_t *ids, uint32_t n)
{
    memcpy(s->ids + s->position, ids, n * sizeof *ids);
    s->position += n;
}

static llm_split_text text_of(const clv_session *s, uint32_t n)
{
    return (llm_split_text){
        .n = n, .position = s->position, .n_ctx = s->n_ctx, .far = s->far};
}

/* How to run n more tokens. What keeps from a choice shows when they are run.
 */
static llm_split choose_split(clv_session *s, uint32_t n, uint32_t which)
{
    const llm_split plain = llm_split_plain(&s->splits);
    const llm_split_text text = text_of(s, n);
    llm_split split;
    if (which == CLV_LOGITS_ALL || s->stale || leave_lost_out(s) || s->stale)
        return plain;
    const uint32_t lost = count_lost(s);
    const clv_status status =
        llm_split_choose(&s->splits, &s->runners, &text, &split);
    forget_dropped(s);
    if (status && count_lost(s) > lost && count_lost(s) < count_devices(s))
        tell_of_loss(s);
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
    if (!session || !n || n > session->n_ctx - session->position || !out)
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
                         .position = s->position,
                         .n_flight = split->n_flight,
                         .far = s->far,
                         .cancelled = &s->cancelled,
                         .rows = rows};
    llm_runner *runner = NULL;
    uint32_t n_done = 0;
    if (split->n_flight == 1 || chunks.n < 2 || s->stale)
        return CLV_OK;
    CLV_TRY(reserve_ids(s, chunks.n * chunks.length));
    CLV_TRY(leave_lost_out(s));
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
    keep_ids(s, ids, *done);
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
    const uint32_t lost = count_lost(s);
    *done = 0;
    const clv_status status = run_chunks(s, ids, n, which, split, rows, done);
    if (!status || count_lost(s) == lost || count_lost(s) == count_devices(s))
        return status;
    tell_of_loss(s);
    return CLV_OK;
}

/* The whole batches of a text that is run one batch at a time. */
static llm_chunks one_by_one(const clv_session *s, const llm_split *split,
                             uint32_t n)
{
    return (llm_chunks){.n = n / split->length,
                        .length = split->length,
                        .position = s->position,
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
        CLV_TRY(reserve_ids(s, batch));
        CLV_TRY(run_batch(s, ids + done, batch, which, &runner));
        s->latest = runner;
        steady &= runner->learned == CLV_LEARNED_NOTHING;
        if (several && batch == split.length)
            s->several = runner;
        if (rows)
            memcpy(rows + done * n_vocab, llm_runner_logits(runner),
                   batch * n_vocab * sizeof *rows);
        keep_ids(s, ids + done, batch);
        done += batch;
    }
    if (alone)
        llm_split_review(&s->splits, &split, s->latest, steady,
                         (double)(clv_now_ns() - begin));
    if (s->latest && s->latest->learned == CLV_LEARNED_COSTS)
        llm_split_forget(&s->splits);
    return CLV_OK;
}

/* Where the length of the context decides the rotary frequencies, the cache is
 * computed again when they change. */
static clv_status choose_rope(clv_session *s, uint32_t n)
{
    bool far;
    CLV_TRY(llm_rope_reach(s->model->hp, s->position + n, &far));
    s->stale |= far != s->far && s->position > 0;
    s->far = far;
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
        status = choose_rope(s, n);
    if (status)
        return status;
    const bool gather = which == CLV_LOGITS_ALL && n > s->n_batch;
    if (gather)
        status = reserve_rows(s, n);
    const uint32_t position = s->position;
    if (!status)
        status = run_batches(s, ids, n, which, gather ? s->rows : NULL);
    if (status) {
        s->position = position;
        return status;
    }
    if (logits)
        *logits = which == CLV_LOGITS_NONE ? NULL
                  : gather                 ? s->rows
                                           : llm_runner_logits(s->latest);
    return CLV_OK;
}
