/* What it says about itself: devices and memory types. */
#include "hostile.h"

#include <string.h>

static clv_device_info *info_at(clv_device_info *out, uint32_t stride,
                                uint32_t i)
{
    return (clv_device_info *)((char *)out + (size_t)i * stride);
}

/* The reference's devices, n of which are there to be spoiled. */
static clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride, uint32_t *n)
{
    uint32_t capacity = *count;
    clv_status status = ref_enumerate(inst, count, out, stride);
    *n = *count < capacity ? *count : capacity;
    return status;
}

#define SPOIL_INFO(name, ...)                                                  \
    static clv_status name(clv_plugin_instance *inst, uint32_t *count,         \
                           clv_device_info *out, uint32_t stride)              \
    {                                                                          \
        uint32_t n;                                                            \
        clv_status status = enumerate(inst, count, out, stride, &n);           \
        for (uint32_t i = 0; i < n && !status; i++) {                          \
            clv_device_info *info = info_at(out, stride, i);                   \
            __VA_ARGS__;                                                       \
        }                                                                      \
        return status;                                                         \
    }

SPOIL_INFO(id_endless, memset(info->id, 'a' + (int)i, sizeof info->id))
SPOIL_INFO(id_odd, memcpy(info->id, i ? "../a" : "../\n", 5))
SPOIL_INFO(id_same, memcpy(info->id, "x", 2))
SPOIL_INFO(name_endless, memset(info->name, 'n', sizeof info->name))
SPOIL_INFO(kind_unknown, info->kind = 99)
SPOIL_INFO(clock_unknown, info->clock = 7)
SPOIL_INFO(mem_types_none, info->n_mem_types = 0)
SPOIL_INFO(mem_types_many, info->n_mem_types = 1000000)
SPOIL_INFO(info_past, memset((char *)info + info->header.struct_size, 0xee, 8))

static clv_status count_huge(clv_plugin_instance *inst, uint32_t *count,
                             clv_device_info *out, uint32_t stride)
{
    clv_status status = ref_enumerate(inst, count, out, stride);
    *count = 1000000000;
    return status;
}

/* More devices at every question. */
static clv_status count_grows(clv_plugin_instance *inst, uint32_t *count,
                              clv_device_info *out, uint32_t stride)
{
    static uint32_t more;
    clv_status status = ref_enumerate(inst, count, out, stride);
    *count += ++more;
    return status;
}

/* ------------------------------------------------------------------------ */

#define SPOIL_MEMORY(name, ...)                                                \
    static clv_status name(clv_plugin_device *dev, uint32_t *count,            \
                           clv_mem_type *out, uint32_t stride)                 \
    {                                                                          \
        uint32_t capacity = *count;                                            \
        clv_status status = ref_mem_types(dev, count, out, stride);            \
        for (uint32_t i = 0; i < *count && i < capacity && !status; i++) {     \
            clv_mem_type *type =                                               \
                (clv_mem_type *)((char *)out + (size_t)i * stride);            \
            __VA_ARGS__;                                                       \
        }                                                                      \
        return status;                                                         \
    }

SPOIL_MEMORY(mem_align_odd, type->alignment = 48)
SPOIL_MEMORY(mem_import_align_odd, type->import_align = 3)
SPOIL_MEMORY(mem_past, memset((char *)type + type->header.struct_size, 0xee, 8))

static clv_status mem_types_differ(clv_plugin_device *dev, uint32_t *count,
                                   clv_mem_type *out, uint32_t stride)
{
    clv_status status = ref_mem_types(dev, count, out, stride);
    *count += 1;
    return status;
}

/* ------------------------------------------------------------------------ */

const hostile_mode hostile_devices[] = {
    {"count_huge", "a thousand million devices", {.enumerate = count_huge}},
    {"count_grows", "more devices every time", {.enumerate = count_grows}},
    {"id_endless", "an id without its end", {.enumerate = id_endless}},
    {"id_odd", "an id that is a path", {.enumerate = id_odd}},
    {"id_same", "two devices of one id", {.enumerate = id_same}},
    {"name_endless", "a name without its end", {.enumerate = name_endless}},
    {"kind_unknown", "a kind that is none", {.enumerate = kind_unknown}},
    {"clock_unknown", "a clock that is none", {.enumerate = clock_unknown}},
    {"mem_types_none", "no memory type", {.enumerate = mem_types_none}},
    {"mem_types_many", "a million of them", {.enumerate = mem_types_many}},
    {"mem_types_differ", "a count of its own", {.mem_types = mem_types_differ}},
    {"mem_align_odd", "alignment 48", {.mem_types = mem_align_odd}},
    {"mem_import_align_odd",
     "alignment 3 of imports",
     {.mem_types = mem_import_align_odd}},
    {"info_past", "writes behind device_info", {.enumerate = info_past}},
    {"mem_past", "writes behind mem_type", {.mem_types = mem_past}},
    {0},
};
