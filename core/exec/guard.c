#include "guard.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/unreleased.h"
#include "../device/calls.h"
#include "../device/loss.h"

#include <stdio.h>
#include <stdlib.h>

/* On a busy machine a thread may have to wait for its turn. */
#define SLICE_MIN_NS 1000000000u
#define SLICES 10

typedef struct guard {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    clv_status (*fn)(void *job);
    void *job;
    core_call_step step;
    char label[sizeof((core_exec_step *)0)->label]; /* outlives the exec */
    bool done;
    clv_status status;
    char message[1024];
} guard;

static void *call(void *arg)
{
    guard *g = arg;
    core_call_set_step(g->step);
    const clv_status status = g->fn(g->job);
    pthread_mutex_lock(&g->mutex);
    g->status = status;
    snprintf(g->message, sizeof g->message, "%s", clv_last_error());
    g->done = true;
    pthread_cond_signal(&g->ended);
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

static guard *guard_new(const clv_exec *exec, uint32_t step,
                        clv_status (*fn)(void *job), void *job)
{
    guard *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    pthread_mutex_init(&g->mutex, NULL);
    core_condition_init(&g->ended);
    g->fn = fn;
    g->job = job;
    snprintf(g->label, sizeof g->label, "%s", exec->steps[step].label);
    g->step = (core_call_step){g->label, step};
    return g;
}

static bool await_once(guard *g, uint64_t limit_ns)
{
    const struct timespec end = core_timespec(clv_now_ns() + limit_ns);
    int error = 0;
    pthread_mutex_lock(&g->mutex);
    while (!g->done && !error)
        error = pthread_cond_timedwait(&g->ended, &g->mutex, &end);
    const bool done = g->done;
    pthread_mutex_unlock(&g->mutex);
    return done;
}

/* False if it blocks for as long as the limit. A call may take longer than a
 * step if it works, as one that compiles does; but not for ever. */
static bool await(guard *g, uint64_t limit_ns)
{
    const uint64_t slice = limit_ns > SLICE_MIN_NS ? limit_ns : SLICE_MIN_NS;
    for (int i = 0; i < SLICES; i++) {
        const uint64_t used = core_processor_ns();
        if (await_once(g, slice))
            return true;
        if (core_is_idle(core_processor_ns() - used, slice))
            return false;
    }
    return false;
}

static clv_status give_up(const clv_exec *exec, uint32_t step, const char *slot,
                          guard *g)
{
    clv_device *dev = core_exec_device_of(exec, step);
    core_unreleased_add(g);
    core_device_abandon(dev);
    return clv_error(CLV_ERR_TIMEOUT,
                     "device '%s': %s did not return within %g s "
                     "(core.wait_timeout)",
                     dev->id, slot, (double)exec->limit_ns * 1e-9);
}

clv_status core_exec_guard(clv_exec *exec, uint32_t step, const char *slot,
                           const core_plugin *blamed,
                           clv_status (*fn)(void *job), void *job)
{
    pthread_t thread;
    const clv_device *dev = core_exec_device_of(exec, step);
    core_use_note(exec->use, blamed, "%s of device '%s', step %u (%s)", slot,
                  dev->id, step, exec->steps[step].label);
    guard *g =
        exec->limit_ns == UINT64_MAX ? NULL : guard_new(exec, step, fn, job);
    if (!g || pthread_create(&thread, NULL, call, g)) {
        free(g);
        return fn(job);
    }
    if (!await(g, exec->limit_ns)) {
        pthread_detach(thread);
        return give_up(exec, step, slot, g);
    }
    pthread_join(thread, NULL);
    const clv_status status =
        g->status ? clv_error(g->status, "%s", g->message) : CLV_OK;
    pthread_cond_destroy(&g->ended);
    pthread_mutex_destroy(&g->mutex);
    free(g);
    return status;
}
