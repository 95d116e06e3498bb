/*
 * The reference plugin as a later release will build it: larger structs, a slot
 * more, and chains on what it answers, of types that this host does not know.
 * CLEAVE_TEST_REQUIRED names one of the answers whose chain must be understood:
 * table, device, mem_type, caps, cost, timeline, program, trace, calibration,
 * export.
 */
#include "../ref/ref.h"

#include <stdlib.h>
#include <string.h>

CLV_PLUGIN_MANIFEST("name = newer\n"
                    "abi = 1-2\n"
                    "devices = other\n");

#define NEWER_TYPE 0x4e57u

static clv_header chains[2] = {
    {sizeof(clv_header), NEWER_TYPE, &chains[1]},
    {sizeof(clv_header), NEWER_TYPE + 1, NULL},
};
static clv_header required = {sizeof(clv_header),
                              NEWER_TYPE | CLV_STRUCT_REQUIRED, NULL};
static clv_plugin_api table;

static void hang_on(clv_header *header, const char *what)
{
    const char *name = getenv("CLEAVE_TEST_REQUIRED");
    header->next = name && !strcmp(name, what) ? &required : &chains[0];
}

static void hang_on_all(void *first, uint32_t n, uint32_t stride,
                        const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        hang_on((clv_header *)((char *)first + (size_t)i * stride), what);
}

/* No host of version 1 knows it. */
static void newer_slot(void)
{
    abort();
}

static clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride)
{
    uint32_t capacity = *count;
    clv_status status = ref_enumerate(inst, count, out, stride);
    if (!status)
        hang_on_all(out, *count < capacity ? *count : capacity, stride,
                    "device");
    return status;
}

static clv_status mem_types(clv_plugin_device *dev, uint32_t *count,
                            clv_mem_type *out, uint32_t stride)
{
    uint32_t capacity = *count;
    clv_status status = ref_mem_types(dev, count, out, stride);
    if (!status)
        hang_on_all(out, *count < capacity ? *count : capacity, stride,
                    "mem_type");
    return status;
}

static clv_status op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_op_caps *out, uint32_t stride)
{
    clv_status status = ref_op_caps(dev, graph, out, stride);
    if (!status)
        hang_on_all(out, graph->n_nodes, stride, "caps");
    return status;
}

static clv_status timeline_query(clv_plugin_timeline *tl,
                                 clv_timeline_info *out)
{
    clv_status status = ref_timeline_query(tl, out);
    if (!status)
        hang_on(&out->header, "timeline");
    return status;
}

static clv_status program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_status status = ref_program_info(prog, out);
    if (!status)
        hang_on(&out->header, "program");
    return status;
}

static clv_status trace_read(clv_plugin_device *dev, uint32_t *count,
                             clv_trace_record *out, uint32_t stride)
{
    clv_status status = ref_trace_read(dev, count, out, stride);
    if (!status)
        hang_on_all(out, *count, stride, "trace");
    return status;
}

static clv_status calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    clv_status status = ref_calibrate(dev, out);
    if (!status)
        hang_on(&out->header, "calibration");
    return status;
}

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    table = ref_api;
    hang_on(&table.header, "table");
    memset(table.newer_members, 0xff, sizeof table.newer_members);
    table.newer_slot = newer_slot;
    table.enumerate = enumerate;
    table.mem_types = mem_types;
    table.op_caps = op_caps;
    table.timeline_query = timeline_query;
    table.program_info = program_info;
    table.trace_read = trace_read;
    table.calibrate = calibrate;
    return clv_query_answer(in, out, 1, &table);
}
