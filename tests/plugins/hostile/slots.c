/* Every slot but create: the parameterised modes, then the slot in use. */
#include "hostile.h"

#define SLOTS(STATUS, VOID)                                                    \
    STATUS(quiesce, (clv_plugin_instance * inst), (inst))                      \
    VOID(destroy, (clv_plugin_instance * inst), (inst))                        \
    STATUS(enumerate,                                                          \
           (clv_plugin_instance * inst, uint32_t * count,                      \
            clv_device_info * out, uint32_t stride),                           \
           (inst, count, out, stride))                                         \
    STATUS(device_open,                                                        \
           (clv_plugin_instance * inst, uint32_t index,                        \
            clv_plugin_device * *out),                                         \
           (inst, index, out))                                                 \
    VOID(device_close, (clv_plugin_device * dev), (dev))                       \
    STATUS(mem_types,                                                          \
           (clv_plugin_device * dev, uint32_t * count, clv_mem_type * out,     \
            uint32_t stride),                                                  \
           (dev, count, out, stride))                                          \
    STATUS(op_caps,                                                            \
           (clv_plugin_device * dev, const clv_subgraph *graph,                \
            clv_op_caps *out, uint32_t stride),                                \
           (dev, graph, out, stride))                                          \
    STATUS(progress, (clv_plugin_device * dev), (dev))                         \
    STATUS(buffer_alloc,                                                       \
           (clv_plugin_device * dev, uint32_t mem_type, uint64_t size,         \
            clv_plugin_buffer * *out),                                         \
           (dev, mem_type, size, out))                                         \
    STATUS(buffer_import,                                                      \
           (clv_plugin_device * dev, uint32_t mem_type,                        \
            const clv_import *import, clv_plugin_buffer **out),                \
           (dev, mem_type, import, out))                                       \
    VOID(buffer_free, (clv_plugin_buffer * buf), (buf))                        \
    STATUS(buffer_map, (clv_plugin_buffer * buf, uint32_t access, void **out), \
           (buf, access, out))                                                 \
    VOID(buffer_unmap, (clv_plugin_buffer * buf), (buf))                       \
    STATUS(buffer_flush,                                                       \
           (clv_plugin_buffer * buf, uint64_t offset, uint64_t size),          \
           (buf, offset, size))                                                \
    STATUS(buffer_invalidate,                                                  \
           (clv_plugin_buffer * buf, uint64_t offset, uint64_t size),          \
           (buf, offset, size))                                                \
    STATUS(                                                                    \
        timeline_create,                                                       \
        (clv_plugin_device * dev, uint64_t value, clv_plugin_timeline * *out), \
        (dev, value, out))                                                     \
    VOID(timeline_destroy, (clv_plugin_timeline * tl), (tl))                   \
    STATUS(timeline_query,                                                     \
           (clv_plugin_timeline * tl, clv_timeline_info * out), (tl, out))     \
    STATUS(timeline_signal, (clv_plugin_timeline * tl, uint64_t value),        \
           (tl, value))                                                        \
    STATUS(timeline_fail,                                                      \
           (clv_plugin_timeline * tl, clv_status status, const char *message), \
           (tl, status, message))                                              \
    STATUS(timeline_wait,                                                      \
           (clv_plugin_timeline * tl, uint64_t value, uint64_t spin_ns,        \
            uint64_t timeout_ns),                                              \
           (tl, value, spin_ns, timeout_ns))                                   \
    STATUS(program_compile,                                                    \
           (clv_plugin_device * dev, const clv_compile *compile,               \
            clv_plugin_program **out),                                         \
           (dev, compile, out))                                                \
    STATUS(program_info, (clv_plugin_program * prog, clv_program_info * out),  \
           (prog, out))                                                        \
    VOID(program_destroy, (clv_plugin_program * prog), (prog))                 \
    STATUS(program_serialize,                                                  \
           (clv_plugin_program * prog,                                         \
            clv_status(*write)(void *ctx, const void *data, uint64_t size),    \
            void *ctx),                                                        \
           (prog, write, ctx))                                                 \
    STATUS(program_validate,                                                   \
           (clv_plugin_device * dev, const clv_compile *compile,               \
            const clv_blob *blob, uint32_t *verdict),                          \
           (dev, compile, blob, verdict))                                      \
    STATUS(program_load,                                                       \
           (clv_plugin_device * dev, const clv_compile *compile,               \
            const clv_blob *blob, clv_plugin_program **out),                   \
           (dev, compile, blob, out))                                          \
    STATUS(program_key,                                                        \
           (clv_plugin_device * dev, const clv_compile *compile,               \
            uint8_t key[32]),                                                  \
           (dev, compile, key))                                                \
    STATUS(submit, (clv_plugin_device * dev, const clv_submit *work),          \
           (dev, work))                                                        \
    STATUS(trace_read,                                                         \
           (clv_plugin_device * dev, uint32_t * count, clv_trace_record * out, \
            uint32_t stride),                                                  \
           (dev, count, out, stride))                                          \
    STATUS(calibrate, (clv_plugin_device * dev, clv_calibration * out),        \
           (dev, out))                                                         \
    STATUS(fault_inject, (clv_plugin_device * dev, uint32_t fault),            \
           (dev, fault))

#define DEFINE_STATUS(slot, parameters, arguments)                             \
    static clv_status slot parameters                                          \
    {                                                                          \
        clv_status answer;                                                     \
        return hostile_meddles(#slot, &answer)                                 \
                   ? answer                                                    \
                   : hostile_active.slot arguments;                            \
    }
#define DEFINE_VOID(slot, parameters, arguments)                               \
    static void slot parameters                                                \
    {                                                                          \
        clv_status answer;                                                     \
        hostile_meddles(#slot, &answer);                                       \
        hostile_active.slot arguments;                                         \
    }
#define SET(slot, parameters, arguments) table->slot = slot;

SLOTS(DEFINE_STATUS, DEFINE_VOID)

void hostile_fill_table(clv_plugin_api *table)
{
    SLOTS(SET, SET)
}
