#include "ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLICE_NS                                                               \
    10000000u /* how often a blocked wait looks for a lost device */
#define LINE 64u

struct clv_plugin_timeline {
    _Atomic uint64_t flag; /* alone on its cache line */
    char padding[LINE - sizeof(uint64_t)];
    const clv_host_api *host;
    clv_plugin_device *dev;
    _Atomic uint32_t refs;
    pthread_mutex_t mutex; /* protects the rest, and changes of flag */
    pthread_cond_t changed;
    clv_status status;
    char message[REF_MESSAGE_SIZE];
};

static bool reached(const clv_plugin_timeline *tl, uint64_t value)
{
    uint64_t word = atomic_load_explicit(&tl->flag, memory_order_acquire);
    return word & CLV_FLAG_FAILED || word >= value;
}

clv_status ref_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out)
{
    const clv_host_api *host = dev->host;
    CLV_TRY(ref_check_device(dev));
    if (value & CLV_FLAG_FAILED)
        return clv_fail(host, CLV_ERR_INVALID,
                        REF_NAME ": a timeline cannot begin at %" PRIu64
                                 "; stay below 2^63",
                        value);
    clv_plugin_timeline *tl = clv_new(host, sizeof *tl);
    if (!tl)
        return CLV_ERR_NO_MEMORY;
    tl->host = host;
    tl->dev = dev;
    atomic_init(&tl->flag, value);
    atomic_init(&tl->refs, 1);
    pthread_mutex_init(&tl->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&tl->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = tl;
    return CLV_OK;
}

void ref_timeline_hold(clv_plugin_timeline *tl)
{
    atomic_fetch_add(&tl->refs, 1);
}

void ref_timeline_destroy(clv_plugin_timeline *tl)
{
    if (!tl || atomic_fetch_sub(&tl->refs, 1) != 1)
        return;
    pthread_cond_destroy(&tl->changed);
    pthread_mutex_destroy(&tl->mutex);
    clv_free(tl->host, tl);
}

const uint64_t *ref_timeline_flag(const clv_plugin_timeline *tl)
{
    return (const uint64_t *)&tl->flag;
}

/* Answers for a lost device too: this is where the reason is told. */
clv_status ref_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out)
{
    clv_timeline_info info;
    memset(&info, 0, sizeof info);
    pthread_mutex_lock(&tl->mutex);
    info.flag = ref_timeline_flag(tl);
    info.value = atomic_load(&tl->flag) & ~CLV_FLAG_FAILED;
    info.status = tl->status;
    memcpy(info.message, tl->message, sizeof info.message);
    pthread_mutex_unlock(&tl->mutex);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

static bool raise_value(clv_plugin_timeline *tl, uint64_t value)
{
    pthread_mutex_lock(&tl->mutex);
    bool above = !reached(tl, value);
    if (above) {
        atomic_store_explicit(&tl->flag, value, memory_order_release);
        pthread_cond_broadcast(&tl->changed);
    }
    pthread_mutex_unlock(&tl->mutex);
    return above;
}

void ref_timeline_reach(clv_plugin_timeline *tl, uint64_t value)
{
    raise_value(tl, value);
}

clv_status ref_timeline_failure(clv_plugin_timeline *tl,
                                char message[REF_MESSAGE_SIZE])
{
    pthread_mutex_lock(&tl->mutex);
    clv_status status = tl->status;
    memcpy(message, tl->message, sizeof tl->message);
    pthread_mutex_unlock(&tl->mutex);
    return status;
}

/* The failure, said again. */
static clv_status tell_failure(clv_plugin_timeline *tl)
{
    char message[REF_MESSAGE_SIZE];
    clv_status status = ref_timeline_failure(tl, message);
    return clv_fail(tl->host, status, "%s", message);
}

clv_status ref_timeline_signal(clv_plugin_timeline *tl, uint64_t value)
{
    CLV_TRY(ref_check_device(tl->dev));
    if (!(value & CLV_FLAG_FAILED) && raise_value(tl, value))
        return CLV_OK;
    if (atomic_load(&tl->flag) & CLV_FLAG_FAILED)
        return tell_failure(tl);
    return clv_fail(tl->host, CLV_ERR_INVALID,
                    REF_NAME ": a timeline at %" PRIu64 " cannot be signalled "
                             "%" PRIu64 "; it only counts upward, below 2^63",
                    atomic_load(&tl->flag), value);
}

clv_status ref_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message)
{
    if (status >= CLV_OK)
        return clv_fail(tl->host, CLV_ERR_INVALID,
                        REF_NAME ": a timeline cannot fail with status %d",
                        (int)status);
    pthread_mutex_lock(&tl->mutex);
    if (!tl->status) {
        tl->status = status;
        snprintf(tl->message, sizeof tl->message, "%s", message ? message : "");
        atomic_fetch_or_explicit(&tl->flag, CLV_FLAG_FAILED,
                                 memory_order_release);
        pthread_cond_broadcast(&tl->changed);
    }
    pthread_mutex_unlock(&tl->mutex);
    return CLV_OK;
}

static uint64_t now(const clv_plugin_timeline *tl)
{
    return tl->host->now_ns(tl->host->host);
}

/* Until the value is reached or the time comes; at most a slice. */
static void block(clv_plugin_timeline *tl, uint64_t value, uint64_t end)
{
    uint64_t start = now(tl);
    uint64_t left = end > start ? end - start : 0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(left < SLICE_NS ? left : SLICE_NS);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&tl->mutex);
    if (!reached(tl, value))
        pthread_cond_timedwait(&tl->changed, &tl->mutex, &until);
    pthread_mutex_unlock(&tl->mutex);
}

clv_status ref_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns)
{
    uint64_t begin = now(tl), end;
    if (__builtin_add_overflow(begin, timeout_ns, &end))
        end = UINT64_MAX;
    while (!reached(tl, value)) {
        if (atomic_load(&tl->dev->lost)) {
            ref_timeline_fail(tl, CLV_ERR_DEVICE_LOST,
                              REF_NAME ": the device was lost");
            break;
        }
        uint64_t time = now(tl);
        if (time >= end)
            return clv_fail(tl->host, CLV_ERR_TIMEOUT,
                            REF_NAME ": the timeline is at %" PRIu64 " after "
                                     "%" PRIu64 " ns, not at %" PRIu64,
                            atomic_load(&tl->flag), timeout_ns, value);
        if (time - begin >= spin_ns)
            block(tl, value, end);
    }
    return atomic_load(&tl->flag) & CLV_FLAG_FAILED ? tell_failure(tl) : CLV_OK;
}
