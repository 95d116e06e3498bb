#include "timeline.h"
#include "device.h"
#include "host.h"
#include "spin.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE sizeof((clv_timeline_info *)0)->message

struct clv_plugin_timeline {
    alignas(64) _Atomic uint64_t word; /* alone on its cache line */
    alignas(64) const clv_host_api *host;
    _Atomic uint32_t refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t waiters; /* that block */
    clv_status status;
    char message[128];
};

static bool reached(uint64_t word, uint64_t value)
{
    return word & CLV_FLAG_FAILED || word >= value;
}

clv_status cpu_timeline_create(clv_plugin_device *dev, uint64_t value,
                               clv_plugin_timeline **out)
{
    const clv_host_api *host = dev->host;
    if (value & CLV_FLAG_FAILED)
        return cpu_error(host, CLV_ERR_INVALID,
                         "cpu: timeline value %#" PRIx64
                         " is out of range; stay below 2^63",
                         value);
    clv_status status = cpu_device_usable(dev);
    if (status)
        return status;
    clv_plugin_timeline *tl =
        cpu_alloc(host, sizeof *tl, alignof(clv_plugin_timeline));
    if (!tl)
        return cpu_no_memory(host, "a timeline", sizeof *tl);
    tl->host = host;
    atomic_init(&tl->word, value);
    atomic_init(&tl->refs, 1);
    pthread_mutex_init(&tl->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&tl->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = tl;
    return CLV_OK;
}

void cpu_timeline_ref(clv_plugin_timeline *tl)
{
    atomic_fetch_add_explicit(&tl->refs, 1, memory_order_relaxed);
}

void cpu_timeline_destroy(clv_plugin_timeline *tl)
{
    if (!tl || atomic_fetch_sub(&tl->refs, 1) != 1)
        return;
    pthread_cond_destroy(&tl->changed);
    pthread_mutex_destroy(&tl->lock);
    cpu_free(tl->host, tl);
}

clv_status cpu_timeline_query(clv_plugin_timeline *tl, clv_timeline_info *out)
{
    clv_timeline_info info;
    memset(&info, 0, sizeof info);
    pthread_mutex_lock(&tl->lock);
    info.flag = (const uint64_t *)&tl->word;
    info.value = atomic_load(&tl->word) & ~CLV_FLAG_FAILED;
    info.status = tl->status;
    memcpy(info.message, tl->message, sizeof info.message);
    pthread_mutex_unlock(&tl->lock);
    cpu_write(out, &info, sizeof info);
    return CLV_OK;
}

/* With the lock held. */
static void change(clv_plugin_timeline *tl, uint64_t word)
{
    atomic_store_explicit(&tl->word, word, memory_order_release);
    if (tl->waiters)
        pthread_cond_broadcast(&tl->changed);
}

static bool raise_value(clv_plugin_timeline *tl, uint64_t value)
{
    pthread_mutex_lock(&tl->lock);
    bool above = !reached(atomic_load(&tl->word), value);
    if (above)
        change(tl, value);
    pthread_mutex_unlock(&tl->lock);
    return above;
}

void cpu_timeline_reach(clv_plugin_timeline *tl, uint64_t value)
{
    raise_value(tl, value);
}

clv_status cpu_timeline_signal(clv_plugin_timeline *tl, uint64_t value)
{
    if (!(value & CLV_FLAG_FAILED) && raise_value(tl, value))
        return CLV_OK;
    uint64_t word = atomic_load(&tl->word);
    if (word & CLV_FLAG_FAILED)
        return cpu_error(tl->host, tl->status, "cpu: timeline failed: %s",
                         tl->message);
    return cpu_error(tl->host, CLV_ERR_INVALID,
                     "cpu: timeline at %" PRIu64 " cannot be signalled with "
                     "%" PRIu64 "; use a higher value below 2^63",
                     word, value);
}

clv_status cpu_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                             const char *message)
{
    if (status >= CLV_OK)
        return cpu_error(tl->host, CLV_ERR_INVALID,
                         "cpu: a timeline cannot fail with status %d; give an "
                         "error",
                         (int)status);
    pthread_mutex_lock(&tl->lock);
    uint64_t word = atomic_load(&tl->word);
    if (!(word & CLV_FLAG_FAILED)) {
        tl->status = status;
        snprintf(tl->message, sizeof tl->message, "%s", message ? message : "");
        change(tl, word | CLV_FLAG_FAILED);
    }
    pthread_mutex_unlock(&tl->lock);
    return CLV_OK;
}

bool cpu_timeline_failed(clv_plugin_timeline *tl)
{
    return atomic_load(&tl->word) & CLV_FLAG_FAILED;
}

/* The moment timeout_ns from now; false: never. */
static bool deadline(uint64_t timeout_ns, struct timespec *out)
{
    uint64_t now = cpu_now(), end;
    if (__builtin_add_overflow(now, timeout_ns, &end))
        return false;
    uint64_t seconds = end / 1000000000;
    if (seconds > INT32_MAX) /* past any uptime, and safe for a 32-bit time_t */
        return false;
    out->tv_sec = (time_t)seconds;
    out->tv_nsec = (long)(end % 1000000000);
    return true;
}

static void block(clv_plugin_timeline *tl, uint64_t value, uint64_t timeout_ns)
{
    struct timespec end;
    bool limited = deadline(timeout_ns, &end);
    pthread_mutex_lock(&tl->lock);
    tl->waiters++;
    int error = 0;
    while (!error && !reached(atomic_load(&tl->word), value))
        error = limited ? pthread_cond_timedwait(&tl->changed, &tl->lock, &end)
                        : pthread_cond_wait(&tl->changed, &tl->lock);
    tl->waiters--;
    pthread_mutex_unlock(&tl->lock);
}

clv_status cpu_timeline_await(clv_plugin_timeline *tl, uint64_t value,
                              uint64_t spin_ns, uint64_t timeout_ns,
                              char *message)
{
    cpu_spin spin = {0};
    uint64_t begin = cpu_now();
    if (spin_ns > timeout_ns)
        spin_ns = timeout_ns;
    while (!reached(atomic_load_explicit(&tl->word, memory_order_acquire),
                    value)) {
        if (cpu_spin_once(&spin, spin_ns))
            continue;
        uint64_t spent = cpu_now() - begin;
        block(tl, value,
              timeout_ns == UINT64_MAX ? timeout_ns
              : spent < timeout_ns     ? timeout_ns - spent
                                       : 0);
        break;
    }
    uint64_t word = atomic_load_explicit(&tl->word, memory_order_acquire);
    if (!reached(word, value))
        return CLV_ERR_TIMEOUT;
    if (!(word & CLV_FLAG_FAILED))
        return CLV_OK;
    /* Written before the bit was set, and never again. */
    memcpy(message, tl->message, MESSAGE_SIZE);
    return tl->status;
}

clv_status cpu_timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                             uint64_t spin_ns, uint64_t timeout_ns)
{
    char message[MESSAGE_SIZE];
    clv_status status =
        cpu_timeline_await(tl, value, spin_ns, timeout_ns, message);
    if (!status)
        return CLV_OK;
    if (status != CLV_ERR_TIMEOUT || cpu_timeline_failed(tl))
        return cpu_error(tl->host, status, "%s", message);
    return cpu_error(tl->host, CLV_ERR_TIMEOUT,
                     "cpu: timeline is at %" PRIu64 " after %" PRIu64
                     " ns, not at %" PRIu64 "; wait longer",
                     atomic_load(&tl->word), timeout_ns, value);
}
