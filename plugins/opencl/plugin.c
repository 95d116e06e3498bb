#include "device.h"
#include "memory.h"
#include "opencl_build_id.h"
#include "program.h"
#include "queue.h"

#include <options.h>

static const clv_option options[] = {
    GPU_SHARED_OPTIONS,
    GPU_OPTION(STRING, "platform", "",
               .help = "only platforms with this in their name, in any case"),
    GPU_OPTION(ENUM, "type", "all", .choices = "all|gpu|cpu",
               .help = "only devices of this type; gpu: all that are no CPUs"),
    GPU_OPTION(
        ENUM, "memory", "auto", .choices = "auto|separate",
        .help = "auto: memory that the device shares with the host is used in "
                "place; separate: never"),
    GPU_OPTION(ENUM, "copy_queues", "auto", .choices = "auto|0|1",
               .help = "queues that copy beside the work; auto: one where the "
                       "device has memory of its own"),
    GPU_OPTION(
        ENUM, "matrix", "auto", .choices = "auto|plain|off",
        .help = "matrix instructions; auto: where the device has them; plain: "
                "by plain code, slowly, for tests"),
    GPU_OPTION(ENUM, "wgmma", "auto", .choices = "auto|plain|off",
               .help =
                   "matrix instructions of warp groups; auto: where the device "
                   "has them (NVIDIA, compute capability 9.0); plain: by plain "
                   "code, slowly, for tests, with matrix=plain"),
    GPU_OPTION(STRING, "options", "",
               .help = "for the compiler of kernels, in addition to ours"),
    GPU_OPTION(STRING, "loader", "",
               .help = "path of the OpenCL loader; empty: the system's "
                       "libOpenCL.so.1"),
};

/*
 * Left out: progress (threads move work on), export (no handles), power and
 * costs (measured), serialised programs (kernels are cached one by one).
 */
static const clv_plugin_api api = {
    .header = {sizeof(clv_plugin_api), CLV_STRUCT_PLUGIN_API, NULL},
    .name = "opencl",
    .version = OPENCL_VERSION,
    .build_id = BUILD_ID,
    .description = "GPUs, and other devices with OpenCL 1.2 or newer",
    .flags = CLV_PLUGIN_SPAWNS_THREADS, /* and drivers leave some */
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .options = options,
    .create = ocl_create,
    .quiesce = ocl_quiesce,
    .destroy = ocl_destroy,
    .enumerate = ocl_enumerate,
    .device_open = ocl_device_open,
    .device_close = ocl_device_close,
    .mem_types = ocl_mem_types,
    .op_caps = ocl_op_caps,
    .buffer_alloc = ocl_buffer_alloc,
    .buffer_import = ocl_buffer_import,
    .buffer_free = ocl_buffer_free,
    .buffer_map = ocl_buffer_map,
    .buffer_unmap = clv_buffer_unmap,
    .buffer_flush = ocl_buffer_flush,
    .buffer_invalidate = ocl_buffer_invalidate,
    .timeline_create = clv_timeline_create,
    .timeline_destroy = clv_timeline_destroy,
    .timeline_query = clv_timeline_query,
    .timeline_signal = clv_timeline_signal,
    .timeline_fail = clv_timeline_fail,
    .timeline_wait = clv_timeline_wait,
    .program_compile = ocl_program_compile,
    .program_info = ocl_program_info,
    .program_destroy = ocl_program_destroy,
    .submit = ocl_submit,
    .trace_read = clv_trace_read,
    .calibrate = ocl_calibrate,
    .fault_inject = clv_fault_inject,
};

const clv_plugin_api *ocl_table(void)
{
    return &api;
}

CLV_PLUGIN_MANIFEST("name = opencl\n"
                    "abi = 1\n"
                    "devices = cpu gpu other\n"
                    "drivers = /etc/OpenCL/vendors /dev /dev/dri OCL_ OPENCL_ "
                    "POCL_ CUDA_ NVIDIA_ ROCR_ HIP_ LD_\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
