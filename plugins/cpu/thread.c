#include "thread.h"

#include <cleave/plugin_util.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The cores that thread index is bound to; false: to none. */
static bool own_cores(const cpu_setup *setup, uint32_t index, cpu_cores *out)
{
    *out = setup->cores;
    if (setup->pin) {
        memset(out, 0, sizeof *out);
        cpu_cores_add(out, cpu_cores_nth(&setup->cores, index));
    }
    return setup->pin || setup->bound;
}

/* Bound before it begins, so that it never runs elsewhere. */
static int start(const cpu_setup *setup, uint32_t index, void *(*fn)(void *ctx),
                 void *ctx, pthread_t *out)
{
    cpu_cores cores;
    pthread_attr_t attr;
    sigset_t all, old;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    if (own_cores(setup, index, &cores))
        error = pthread_attr_setaffinity_np(
            &attr, sizeof cores, (const cpu_set_t *)(const void *)&cores);
    /* Signals are for the application's threads; SIGBUS comes where a weight
     * of a damaged file is read. */
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (!error)
        error = pthread_create(out, &attr, fn, ctx);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

clv_status cpu_thread_start(const clv_host_api *host, const cpu_setup *setup,
                            uint32_t index, void *(*fn)(void *ctx), void *ctx,
                            pthread_t *out)
{
    char name[16], list[96] = "any";
    cpu_cores cores;
    int error = start(setup, index, fn, ctx, out);
    if (!error) {
        snprintf(name, sizeof name, "clv-%.6s-%" PRIu32,
                 setup->id[0] ? setup->id : "cpu", index);
        pthread_setname_np(*out, name);
        return CLV_OK;
    }
    if (own_cores(setup, index, &cores))
        cpu_cores_text(&cores, list, sizeof list);
    return clv_fail(host, CLV_ERR_LIMIT,
                    "cpu: cannot start thread %" PRIu32 " of %" PRIu32
                    " on cores %s: %s; lower option threads, or name cores "
                    "that this process may use",
                    index + 1, setup->threads, list, strerror(error));
}
