/* A program's private buffers: scratch, and weights laid out anew, which the
 * programs of a device share. */
#include "program.h"

/* The memory type for what only the device sees. */
static uint32_t private_type(const clv_plugin_device *dev)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < dev->types.n; i++) {
        uint32_t flags = dev->types.type[i].flags;
        if (flags == CLV_MEM_DEVICE_LOCAL)
            return i;
        if (flags & CLV_MEM_DEVICE_LOCAL &&
            !(dev->types.type[best].flags & CLV_MEM_DEVICE_LOCAL))
            best = i;
    }
    return best;
}

static clv_status make_one(clv_plugin_program *prog, uint32_t i)
{
    return vk_private_create(prog->dev, private_type(prog->dev),
                             &prog->code->privates[i], &prog->privates[i]);
}

/* --- weights -------------------------------------------------------------- */

static void place_of(const void *ctx, uint32_t tensor, uint64_t *buffer,
                     uint64_t *offset)
{
    const clv_plugin_program *prog = ctx;
    const vk_place *place = &prog->weights[tensor];
    memcpy(buffer, &place->buffer, sizeof *buffer);
    *offset = place->begin;
}

/* Those that another program has filled, or our own to be filled. */
static clv_status make_cached(clv_plugin_program *prog, uint32_t i)
{
    clv_plugin_device *dev = prog->dev;
    clv_status status = gpu_cached_find(dev->base.host, &dev->kept, prog->code,
                                        i, place_of, prog, &prog->kept[i]);
    if (status)
        return status;
    vk_private *shared = prog->kept[i]->memory;
    if (shared) {
        prog->privates[i] = *shared;
        return CLV_OK;
    }
    prog->made[i] = true;
    shared =
        dev->no_repack_memory ? NULL : clv_new(dev->base.host, sizeof *shared);
    prog->kept[i]->memory = shared;
    if (!shared)
        return CLV_ERR_NO_MEMORY;
    status = make_one(prog, i);
    *shared = prog->privates[i];
    return status;
}

static bool fills_ours(const clv_plugin_program *prog, const gpu_dispatch *d)
{
    for (uint32_t i = 0; i < prog->code->n_privates; i++)
        if (prog->made[i] && gpu_cached_filled_by(prog->code, d, i))
            return true;
    return false;
}

/* The part of the setup that fills what is ours. */
static clv_status fill(clv_plugin_program *prog)
{
    const gpu_code *code = prog->code;
    const clv_host_api *host = prog->dev->base.host;
    uint32_t n = 0;
    gpu_dispatch *ours =
        clv_new(host, (code->n_setup + UINT64_C(1)) * sizeof *ours);
    if (!ours)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < code->n_setup; i++)
        if (fills_ours(prog, &code->setup[i]))
            ours[n++] = code->setup[i];
    clv_status status = n ? vk_program_once(prog, ours, n) : CLV_OK;
    clv_free(host, ours);
    return status;
}

/* --- all ------------------------------------------------------------------ */

/* With the lock of what is kept. */
static clv_status make_all(clv_plugin_program *prog)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < prog->code->n_privates && !status; i++)
        status = prog->code->privates[i].weights ? make_cached(prog, i)
                                                 : make_one(prog, i);
    return status ? status : fill(prog);
}

static void release_all(clv_plugin_program *prog)
{
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    for (uint32_t i = 0; prog->made && i < prog->code->n_privates; i++) {
        vk_private *shared = NULL;
        if (prog->kept[i])
            shared = gpu_cached_drop(host, &dev->kept, prog->kept[i]);
        else
            vk_private_destroy(dev, &prog->privates[i]);
        if (shared)
            vk_private_destroy(dev, shared);
        clv_free(host, shared);
    }
    clv_free(host, prog->privates);
    clv_free(host, prog->kept);
    clv_free(host, prog->made);
    prog->privates = NULL;
    prog->kept = NULL;
    prog->made = NULL;
}

/* What is not whole is gone before another program can find it. */
clv_status vk_privates_make(clv_plugin_program *prog)
{
    clv_plugin_device *dev = prog->dev;
    const clv_host_api *host = dev->base.host;
    const uint64_t n = prog->code->n_privates + UINT64_C(1);
    prog->privates = clv_new(host, n * sizeof *prog->privates);
    prog->kept = clv_new(host, n * sizeof *prog->kept);
    prog->made = clv_new(host, n * sizeof *prog->made);
    if (!prog->privates || !prog->kept || !prog->made) {
        clv_free(host, prog->made);
        prog->made = NULL;
        return CLV_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&dev->cached_lock);
    clv_status status = make_all(prog);
    if (status)
        release_all(prog);
    pthread_mutex_unlock(&dev->cached_lock);
    return status;
}

void vk_privates_free(clv_plugin_program *prog)
{
    if (!prog->code)
        return;
    pthread_mutex_lock(&prog->dev->cached_lock);
    release_all(prog);
    pthread_mutex_unlock(&prog->dev->cached_lock);
}

uint64_t vk_privates_size(const clv_plugin_program *prog, bool weights)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < prog->code->n_privates; i++)
        if (prog->code->privates[i].weights == weights &&
            (!weights || prog->made[i]))
            size += prog->privates[i].size;
    return size;
}
