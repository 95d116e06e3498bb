/* What the device is to the kernels, and what they do on it. */
#include "image.h"
#include "program.h"
#include "source.h"

#include <ptx.h>

#include <string.h>

/* Layers that are one kernel, after those that are kernels of their own. A
 * launch takes the device some 4 us. One of six layers takes the host some 100,
 * as long as two layers take the device. */
#define LAYERS 6
#define LAYERS_APART 2

static uint32_t compute_capability(const clv_plugin_device *dev)
{
    return ocl_compute_capability(dev->cl, dev->props->platform,
                                  dev->props->id);
}

static bool option_is(const clv_plugin_device *dev, const char *key,
                      const char *value)
{
    const clv_host_api *host = dev->base.host;
    const char *is = host->option(host->host, key);
    return is && !strcmp(is, value);
}

/* Local memory of kernels by warp groups; plain code for them has what all
 * have. */
static clv_status find_wgmma(clv_plugin_device *dev, uint32_t *bytes)
{
    bool opens;
    *bytes = 0;
    if (option_is(dev, "wgmma", "plain") && option_is(dev, "matrix", "plain"))
        *bytes = dev->props->local_bytes;
    if (!option_is(dev, "wgmma", "auto") || !option_is(dev, "matrix", "auto") ||
        compute_capability(dev) != GPU_PTX_WGMMA)
        return CLV_OK;
    CLV_TRY(ocl_source_opens(dev, &opens));
    *bytes = opens ? GPU_PTX_WGMMA_BYTES : 0;
    return CLV_OK;
}

clv_status ocl_target(clv_plugin_device *dev)
{
    const ocl_properties *p = dev->props;
    gpu_target *t = &dev->target;
    *t = (gpu_target){
        .language = GPU_OPENCL_C,
        .max_group = p->max_group,
        .max_group_size = {p->max_group_size[0], p->max_group_size[1],
                           p->max_group_size[2]},
        .local_bytes = p->local_bytes,
        .max_binding = p->max_alloc,
        .fp16 = ocl_has_extension(p, "cl_khr_fp16"),
        .fp16_storage = true,
        .int8_storage = true,
        .int_dot = ocl_has_extension(p, "cl_khr_integer_dot_product"),
        .nvidia_ptx = option_is(dev, "matrix", "auto") &&
                      compute_capability(dev) >= GPU_PTX_LEAST,
        .plain_matrix = option_is(dev, "matrix", "plain"),
        .series = option_is(dev, "series", "on"),
        .repeats = LAYERS,
        .apart = LAYERS_APART,
        .unified = dev->zero_copy,
        .states = option_is(dev, "kv", "weights") ? GPU_STATES_WEIGHTS
                  : option_is(dev, "kv", "auto") && !p->is_cpu
                      ? GPU_STATES_AUTO
                      : GPU_STATES_ROWS,
        .units = p->info.units,
        .disabled = dev->disabled,
    };
    CLV_TRY(find_wgmma(dev, &t->wgmma_bytes));
    memcpy(t->image, p->image, sizeof t->image);
    ocl_image_halves(dev, t->image_halves);
    CLV_TRY(ocl_image_choose(dev, "storage", &t->slices));
    return ocl_image_choose(dev, "weights", &t->weights);
}

clv_status ocl_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                       clv_op_caps *out, uint32_t stride)
{
    CLV_TRY(clv_check_chain(dev->base.host, graph));
    gpu_caps(&dev->target, graph, out, stride);
    return CLV_OK;
}
