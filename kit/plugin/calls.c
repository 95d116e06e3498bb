#include "calls.h"
#include "slots.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Calls that are no slots: below any slot's offset. */
enum { CALL_DLOPEN = 1, CALL_DLCLOSE, CALL_QUERY, CALL_EXIT };

static kit_watch *watched;
/* Of the plugin's file, of which a process has one at a time. */
static clv_plugin_api real;
static clv_plugin_query_fn real_query;

static void enter(uint32_t call)
{
    const memory_order relaxed = memory_order_relaxed;
    atomic_store_explicit(
        &watched->before,
        atomic_exchange_explicit(&watched->call, call, relaxed), relaxed);
    atomic_fetch_add_explicit(&watched->inside, 1, relaxed);
}

static void leave(void)
{
    atomic_fetch_sub_explicit(&watched->inside, 1, memory_order_relaxed);
}

void kit_calls_watch(kit_watch *watch)
{
    watched = watch;
}

void kit_calls_exit(void)
{
    enter(CALL_EXIT);
}

uint64_t kit_calls_spent(void)
{
    return atomic_load(&watched->spent_ns);
}

/* ------------------------------------------------------------------------ */
/* Slots                                                                    */

#define CALL(slot_, params, args)                                              \
    static clv_status call_##slot_ params                                      \
    {                                                                          \
        enter(offsetof(clv_plugin_api, slot_));                                \
        clv_status answer = real.slot_ args;                                   \
        leave();                                                               \
        return answer;                                                         \
    }
#define CALL_VOID(slot_, params, args)                                         \
    static void call_##slot_ params                                            \
    {                                                                          \
        enter(offsetof(clv_plugin_api, slot_));                                \
        real.slot_ args;                                                       \
        leave();                                                               \
    }

CALL(create, (const clv_host_api *host, clv_plugin_instance **out), (host, out))
CALL(quiesce, (clv_plugin_instance * inst), (inst))
CALL_VOID(destroy, (clv_plugin_instance * inst), (inst))
CALL(enumerate,
     (clv_plugin_instance * inst, uint32_t *count, clv_device_info *out,
      uint32_t stride),
     (inst, count, out, stride))
CALL(device_open,
     (clv_plugin_instance * inst, uint32_t index, clv_plugin_device **out),
     (inst, index, out))
CALL_VOID(device_close, (clv_plugin_device * dev), (dev))
CALL(mem_types,
     (clv_plugin_device * dev, uint32_t *count, clv_mem_type *out,
      uint32_t stride),
     (dev, count, out, stride))
CALL(op_caps,
     (clv_plugin_device * dev, const clv_subgraph *graph, clv_op_caps *out,
      uint32_t stride),
     (dev, graph, out, stride))
CALL(progress, (clv_plugin_device * dev), (dev))
CALL(buffer_alloc,
     (clv_plugin_device * dev, uint32_t mem_type, uint64_t size,
      clv_plugin_buffer **out),
     (dev, mem_type, size, out))
CALL(buffer_import,
     (clv_plugin_device * dev, uint32_t mem_type, const clv_import *import,
      clv_plugin_buffer **out),
     (dev, mem_type, import, out))
CALL_VOID(buffer_free, (clv_plugin_buffer * buf), (buf))
CALL(buffer_map, (clv_plugin_buffer * buf, uint32_t access, void **out),
     (buf, access, out))
CALL_VOID(buffer_unmap, (clv_plugin_buffer * buf), (buf))
CALL(buffer_flush, (clv_plugin_buffer * buf, uint64_t offset, uint64_t size),
     (buf, offset, size))
CALL(buffer_invalidate,
     (clv_plugin_buffer * buf, uint64_t offset, uint64_t size),
     (buf, offset, size))
CALL(timeline_create,
     (clv_plugin_device * dev, uint64_t value, clv_plugin_timeline **out),
     (dev, value, out))
CALL_VOID(timeline_destroy, (clv_plugin_timeline * tl), (tl))
CALL(timeline_query, (clv_plugin_timeline * tl, clv_timeline_info *out),
     (tl, out))
CALL(timeline_signal, (clv_plugin_timeline * tl, uint64_t value), (tl, value))
CALL(timeline_fail,
     (clv_plugin_timeline * tl, clv_status status, const char *message),
     (tl, status, message))
CALL(timeline_wait,
     (clv_plugin_timeline * tl, uint64_t value, uint64_t spin_ns,
      uint64_t timeout_ns),
     (tl, value, spin_ns, timeout_ns))
CALL(program_compile,
     (clv_plugin_device * dev, const clv_compile *compile,
      clv_plugin_program **out),
     (dev, compile, out))
CALL(program_info, (clv_plugin_program * prog, clv_program_info *out),
     (prog, out))
CALL_VOID(program_destroy, (clv_plugin_program * prog), (prog))
CALL(program_serialize,
     (clv_plugin_program * prog,
      clv_status (*write)(void *ctx, const void *data, uint64_t size),
      void *ctx),
     (prog, write, ctx))
CALL(program_validate,
     (clv_plugin_device * dev, const clv_compile *compile, const clv_blob *blob,
      uint32_t *verdict),
     (dev, compile, blob, verdict))
CALL(program_load,
     (clv_plugin_device * dev, const clv_compile *compile, const clv_blob *blob,
      clv_plugin_program **out),
     (dev, compile, blob, out))
CALL(program_key,
     (clv_plugin_device * dev, const clv_compile *compile, uint8_t key[32]),
     (dev, compile, key))
CALL(submit, (clv_plugin_device * dev, const clv_submit *submit), (dev, submit))
CALL(trace_read,
     (clv_plugin_device * dev, uint32_t *count, clv_trace_record *out,
      uint32_t stride),
     (dev, count, out, stride))
CALL(calibrate, (clv_plugin_device * dev, clv_calibration *out), (dev, out))
CALL(fault_inject, (clv_plugin_device * dev, uint32_t fault), (dev, fault))

void kit_calls_wrap(clv_plugin_api *api)
{
    static const clv_plugin_api calls = {
        .create = call_create,
        .quiesce = call_quiesce,
        .destroy = call_destroy,
        .enumerate = call_enumerate,
        .device_open = call_device_open,
        .device_close = call_device_close,
        .mem_types = call_mem_types,
        .op_caps = call_op_caps,
        .progress = call_progress,
        .buffer_alloc = call_buffer_alloc,
        .buffer_import = call_buffer_import,
        .buffer_free = call_buffer_free,
        .buffer_map = call_buffer_map,
        .buffer_unmap = call_buffer_unmap,
        .buffer_flush = call_buffer_flush,
        .buffer_invalidate = call_buffer_invalidate,
        .timeline_create = call_timeline_create,
        .timeline_destroy = call_timeline_destroy,
        .timeline_query = call_timeline_query,
        .timeline_signal = call_timeline_signal,
        .timeline_fail = call_timeline_fail,
        .timeline_wait = call_timeline_wait,
        .program_compile = call_program_compile,
        .program_info = call_program_info,
        .program_destroy = call_program_destroy,
        .program_serialize = call_program_serialize,
        .program_validate = call_program_validate,
        .program_load = call_program_load,
        .program_key = call_program_key,
        .submit = call_submit,
        .trace_read = call_trace_read,
        .calibrate = call_calibrate,
        .fault_inject = call_fault_inject,
    };
    real = *api;
    for (uint32_t i = 0; i < kit_n_slots; i++) {
        const size_t at = kit_slots[i].offset;
        void (*slot)(void);
        memcpy(&slot, (const char *)api + at, sizeof slot);
        if (slot)
            memcpy((char *)api + at, (const char *)&calls + at, sizeof slot);
    }
}

/* ------------------------------------------------------------------------ */
/* The file                                                                 */

void *kit_calls_dlopen(const char *path)
{
    enter(CALL_DLOPEN);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    leave();
    return lib;
}

int kit_calls_dlclose(void *lib)
{
    enter(CALL_DLCLOSE);
    int error = dlclose(lib);
    leave();
    return error;
}

static clv_status call_query(const clv_query_in *in, clv_query_out *out)
{
    enter(CALL_QUERY);
    clv_status status = real_query(in, out);
    leave();
    return status;
}

clv_plugin_query_fn kit_calls_query(void *lib)
{
    *(void **)&real_query = dlsym(lib, CLV_PLUGIN_QUERY_SYMBOL);
    return real_query ? call_query : NULL;
}

/* ------------------------------------------------------------------------ */
/* The parent's side                                                        */

/* NULL: none, or the exit. */
static const char *name_of(uint32_t call)
{
    for (uint32_t i = 0; i < kit_n_slots; i++)
        if (kit_slots[i].offset == call)
            return kit_slots[i].name;
    return call == CALL_DLOPEN    ? "dlopen"
           : call == CALL_DLCLOSE ? "dlclose"
           : call == CALL_QUERY   ? CLV_PLUGIN_QUERY_SYMBOL
                                  : NULL;
}

/* A call that waits for work says little: the one before it may have given
 * that. */
static bool is_waiting(uint32_t call)
{
    return call == offsetof(clv_plugin_api, timeline_wait) ||
           call == offsetof(clv_plugin_api, progress);
}

void kit_calls_where(const kit_watch *watch, char *text, size_t size)
{
    const uint32_t call = atomic_load(&watch->call);
    const char *name = name_of(call);
    const char *before =
        is_waiting(call) ? name_of(atomic_load(&watch->before)) : NULL;
    text[0] = 0;
    if (name)
        snprintf(text, size, " %s %s%s%s",
                 atomic_load(&watch->inside) ? "in" : "after", name,
                 before ? " after " : "", before ? before : "");
}
