#include "timeline.h"
#include "loss.h"
#include "answer.h"
#include "../base/unreleased.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long a wait on a device that needs progress() blocks between calls. */
#define PROGRESS_SLICE_NS 100000u
/* Before asking again after a timeout that came too early. */
#define EARLY_PAUSE_NS 50000u
/* Of a wait: one that does not end then is noticed. */
#define SLICE_NS 2000000000u

static clv_status query(core_timeline *tl, clv_timeline_info *out)
{
    clv_device *dev = tl->dev;
    clv_timeline_info info =
        CLV_INIT(clv_timeline_info, CLV_STRUCT_TIMELINE_INFO);
    CLV_TRY(CORE_CALL(dev, timeline_query, tl->handle, &info));
    if (!core_chain_ok(&info.header))
        return core_device_extended(dev, "timeline_query");
    if (!info.flag || (uintptr_t)info.flag % sizeof *info.flag)
        return core_device_broken(dev, "timeline_query",
                                  "no flag word, or a misaligned one");
    if (info.value & CLV_FLAG_FAILED)
        return core_device_broken(dev, "timeline_query",
                                  "a value that uses the failure bit");
    *out = info;
    return CLV_OK;
}

clv_status core_timeline_create(clv_device *dev, uint64_t value,
                                core_timeline **out)
{
    CLV_TRY(core_device_usable(dev));
    if (value & CLV_FLAG_FAILED)
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "a timeline cannot start at %llu",
                                 (unsigned long long)value);
    core_timeline *tl = calloc(1, sizeof *tl);
    if (!tl)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory for a timeline");
    tl->dev = dev;
    clv_status st =
        CORE_CALL(dev, timeline_create, dev->handle, value, &tl->handle);
    if (st == CLV_OK && !tl->handle)
        st = core_device_broken(dev, "timeline_create", "no timeline");
    clv_timeline_info info;
    if (st == CLV_OK)
        st = query(tl, &info);
    if (st != CLV_OK) {
        core_timeline_destroy(tl);
        return st;
    }
    tl->flag = info.flag;
    *out = tl;
    return CLV_OK;
}

void core_timeline_destroy(core_timeline *tl)
{
    if (!tl)
        return;
    if (core_device_abandoned(tl->dev)) {
        core_unreleased_add(tl);
        return;
    }
    if (tl->handle)
        CORE_CALL_VOID(tl->dev, timeline_destroy, tl->handle);
    free(tl);
}

clv_status core_timeline_fail(core_timeline *tl, clv_status status,
                              const char *message)
{
    CLV_TRY(core_device_usable(tl->dev));
    if (status >= CLV_OK || status < CLV_ERR_INTERNAL)
        return core_device_error(tl->dev, CLV_ERR_INVALID,
                                 "a timeline cannot fail with status %d",
                                 status);
    return CORE_CALL(tl->dev, timeline_fail, tl->handle, status,
                     message ? message : "");
}

/* The timeline's failure; CLV_OK if there is none. It is about the work that
 * was to signal it: the device may still be usable. */
static clv_status failure_of(core_timeline *tl)
{
    clv_timeline_info info =
        CLV_INIT(clv_timeline_info, CLV_STRUCT_TIMELINE_INFO);
    if (CORE_CALL_RAW(tl->dev, 0, timeline_query, tl->handle, &info) !=
            CLV_OK ||
        info.status == CLV_OK)
        return CLV_OK;
    core_name_clean(info.message, sizeof info.message);
    return core_device_error(tl->dev, core_status_known(info.status), "%s",
                             info.message[0] ? info.message
                                             : clv_status_name(info.status));
}

static uint64_t deadline(uint64_t now, uint64_t timeout_ns)
{
    uint64_t end;
    return __builtin_add_overflow(now, timeout_ns, &end) ? UINT64_MAX : end;
}

/* One call of the slot. */
static clv_status wait_once(core_timeline *tl, uint64_t value, uint64_t spin_ns,
                            uint64_t timeout_ns)
{
    clv_device *dev = tl->dev;
    uint64_t serial = core_error_serial();
    if (dev->info.flags & CLV_DEVICE_NEEDS_PROGRESS) {
        CLV_TRY(core_device_progress(dev));
        if (timeout_ns > PROGRESS_SLICE_NS)
            timeout_ns = PROGRESS_SLICE_NS;
        if (spin_ns > timeout_ns)
            spin_ns = timeout_ns;
    }
    clv_status st = CORE_CALL_RAW(dev, timeout_ns, timeline_wait, tl->handle,
                                  value, spin_ns, timeout_ns);
    if (st == CLV_OK || (st == CLV_ERR_TIMEOUT && !core_timeline_failed(tl)))
        return st;
    clv_status failure = failure_of(tl);
    return failure ? failure
                   : core_device_answer(dev, "timeline_wait", serial, st);
}

/* The plugin says that value is reached: checks it. */
static clv_status check_reached(core_timeline *tl, uint64_t value)
{
    clv_timeline_info info;
    if (core_timeline_reached(tl) >= value)
        return CLV_OK;
    clv_status st = query(tl, &info);
    if (st != CLV_OK || info.value >= value)
        return st;
    if (info.status != CLV_OK)
        return failure_of(tl);
    return core_device_broken(tl->dev, "timeline_wait",
                              "that step %llu is done, its timeline is at %llu",
                              (unsigned long long)value,
                              (unsigned long long)info.value);
}

clv_status core_timeline_wait(core_timeline *tl, uint64_t value,
                              uint64_t spin_ns, uint64_t timeout_ns)
{
    const struct timespec pause = {.tv_nsec = EARLY_PAUSE_NS};
    const uint64_t end = deadline(clv_now_ns(), timeout_ns);
    uint64_t left = timeout_ns;
    for (;;) {
        clv_status st = core_device_usable(tl->dev);
        if (st == CLV_OK)
            st = wait_once(tl, value, spin_ns,
                           left < SLICE_NS ? left : SLICE_NS);
        if (st == CLV_OK)
            return check_reached(tl, value);
        if (st != CLV_ERR_TIMEOUT)
            return st;
        uint64_t now = clv_now_ns();
        if (now >= end)
            return core_device_error(
                tl->dev, st, "nothing after %.3f s of waiting for step %llu",
                (double)timeout_ns * 1e-9, (unsigned long long)value);
        left = timeout_ns == UINT64_MAX ? UINT64_MAX : end - now;
        spin_ns = 0;
        if (!(tl->dev->info.flags & CLV_DEVICE_NEEDS_PROGRESS))
            nanosleep(&pause, NULL);
    }
}

bool core_timeline_done(core_timeline *tl, uint64_t value, uint64_t virtual_ns)
{
    clv_device *dev = tl->dev;
    if (dev->info.clock == CLV_CLOCK_VIRTUAL)
        return !core_device_usable(dev) &&
               CORE_CALL_RAW(dev, 0, timeline_wait, tl->handle, value,
                             virtual_ns, virtual_ns) == CLV_OK;
    if (core_timeline_reached(tl) < value &&
        dev->info.flags & CLV_DEVICE_NEEDS_PROGRESS)
        core_device_progress(dev);
    return core_timeline_reached(tl) >= value;
}

uint64_t core_timeline_reached(const core_timeline *tl)
{
    return __atomic_load_n(tl->flag, __ATOMIC_ACQUIRE) & ~CLV_FLAG_FAILED;
}

bool core_timeline_failed(const core_timeline *tl)
{
    return __atomic_load_n(tl->flag, __ATOMIC_ACQUIRE) & CLV_FLAG_FAILED;
}
