#include "calls.h"
#include "../base/clock.h"

#include <stdio.h>

/* Between two looks at the calls, and so many in CORE_CALL_BLOCKED_NS. */
#define LOOK_NS 1000000000u
#define LOOKS 5

static _Thread_local core_call_step current_step;

void core_call_set_step(core_call_step step)
{
    current_step = step;
}

void core_call_begin(core_call *call, clv_device *dev, const char *slot,
                     uint64_t allowed_ns)
{
    core_calls *calls = &dev->ctx->calls;
    uint64_t due = clv_now_ns();
    if (__builtin_add_overflow(due, allowed_ns, &due))
        due = UINT64_MAX;
    *call = (core_call){.dev = dev,
                        .slot = slot,
                        .step = current_step,
                        .due_ns = due,
                        .link = &calls->first};
    pthread_mutex_lock(&calls->mutex);
    call->next = calls->first;
    if (call->next)
        call->next->link = &call->next;
    calls->first = call;
    pthread_mutex_unlock(&calls->mutex);
}

void core_call_end(core_call *call)
{
    core_calls *calls = &call->dev->ctx->calls;
    pthread_mutex_lock(&calls->mutex);
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    pthread_mutex_unlock(&calls->mutex);
}

/* A call that is worth a message and has none yet; false: there is none. */
static bool find_late(core_calls *calls, bool idle, char *out, size_t size)
{
    const uint64_t now = clv_now_ns();
    for (core_call *c = calls->first; c; c = c->next) {
        const uint64_t late = now > c->due_ns ? now - c->due_ns : 0;
        if (c->told || late < CORE_CALL_BLOCKED_NS ||
            (!idle && late < CORE_CALL_LONG_NS))
            continue;
        c->told = true;
        int n = snprintf(out, size,
                         "device '%s': %s has not returned for "
                         "%.0f s",
                         c->dev->id, c->slot, (double)late * 1e-9);
        if (c->step.label && n > 0 && (size_t)n < size)
            snprintf(out + n, size - (size_t)n, ", in step %u (%s)",
                     c->step.index, c->step.label);
        return true;
    }
    return false;
}

static void *watch(void *arg)
{
    clv_context *ctx = arg;
    core_calls *calls = &ctx->calls;
    char text[512];
    uint64_t used[LOOKS] = {0}; /* of processors, at the latest looks */
    pthread_mutex_lock(&calls->mutex);
    for (uint32_t i = 0; !calls->stop; i = (i + 1) % LOOKS) {
        const uint64_t before = used[i];
        used[i] = core_processor_ns();
        const bool idle = core_is_idle(used[i] - before, CORE_CALL_BLOCKED_NS);
        while (find_late(calls, idle, text, sizeof text)) {
            pthread_mutex_unlock(&calls->mutex);
            clv_log(ctx, CLV_LOG_WARN, "%s", text);
            pthread_mutex_lock(&calls->mutex);
        }
        const struct timespec end = core_timespec(clv_now_ns() + LOOK_NS);
        pthread_cond_timedwait(&calls->stopped, &calls->mutex, &end);
    }
    pthread_mutex_unlock(&calls->mutex);
    return NULL;
}

void core_calls_watch(clv_context *ctx)
{
    core_calls *calls = &ctx->calls;
    calls->watched = !pthread_create(&calls->thread, NULL, watch, ctx);
}

void core_calls_finish(clv_context *ctx)
{
    core_calls *calls = &ctx->calls;
    pthread_mutex_lock(&calls->mutex);
    calls->stop = true;
    pthread_cond_signal(&calls->stopped);
    pthread_mutex_unlock(&calls->mutex);
    if (calls->watched)
        pthread_join(calls->thread, NULL);
    calls->watched = false;
}
