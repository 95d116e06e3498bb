#include "slots.h"

#include <string.h>

#define SLOT(name_)                                                            \
    {                                                                          \
#name_, offsetof(clv_plugin_api, name_), false                         \
    }
#define OPTIONAL(name_)                                                        \
    {                                                                          \
#name_, offsetof(clv_plugin_api, name_), true                          \
    }

const kit_slot kit_slots[] = {
    SLOT(create),
    SLOT(quiesce),
    SLOT(destroy),
    SLOT(enumerate),
    SLOT(device_open),
    SLOT(device_close),
    SLOT(mem_types),
    SLOT(op_caps),
    OPTIONAL(progress),
    SLOT(buffer_alloc),
    OPTIONAL(buffer_import),
    SLOT(buffer_free),
    OPTIONAL(buffer_map),
    OPTIONAL(buffer_unmap),
    OPTIONAL(buffer_flush),
    OPTIONAL(buffer_invalidate),
    SLOT(timeline_create),
    SLOT(timeline_destroy),
    SLOT(timeline_query),
    SLOT(timeline_signal),
    SLOT(timeline_fail),
    SLOT(timeline_wait),
    SLOT(program_compile),
    SLOT(program_info),
    SLOT(program_destroy),
    OPTIONAL(program_serialize),
    OPTIONAL(program_validate),
    OPTIONAL(program_load),
    OPTIONAL(program_key),
    SLOT(submit),
    OPTIONAL(trace_read),
    OPTIONAL(calibrate),
    OPTIONAL(fault_inject),
};

const uint32_t kit_n_slots = sizeof kit_slots / sizeof *kit_slots;

static bool is_null(const clv_plugin_api *api, const kit_slot *slot)
{
    void (*fn)(void);
    memcpy(&fn, (const char *)api + slot->offset, sizeof fn);
    return !fn;
}

const char *kit_missing_slot(const clv_plugin_api *api)
{
    for (uint32_t i = 0; i < kit_n_slots; i++)
        if (!kit_slots[i].optional && is_null(api, &kit_slots[i]))
            return kit_slots[i].name;
    if (api->buffer_map && !api->buffer_unmap)
        return "buffer_unmap";
    if (api->program_serialize)
        return !api->program_validate ? "program_validate"
               : !api->program_load   ? "program_load"
               : !api->program_key    ? "program_key"
                                      : NULL;
    if (api->trace_read && !api->calibrate)
        return "calibrate";
    return NULL;
}
