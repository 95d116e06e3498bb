#include "session.h"

#include "../base/str.h"
#include "choice.h"
#include "evaluate.h"
#include "profile.h"
#include "residency.h"
#include "session_loss.h"
#include "split.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CTX 4096

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
    /* A prompt has no more tokens, and a step one of each sequence. */
    const uint32_t most = p->n_sequences > s->n_ctx ? p->n_sequences : s->n_ctx;
    if (s->n_batch > most)
        s->n_batch = most;
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

/* Batches that are long because weights are streamed are not compared with
 * others for each text. */
static clv_status lengthen(clv_session *s)
{
    const uint32_t most = llm_split_most(&s->splits);
    CLV_TRY(
        llm_residency_lengthen(&s->runners, most < s->n_ctx ? most : s->n_ctx));
    if (s->runners.n_batch > s->n_batch)
        s->splits.n_batch = s->n_batch = s->runners.n_batch;
    return CLV_OK;
}

static clv_status init(clv_session *s, const clv_session_params *p)
{
    CLV_TRY(set_params(s, p));
    CLV_TRY(copy_plans(s, p));
    const uint32_t n_sequences = p->n_sequences ? p->n_sequences : 1;
    CLV_TRY(llm_kv_cache_init(&s->cache, s->model->ctx, s->model->hp, s->n_ctx,
                              n_sequences,
                              p->kv_dtype ? p->kv_dtype : CLV_DTYPE_F16));
    s->sequences = calloc(n_sequences, sizeof *s->sequences);
    if (!s->sequences)
        return llm_no_memory("sequences");
    s->now = s->sequences;
    s->n_lost = llm_session_count_lost(s);
    s->runners.model = s->model;
    s->runners.cache = &s->cache;
    s->runners.n_batch = s->runners.n_rows = s->n_batch;
    CLV_TRY(llm_runners_reset(&s->runners, s->devices, s->n_devices, s->plans,
                              s->n_plans));
    return p->n_batch ? CLV_OK : lengthen(s);
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
    for (uint32_t i = 0; session->sequences && i < session->cache.n_sequences;
         i++)
        free(session->sequences[i].ids);
    free(session->sequences);
    llm_kv_cache_finish(&session->cache); /* with their number */
    for (uint32_t i = 0; i < session->n_plans; i++)
        free(session->plans[i]);
    free(session->plans);
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
    return session->now->position;
}

uint32_t clv_session_n_sequences(const clv_session *session)
{
    return session->cache.n_sequences;
}

clv_status clv_session_select(clv_session *session, uint32_t sequence)
{
    if (!session || sequence >= session->cache.n_sequences)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_select: no session, or sequence %u of "
                         "%u; ask for more when it is created (n_sequences)",
                         sequence, session ? session->cache.n_sequences : 0);
    session->now = &session->sequences[sequence];
    return CLV_OK;
}

clv_status llm_sequence_reserve(llm_sequence *q, uint32_t n, uint32_t n_ctx)
{
    const uint32_t wanted = q->position + n;
    if (wanted <= q->ids_capacity)
        return CLV_OK;
    const uint32_t capacity = wanted < n_ctx / 2 ? wanted * 2 : n_ctx;
    int32_t *grown = realloc(q->ids, (size_t)capacity * sizeof *grown);
    if (!grown)
        return llm_no_memory("tokens");
    q->ids = grown;
    q->ids_capacity = capacity;
    return CLV_OK;
}

void llm_sequence_add(llm_sequence *q, const int32_t *ids, uint32_t n)
{
    memcpy(q->ids + q->position, ids, n * sizeof *ids);
    q->position += n;
}

clv_status llm_session_choose_rope(clv_session *s, uint32_t n)
{
    uint32_t held = 0;
    bool far;
    for (uint32_t i = 0; i < s->cache.n_sequences; i++)
        held =
            s->sequences[i].position > held ? s->sequences[i].position : held;
    CLV_TRY(llm_rope_reach(s->model->hp, held > n ? held : n, &far));
    s->stale |= far != s->far && held > 0;
    s->far = far;
    return CLV_OK;
}

clv_status clv_session_truncate(clv_session *session, uint32_t position)
{
    if (!session)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_truncate: session is NULL");
    if (position > session->now->position)
        return clv_error(CLV_ERR_INVALID,
                         "cannot truncate to %u tokens, the cache holds %u",
                         position, session->now->position);
    session->now->position = position;
    return CLV_OK;
}

clv_status clv_session_reuse(clv_session *session, const int32_t *ids,
                             uint32_t n, uint32_t *n_kept)
{
    if (!session || !ids || !n || !n_kept)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_reuse: no session, no ids or no n_kept");
    const uint32_t most =
        session->now->position < n ? session->now->position : n - 1;
    uint32_t kept = 0;
    while (kept < most && session->now->ids[kept] == ids[kept])
        kept++;
    session->now->position = kept;
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
    return session->now->ids;
}

void llm_session_forget_cancel(clv_session *session)
{
    atomic_store(&session->cancelled, false);
}

/* ------------------------------------------------------------------------ */
/* Costs                                                                    */

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

clv_status clv_session_first(clv_session *session, uint32_t *n)
{
    if (!session || !n)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_first: no session or no result");
    CLV_TRY(llm_session_leave_lost_out(session));
    CLV_TRY(llm_residency_choose(&session->runners));
    *n = session->runners.lead.n;
    return CLV_OK;
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
    CLV_TRY(llm_session_leave_lost_out(session));
    const clv_status status =
        llm_runners_weigh(&session->runners, &request, dev, bytes, ns);
    llm_session_forget_dropped(session);
    return status;
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
    CLV_TRY(llm_session_leave_lost_out(session));
    return llm_profile(&session->runners, lengths, n, session->n_ctx, params);
}
