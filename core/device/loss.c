#include "loss.h"
#include "answer.h"
#include "submit.h"
#include "../base/unreleased.h"

#include <time.h>

/* Between attempts to submit to a full queue. */
#define QUEUE_PAUSE_NS 50000u

void core_device_lose(clv_device *dev)
{
    atomic_store(&dev->lost, true);
}

void core_device_abandon(clv_device *dev)
{
    atomic_store(&dev->lost, true);
    if (atomic_exchange(&dev->abandoned, true))
        return;
    core_plugin_keep(dev->plugin);
    clv_log(dev->ctx, CLV_LOG_INFO,
            "device '%s': given up while it may still be working; its memory "
            "and plugin '%s' stay as they are until the process ends",
            dev->id, dev->plugin->name);
}

bool core_device_lost(const clv_device *dev)
{
    return atomic_load(&dev->lost);
}

bool core_device_abandoned(const clv_device *dev)
{
    return atomic_load(&dev->abandoned);
}

bool clv_device_lost(const clv_device *dev)
{
    return core_device_lost(dev);
}

void clv_device_leave_out(clv_device *dev)
{
    core_device_lose(dev);
}

clv_status core_device_usable(const clv_device *dev)
{
    if (!core_device_lost(dev))
        return CLV_OK;
    return core_device_error(
        dev, CLV_ERR_DEVICE_LOST,
        "it was %s earlier; open a new context to use it again",
        core_device_abandoned(dev) ? "given up" : "lost");
}

/* Submits nothing but the signal, as soon as there is room. The time of
 * simulated devices passes only while somebody waits. */
static clv_status submit_signal(clv_device *dev, const core_point *signal,
                                uint64_t timeout_ns)
{
    const core_submit submit = {.signals = signal, .n_signals = 1};
    const struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};
    uint64_t begin = clv_now_ns();
    for (;;) {
        clv_status st = core_device_submit(dev, &submit);
        if (st != CLV_ERR_LIMIT || clv_now_ns() - begin >= timeout_ns)
            return st;
        if (!core_timeline_done(signal->timeline, signal->value,
                                QUEUE_PAUSE_NS))
            nanosleep(&pause, NULL);
    }
}

clv_status core_device_settle(clv_device *dev, uint64_t timeout_ns)
{
    core_timeline *tl = NULL;
    clv_status st = core_timeline_create(dev, 0, &tl);
    core_point signal = {tl, 1};
    if (st == CLV_OK)
        st = submit_signal(dev, &signal, timeout_ns);
    if (st == CLV_OK)
        st = core_timeline_wait(tl, 1, 0, timeout_ns);
    /* A device that says it is lost works no more. */
    if (st != CLV_OK && !core_device_lost(dev))
        core_device_abandon(dev);
    core_timeline_destroy(tl);
    return st;
}
