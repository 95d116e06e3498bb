/* The plugin's table. */
#include "device.h"
#include "memory.h"
#include "program.h"
#include "timelines.h"
#include "trace.h"
#include "vulkan_build_id.h"
#include "work.h"

#include <options.h>

static const clv_option options[] = {
    GPU_SHARED_OPTIONS,
    GPU_OPTION(STRING, "devices", "all",
               .help = "which devices, by types (discrete, integrated, "
                       "virtual, cpu, other) or parts of their names, between "
                       "commas; all: every one"),
    GPU_OPTION(BOOL, "validation", "off",
               .help = "run under Vulkan's validation layer and fail on what "
                       "it says"),
    GPU_OPTION(
        ENUM, "memory", "auto", .choices = "auto|separate",
        .help = "auto: memory that the device shares with the host is used in "
                "place; separate: never"),
    GPU_OPTION(ENUM, "matrix", "auto", .choices = "auto|bytes|plain|off",
               .help = "cooperative matrices; auto: where the device has "
                       "them; bytes: of bytes too, for I8 and I4; plain: by "
                       "plain code, slowly, for tests"),
    GPU_OPTION(ENUM, "ptx", "auto", .choices = "auto|on|off",
               .help = "kernels in PTX, which NVIDIA's OpenCL compiles; auto: "
                       "where driver and device have them "
                       "(VK_NVX_binary_import, compute capability 8.0)"),
    GPU_OPTION(ENUM, "waits", "auto", .choices = "auto|host",
               .help = "who waits for other devices of this plugin; auto: the "
                       "device itself, where kernels are in PTX; host: never"),
    GPU_OPTION(INT, "range", "0", .min = 0, .max = INT64_MAX,
               .help = "bytes of a buffer that a kernel can see at once, at "
                       "most; 0: as many as the device says"),
    GPU_OPTION(ENUM, "descriptors", "sets", .choices = "sets|push",
               .help = "how kernels get their arguments: from sets in a pool; "
                       "push: with the commands, where the device can"),
    GPU_OPTION(INT, "queue_depth", "64", .min = 1, .max = 65536,
               .help = "submits that may be in flight in a queue"),
    GPU_OPTION(ENUM, "copy_queues", "auto", .choices = "auto|0|1",
               .help = "queues that copy beside the work; auto: one where a "
                       "discrete GPU has a queue for it; 1: also where copies "
                       "and work share one"),
};

static const clv_plugin_api api = {
    .header = {sizeof api, CLV_STRUCT_PLUGIN_API, NULL},
    .name = "vulkan",
    .version = VK_PLUGIN_VERSION,
    .build_id = BUILD_ID,
    .description = "GPUs, by Vulkan 1.2 compute shaders",
    .flags = CLV_PLUGIN_SPAWNS_THREADS, /* drivers do not like to be unloaded */
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .options = options,
    .create = vk_create,
    .quiesce = vk_quiesce,
    .destroy = vk_destroy,
    .enumerate = vk_enumerate,
    .device_open = vk_device_open,
    .device_close = vk_device_close,
    .mem_types = vk_mem_types,
    .op_caps = vk_op_caps,
    .buffer_alloc = vk_buffer_alloc,
    .buffer_import = vk_buffer_import,
    .buffer_free = vk_buffer_free,
    .buffer_map = vk_buffer_map,
    .buffer_unmap = clv_buffer_unmap,
    .buffer_flush = vk_buffer_flush,
    .buffer_invalidate = vk_buffer_invalidate,
    .timeline_create = vk_timeline_create,
    .timeline_destroy = clv_timeline_destroy,
    .timeline_query = clv_timeline_query,
    .timeline_signal = clv_timeline_signal,
    .timeline_fail = vk_timeline_fail,
    .timeline_wait = clv_timeline_wait,
    .program_compile = vk_program_compile,
    .program_info = vk_program_info,
    .program_destroy = vk_program_destroy,
    .submit = vk_submit,
    .trace_read = clv_trace_read,
    .calibrate = vk_calibrate,
    .fault_inject = clv_fault_inject,
};

const clv_plugin_api *vk_table(void)
{
    return &api;
}

CLV_PLUGIN_MANIFEST("name = vulkan\n"
                    "abi = 1\n"
                    "devices = gpu cpu other\n"
                    "drivers = /etc/vulkan/icd.d /usr/share/vulkan/icd.d "
                    "/usr/local/etc/vulkan/icd.d "
                    "/usr/local/share/vulkan/icd.d /dev /dev/dri VK_ XDG_ HOME "
                    "MESA_ DRI_ CUDA_ NVIDIA_ LD_\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
