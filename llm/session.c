#include "session.h"

#include "runner.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CTX   4096
#define DEFAULT_BATCH 512

enum { RUN_ONE, RUN_BATCH, RUN_ALL, RUN_COUNT };

struct clv_session {
    clv_model *model;
    uint32_t n_ctx, n_batch;
    clv_device **devices; /* owned; NULL: all */
    uint32_t n_devices;
    llm_kv_cache cache;
    uint32_t position;
    llm_runner *runners[RUN_COUNT]; /* made when first needed */
    const llm_runner *latest;
    float *rows; /* logits of several batches, grown when asked for */
    uint64_t rows_size;
    atomic_bool cancelled;
};

_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "signal handlers cancel");

/* ------------------------------------------------------------------------ */
/* Creation                                                                 */

static clv_status set_params(clv_session *s, const clv_session_params *p)
{
    const uint32_t trained = s->model->hp->n_ctx_train;
    s->n_ctx = p->n_ctx;
    if (!s->n_ctx)
        s->n_ctx = trained && trained < DEFAULT_CTX ? trained : DEFAULT_CTX;
    if (s->n_ctx > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "a context of %u tokens; at most %d (-c)", s->n_ctx,
                         INT32_MAX);
    if (trained && s->n_ctx > trained)
        clv_log(s->model->ctx, CLV_LOG_WARN,
                "context of %u tokens: the model was trained for %u and may "
                "lose the thread beyond",
                s->n_ctx, trained);
    s->n_batch = p->n_batch ? p->n_batch : DEFAULT_BATCH;
    if (s->n_batch > s->n_ctx)
        s->n_batch = s->n_ctx;
    if (p->kv_dtype && p->kv_dtype != CLV_DTYPE_F16 &&
        p->kv_dtype != CLV_DTYPE_F32) {
        const char *name = clv_dtype_name(p->kv_dtype);
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "KV cache of type %s; it can be f16 or f32",
                         name ? name : "unknown");
    }
    if (!p->devices != !p->n_devices)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_create: devices and n_devices disagree");
    if (!p->devices)
        return CLV_OK;
    s->devices = calloc(p->n_devices, sizeof(*s->devices));
    if (!s->devices)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for %u devices",
                         p->n_devices);
    memcpy(s->devices, p->devices, p->n_devices * sizeof(*s->devices));
    s->n_devices = p->n_devices;
    return CLV_OK;
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
    clv_session *s = calloc(1, sizeof(*s));
    if (!s)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a session");
    s->model = model;
    atomic_init(&s->cancelled, false);
    clv_status status = set_params(s, &p);
    if (!status)
        status = llm_kv_cache_init(&s->cache, model->ctx, model->hp, s->n_ctx,
                                   p.kv_dtype ? p.kv_dtype : CLV_DTYPE_F16);
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
    for (int i = 0; i < RUN_COUNT; i++)
        llm_runner_destroy(session->runners[i]);
    llm_kv_cache_finish(&session->cache);
    free(session->devices);
    free(session->rows);
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

const clv_plan *clv_session_plan(const clv_session *session)
{
    return session->latest ? session->latest->plan : NULL;
}

void clv_session_cancel(clv_session *session)
{
    atomic_store(&session->cancelled, true);
}

clv_model *llm_session_model(const clv_session *session)
{
    return session->model;
}

uint32_t llm_session_n_batch(const clv_session *session)
{
    return session->n_batch;
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
                         "more need %llu; use a larger context (-c %llu)",
                         session->n_ctx, session->position, n,
                         (unsigned long long)needed,
                         (unsigned long long)needed);
    return CLV_OK;
}

static clv_status get_runner(clv_session *s, uint32_t n, uint32_t which,
                             llm_runner **out)
{
    const int kind = n == 1                    ? RUN_ONE
                     : which == CLV_LOGITS_ALL ? RUN_ALL
                                               : RUN_BATCH;
    if (!s->runners[kind]) {
        const llm_runner_params params = {
            .max_tokens = kind == RUN_ONE ? 1 : s->n_batch,
            .all_logits = kind == RUN_ALL,
            .devices = s->devices,
            .n_devices = s->n_devices,
        };
        clv_status status =
            llm_runner_create(s->model, &s->cache, &params, &s->runners[kind]);
        if (status)
            return status;
    }
    *out = s->runners[kind];
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

/* Runs the ids in batches. With rows, all logits are copied there. */
static clv_status run_batches(clv_session *s, const int32_t *ids, uint32_t n,
                              uint32_t which, float *rows)
{
    const uint64_t n_vocab = s->model->hp->n_vocab;
    for (uint32_t done = 0; done < n;) {
        if (atomic_exchange(&s->cancelled, false))
            return clv_error(CLV_ERR_CANCELLED,
                             "cancelled after %u of %u tokens", done, n);
        const uint32_t left = n - done;
        const uint32_t batch = left < s->n_batch ? left : s->n_batch;
        llm_runner *runner;
        clv_status status = get_runner(s, batch, which, &runner);
        if (status)
            return status;
        status = llm_runner_run(runner, ids + done, batch, s->position);
        if (status)
            return status;
        s->latest = runner;
        if (rows)
            memcpy(rows + done * n_vocab, llm_runner_logits(runner),
                   batch * n_vocab * sizeof(*rows));
        s->position += batch;
        done += batch;
    }
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
