/* A program's private memory, in Vulkan. */
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

static clv_status create(clv_plugin_program *prog, const gpu_private *code,
                         void *memory, uint64_t *size)
{
    vk_private *p = memory;
    clv_status status =
        vk_private_create(prog->dev, private_type(prog->dev), code, p);
    *size = p->size;
    return status;
}

static void destroy(clv_plugin_program *prog, void *memory)
{
    vk_private_destroy(prog->dev, memory);
}

static void place_of(const void *ctx, uint32_t tensor, uint64_t *buffer,
                     uint64_t *offset)
{
    const clv_plugin_program *prog = ctx;
    const vk_place *place = &prog->weights[tensor];
    memcpy(buffer, &place->buffer, sizeof *buffer);
    *offset = place->begin;
}

const gpu_privates_plugin vk_privates = {
    .size = sizeof(vk_private),
    .create = create,
    .destroy = destroy,
    .place_of = place_of,
    .set_up = vk_program_once,
};
