#include "caps.h"
#include "device.h"
#include "job.h"
#include "memory.h"
#include "npu_sim_build_id.h"
#include "program.h"
#include "timeline.h"

/*
 * Left out: progress (threads move work on), flush and invalidate (memory is
 * coherent), export (no handles).
 */
static const clv_plugin_api api = {
    .header = {sizeof(clv_plugin_api), CLV_STRUCT_PLUGIN_API, NULL},
    .name = "npu_sim",
    .version = NPU_VERSION,
    .build_id = BUILD_ID,
    .description = "simulated chips, described in the configuration",
    .flags = CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS,
    .n_options = NPU_N_OPTIONS,
    .option_stride = sizeof(clv_option),
    .options = npu_options,
    .create = npu_create,
    .quiesce = npu_quiesce,
    .destroy = npu_destroy,
    .enumerate = npu_enumerate,
    .device_open = npu_device_open,
    .device_close = npu_device_close,
    .mem_types = npu_mem_types,
    .op_caps = npu_op_caps,
    .buffer_alloc = npu_buffer_alloc,
    .buffer_import = npu_buffer_import,
    .buffer_free = npu_buffer_free,
    .buffer_map = npu_buffer_map,
    .buffer_unmap = clv_buffer_unmap,
    .timeline_create = npu_timeline_create,
    .timeline_destroy = npu_timeline_destroy,
    .timeline_query = npu_timeline_query,
    .timeline_signal = npu_timeline_signal,
    .timeline_fail = npu_timeline_fail,
    .timeline_wait = npu_timeline_wait,
    .program_compile = npu_program_compile,
    .program_info = npu_program_info,
    .program_destroy = npu_program_destroy,
    .program_serialize = npu_program_serialize,
    .program_validate = npu_program_validate,
    .program_load = npu_program_load,
    .program_key = npu_program_key,
    .submit = npu_submit,
    .trace_read = npu_trace_read,
    .calibrate = npu_calibrate,
    .fault_inject = npu_fault_inject,
};

CLV_PLUGIN_MANIFEST("name = npu_sim\n"
                    "abi = 1\n"
                    "devices = npu gpu cpu\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
