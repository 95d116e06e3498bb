#include "session_loss.h"

static clv_device *device_at(const clv_session *s, uint32_t index)
{
    return s->devices ? s->devices[index]
                      : clv_context_device(s->model->ctx, index);
}

uint32_t llm_session_count_devices(const clv_session *s)
{
    return s->devices ? s->n_devices : clv_context_device_count(s->model->ctx);
}

uint32_t llm_session_count_lost(const clv_session *s)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < llm_session_count_devices(s); i++)
        lost += device_at(s, i) && clv_device_lost(device_at(s, i));
    return lost;
}

void llm_session_tell_of_loss(const clv_session *s)
{
    clv_log(s->model->ctx, CLV_LOG_ERROR,
            "going on without a device that failed: %s", clv_last_error());
}

/* Rows of the cache that are needed. */
static uint32_t rows_of(const clv_session *s)
{
    return s->cache.n_sequences > 1 ? s->cache.n_sequences * s->n_ctx
                                    : s->now->position;
}

clv_status llm_session_leave_lost_out(clv_session *s)
{
    const uint32_t lost = llm_session_count_lost(s);
    if (lost == s->n_lost)
        return CLV_OK;
    if (lost == llm_session_count_devices(s))
        return clv_error(CLV_ERR_DEVICE_LOST,
                         "no device of the session is left; open a new context "
                         "to use them again");
    s->latest = s->several = NULL;
    llm_split_forget(&s->splits);
    llm_runners_finish(&s->runners);
    const bool gone = llm_kv_cache_lost(&s->cache);
    s->stale |= gone;
    CLV_TRY(gone ? llm_kv_cache_renew(&s->cache, s->model->ctx)
                 : llm_kv_cache_rescue(&s->cache, s->model->ctx, rows_of(s)));
    CLV_TRY(llm_runners_reset(&s->runners, s->devices, s->n_devices, NULL, 0));
    s->n_lost = lost;
    return CLV_OK;
}
