#include "caps.h"
#include "cpu_build_id.h"
#include "device.h"
#include "memory.h"
#include "program.h"

static const clv_option options[] = {
    CLV_OPTION(INT, PLUGIN, "threads", "0", .min = 0, .max = 1024,
               .help = "threads that compute, without sections for devices; 0: "
                       "one for each core this process may use"),
    CLV_OPTION(ENUM, PLUGIN, "features", "auto",
               .choices = "auto|ref|avx2|avx512|avx512vnni|amx",
               .help = "instruction sets the kernels use, up to this one; ref: "
                       "plain C"),
    CLV_OPTION(INT, PLUGIN, "poll", "2000", .min = 0, .max = 1000000,
               .help = "microseconds an idle thread polls for work before it "
                       "blocks"),
    CLV_OPTION(BOOL, PLUGIN, "pin", "off",
               .help = "bind each thread to a core of its own"),
    CLV_OPTION(STRING, DEVICE, "cores", "",
               .help =
                   "cores the device's threads may use, as in 0-3,6; empty: "
                   "all that this process may use"),
    CLV_OPTION(INT, DEVICE, "threads", "0", .min = 0, .max = 1024,
               .help = "threads of the device; 0: one for each of its cores"),
};

/*
 * Left out: progress (nothing to move on), flush and invalidate (memory is
 * coherent), and serialisation with program_key: see program.h.
 */
static const clv_plugin_api api = {
    .header = {sizeof(clv_plugin_api), CLV_STRUCT_PLUGIN_API, NULL},
    .name = "cpu",
    .version = CPU_VERSION,
    .build_id = BUILD_ID,
    .description = "the host's processors",
    .flags = CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS,
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .options = options,
    .create = cpu_instance_create,
    .quiesce = cpu_instance_quiesce,
    .destroy = cpu_instance_destroy,
    .enumerate = cpu_enumerate,
    .device_open = cpu_device_open,
    .device_close = cpu_device_close,
    .mem_types = cpu_mem_types,
    .op_caps = cpu_op_caps,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_import = cpu_buffer_import,
    .buffer_free = clv_buffer_free,
    .buffer_map = clv_buffer_map,
    .buffer_unmap = clv_buffer_unmap,
    .timeline_create = clv_timeline_create,
    .timeline_destroy = clv_timeline_destroy,
    .timeline_query = clv_timeline_query,
    .timeline_signal = clv_timeline_signal,
    .timeline_fail = clv_timeline_fail,
    .timeline_wait = clv_timeline_wait,
    .program_compile = cpu_program_compile,
    .program_info = cpu_program_info,
    .program_destroy = clv_program_destroy,
    .submit = cpu_submit,
    .trace_read = clv_trace_read,
    .calibrate = cpu_calibrate,
    .fault_inject = clv_fault_inject,
};

CLV_PLUGIN_MANIFEST("name = cpu\n"
                    "abi = 1\n"
                    "devices = cpu\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
