#include "timeline.h"
#include "job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How long a wait for something that no work here will bring about blocks in
 * real time, so that another thread of the host may do it, before it fails. */
#define GRACE_NS 300000000u

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t flag_of(const clv_plugin_timeline *tl)
{
    return atomic_load_explicit(&tl->flag, memory_order_acquire);
}

static uint64_t value_of(const clv_plugin_timeline *tl)
{
    return flag_of(tl) & ~CLV_FLAG_FAILED;
}

/* The flag word repeats the value: what has been computed, and with a real
 * clock what has been simulated as well. */
static void publish(clv_plugin_timeline *tl)
{
    uint64_t value = tl->computed;
    if (tl->inst->config.is_real && tl->counter.value < value)
        value = tl->counter.value;
    if (value < value_of(tl))
        value = value_of(tl);
    if (tl->status)
        value |= CLV_FLAG_FAILED;
    if (value == flag_of(tl))
        return;
    atomic_store_explicit(&tl->flag, value, memory_order_release);
    pthread_cond_broadcast(&tl->inst->changed);
}

void npu_timelines_publish(clv_plugin_instance *inst)
{
    for (clv_plugin_timeline *tl = inst->timelines; tl; tl = tl->next)
        publish(tl);
}

clv_plugin_timeline *npu_timeline_of(const clv_plugin_instance *inst,
                                     const uint64_t *flag)
{
    clv_plugin_timeline *tl = inst->timelines;
    while (tl && (const uint64_t *)&tl->flag != flag)
        tl = tl->next;
    return tl;
}

clv_status npu_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out)
{
    const clv_host_api *host = dev->base.host;
    clv_plugin_instance *inst = dev->inst;
    CLV_TRY(npu_check_device(dev));
    if (value & CLV_FLAG_FAILED)
        return clv_fail(host, CLV_ERR_INVALID,
                        "npu_sim: a timeline cannot begin at %" PRIu64
                        "; stay below 2^63",
                        value);
    clv_plugin_timeline *tl = clv_new(host, sizeof *tl);
    if (!tl)
        return CLV_ERR_NO_MEMORY;
    tl->inst = inst;
    tl->dev = dev;
    tl->refs = 1;
    tl->computed = tl->counter.value = value;
    atomic_init(&tl->flag, value);
    npu_lock(inst);
    tl->next = inst->timelines;
    tl->link = &inst->timelines;
    if (tl->next)
        tl->next->link = &tl->next;
    inst->timelines = tl;
    npu_unlock(inst);
    *out = tl;
    return CLV_OK;
}

void npu_timeline_drop(clv_plugin_timeline *tl)
{
    clv_plugin_instance *inst = tl->inst;
    if (--tl->refs)
        return;
    *tl->link = tl->next;
    if (tl->next)
        tl->next->link = tl->link;
    tl->next = inst->dead_timelines;
    inst->dead_timelines = tl;
}

void npu_timeline_destroy(clv_plugin_timeline *tl)
{
    if (!tl)
        return;
    clv_plugin_instance *inst = tl->inst;
    npu_lock(inst);
    npu_timeline_drop(tl);
    npu_unlock(inst);
}

void npu_timeline_computed(clv_plugin_timeline *tl, uint64_t value)
{
    if (tl->status || tl->computed >= value)
        return;
    tl->computed = value;
    publish(tl);
}

void npu_timeline_failed(clv_plugin_timeline *tl, clv_status status,
                         const char *message)
{
    if (tl->status)
        return;
    tl->status = status;
    snprintf(tl->message, sizeof tl->message, "%s", message);
    npu_sim_fail(&tl->inst->sim, &tl->counter);
    publish(tl);
}

/* Seeing a value moves the host's time to when it was reached. */
static void notice(clv_plugin_timeline *tl)
{
    npu_sim *sim = &tl->inst->sim;
    if (tl->inst->config.is_real || tl->status)
        return;
    uint64_t at = npu_sim_when(sim, &tl->counter, tl->computed, NPU_NEVER);
    if (at != NPU_NEVER && at > sim->host)
        sim->host = at;
}

/* Answers for a lost device too: this is where the reason is told. */
clv_status npu_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out)
{
    clv_timeline_info info;
    memset(&info, 0, sizeof info);
    npu_lock(tl->inst);
    notice(tl);
    info.flag = (const uint64_t *)&tl->flag;
    info.value = value_of(tl);
    info.status = tl->status;
    memcpy(info.message, tl->message, sizeof info.message);
    npu_unlock(tl->inst);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

clv_status npu_timeline_signal(clv_plugin_timeline *tl, uint64_t value)
{
    clv_plugin_instance *inst = tl->inst;
    char message[NPU_MESSAGE_SIZE];
    CLV_TRY(npu_check_device(tl->dev));
    npu_lock(inst);
    uint64_t before = tl->computed;
    bool above = !(value & CLV_FLAG_FAILED) && value > before;
    clv_status status = tl->status;
    memcpy(message, tl->message, sizeof message);
    if (!status && above) {
        npu_sim_raise(&inst->sim, &tl->counter, value);
        npu_timeline_computed(tl, value);
    }
    npu_unlock(inst);
    if (status)
        return clv_fail(inst->host, status, "%s", message);
    return above ? CLV_OK
                 : clv_fail(inst->host, CLV_ERR_INVALID,
                            "npu_sim: a timeline at %" PRIu64 " cannot be "
                            "signalled %" PRIu64 "; it only counts upward, "
                            "below 2^63",
                            before, value);
}

clv_status npu_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message)
{
    if (status >= CLV_OK)
        return clv_fail(tl->inst->host, CLV_ERR_INVALID,
                        "npu_sim: a timeline cannot fail with status %d",
                        (int)status);
    npu_lock(tl->inst);
    npu_timeline_failed(tl, status, message ? message : "");
    pthread_cond_broadcast(&tl->inst->changed);
    npu_unlock(tl->inst);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Waiting; with the lock held                                              */

static bool over(const clv_plugin_timeline *tl, uint64_t value)
{
    return tl->status || value_of(tl) >= value;
}

/* Until when to block for a change; 0: nothing will come. */
static uint64_t patience(const clv_plugin_timeline *tl, uint64_t begin,
                         uint64_t timeout_ns, uint64_t *idle_since)
{
    bool foreign = false;
    uint64_t now = npu_real_ns(), until;
    if (tl->inst->config.is_real) {
        until = add(begin, timeout_ns);
    } else if (!npu_work_pending(tl->inst, &foreign)) {
        *idle_since = *idle_since ? *idle_since : now;
        until = add(*idle_since, timeout_ns < GRACE_NS ? timeout_ns : GRACE_NS);
    } else {
        *idle_since = 0;
        until = foreign ? add(begin, timeout_ns) : UINT64_MAX;
    }
    return now < until ? until : 0;
}

/* Until the results are there. A timeout is one of simulated time, unless only
 * others can bring them about. */
static clv_status await_results(clv_plugin_timeline *tl, uint64_t value,
                                uint64_t timeout_ns)
{
    uint64_t begin = npu_real_ns(), idle_since = 0;
    while (!over(tl, value)) {
        if (tl->dev->lost && npu_workers_done(tl->dev)) {
            npu_timeline_failed(tl, CLV_ERR_DEVICE_LOST,
                                "npu_sim: the device was lost");
            break;
        }
        uint64_t until = patience(tl, begin, timeout_ns, &idle_since);
        if (!until)
            return CLV_ERR_TIMEOUT;
        npu_await_change(tl->inst, until);
        if (tl->inst->config.is_real) {
            npu_unlock(tl->inst);
            npu_lock(tl->inst);
        }
    }
    return tl->status;
}

/* Moves the host's time to the end of the wait. */
static clv_status await_time(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns)
{
    const npu_settings *s = tl->dev->settings;
    npu_sim *sim = &tl->inst->sim;
    uint64_t before = sim->host;
    uint64_t at =
        npu_sim_when(sim, &tl->counter, value, add(before, timeout_ns));
    if (at == NPU_NEVER)
        return CLV_ERR_TIMEOUT;
    if (at > before) {
        sim->host = at;
        npu_sim_spend(sim,
                      (uint64_t)(at - before <= spin_ns ? s->wait_poll_ns
                                                        : s->wait_block_ns));
    }
    return CLV_OK;
}

clv_status npu_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns)
{
    clv_plugin_instance *inst = tl->inst;
    const bool is_real = inst->config.is_real;
    char message[NPU_MESSAGE_SIZE] = "";
    npu_lock(inst);
    clv_status status = await_results(tl, value, timeout_ns);
    if (!status && !is_real)
        status = await_time(tl, value, spin_ns, timeout_ns);
    if (status == CLV_ERR_TIMEOUT && !is_real && timeout_ns != UINT64_MAX)
        npu_sim_spend(&inst->sim, timeout_ns);
    if (tl->status)
        memcpy(message, tl->message, sizeof message);
    bool timed_out = status == CLV_ERR_TIMEOUT && !tl->status;
    uint64_t reached = value_of(tl);
    npu_unlock(inst);
    if (timed_out)
        return clv_fail(inst->host, status,
                        "npu_sim: the timeline is at %" PRIu64 ", not at "
                        "%" PRIu64 ", and no work in flight signals it in "
                        "time",
                        reached, value);
    return status ? clv_fail(inst->host, status, "%s", message) : CLV_OK;
}
