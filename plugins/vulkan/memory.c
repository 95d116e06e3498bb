#include "memory.h"

#define BLOCK_MOST ((uint64_t)16 << 20)
#define BLOCK_LEAST ((uint64_t)256 << 10)
/* A block takes at most this part of a limit on memory, and a buffer in a block
 * of several this part of the block: gaps count, too. */
#define BLOCK_PART 128
#define SHARED_PART 8
#define PIECE ((uint64_t)256) /* pieces begin at its multiples, at least */

#define NO_ADDRESS 4096u /* data of memory that the host has no view of */

static uint64_t piece_align(const clv_plugin_device *dev)
{
    uint64_t align = PIECE;
    if (dev->phys->offset_align > align)
        align = dev->phys->offset_align;
    return dev->phys->atom > align ? dev->phys->atom : align;
}

static uint64_t block_size(const clv_plugin_device *dev)
{
    const uint64_t part =
        dev->budget.limit / BLOCK_PART / BLOCK_LEAST * BLOCK_LEAST;
    if (!dev->budget.limit || part > BLOCK_MOST)
        return BLOCK_MOST;
    return part > BLOCK_LEAST ? part : BLOCK_LEAST;
}

/* Drivers of hardware pin imported pages for writing, which fails where the
 * host may not write: of a mapped file, for one. */
static bool imports_writable(const clv_plugin_device *dev)
{
    return !(dev->phys->info.flags & CLV_DEVICE_SOFTWARE);
}

clv_status vk_mem_types(clv_plugin_device *dev, uint32_t *count,
                        clv_mem_type *out, uint32_t stride)
{
    for (uint32_t i = 0; i < dev->types.n && i < *count; i++) {
        const struct vk_memory_type *type = &dev->types.type[i];
        clv_mem_type info = {.flags = type->flags,
                             .alignment = piece_align(dev),
                             .max_size = type->max_size};
        if (type->flags & CLV_MEM_DEVICE_LOCAL)
            info.budget = gpu_budget_left(&dev->budget);
        if (type->import_mask) {
            info.import_handles = CLV_HANDLE_HOST_POINTER;
            info.import_align = dev->phys->import_align;
            if (imports_writable(dev))
                info.flags |= CLV_MEM_IMPORTS_WRITABLE;
        }
        clv_write(clv_at(out, i, stride), &info, sizeof info);
    }
    *count = dev->types.n;
    return CLV_OK;
}

/* With the lock held: puts the buffer into the smallest gap of the type's
 * blocks that holds it. */
static bool place(clv_plugin_device *dev, uint32_t type, vk_buffer *buf)
{
    uint64_t best = UINT64_MAX;
    vk_buffer **best_link = NULL;
    for (vk_block *b = dev->blocks; b; b = b->next) {
        uint64_t at = 0;
        if (b->type != type || !b->shared)
            continue;
        for (vk_buffer **link = &b->first;; link = &(*link)->next) {
            uint64_t gap = (*link ? (*link)->offset : b->size) - at;
            if (gap >= buf->room && gap < best) {
                best = gap;
                best_link = link;
                buf->block = b;
                buf->offset = at;
            }
            if (!*link)
                break;
            at = (*link)->offset + (*link)->room;
        }
    }
    if (!best_link)
        return false;
    buf->next = *best_link;
    *best_link = buf;
    return true;
}

static clv_status place_in_own(clv_plugin_device *dev, uint32_t type,
                               vk_buffer *buf, void *pointer)
{
    clv_status status =
        vk_block_create(dev, type, buf->room, pointer, &buf->block);
    if (!status)
        buf->block->first = buf;
    return status;
}

static clv_status place_in_shared(clv_plugin_device *dev, uint32_t type,
                                  vk_buffer *buf)
{
    vk_block *block = NULL;
    pthread_mutex_lock(&dev->memory_lock);
    bool placed = place(dev, type, buf);
    pthread_mutex_unlock(&dev->memory_lock);
    if (placed)
        return CLV_OK;
    clv_status status =
        vk_block_create(dev, type, block_size(dev), NULL, &block);
    if (status == CLV_ERR_NO_MEMORY) /* there may be enough for this one */
        return place_in_own(dev, type, buf, NULL);
    CLV_TRY(status);
    block->shared = true;
    pthread_mutex_lock(&dev->memory_lock);
    block->next = dev->blocks;
    dev->blocks = block;
    placed = place(dev, type, buf);
    if (!placed) { /* others took it all meanwhile */
        buf->block = block;
        block->shared = false;
        dev->blocks = block->next;
        block->first = buf;
    }
    pthread_mutex_unlock(&dev->memory_lock);
    return CLV_OK;
}

static vk_buffer *new_buffer(clv_plugin_device *dev, uint64_t size,
                             uint32_t access)
{
    vk_buffer *buf = clv_new(dev->base.host, sizeof *buf);
    if (!buf)
        return NULL;
    buf->base.host = dev->base.host;
    buf->base.size = size;
    buf->base.access = access;
    buf->dev = dev;
    return buf;
}

/* Ends what an allocation or import began. */
static clv_status finish(vk_buffer *buf, clv_status status,
                         clv_plugin_buffer **out)
{
    if (status) {
        clv_free(buf->base.host, buf);
        return status;
    }
    buf->base.data = buf->block->mapped ? buf->block->mapped + buf->offset
                                        : (char *)(uintptr_t)NO_ADDRESS;
    *out = &buf->base;
    return CLV_OK;
}

clv_status vk_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                           uint64_t size, clv_plugin_buffer **out)
{
    const uint64_t align = piece_align(dev);
    CLV_TRY(clv_queue_usable(dev));
    const uint64_t max =
        mem_type < dev->types.n ? dev->types.type[mem_type].max_size : 0;
    CLV_TRY(gpu_check_alloc(dev->base.host, dev->label, mem_type, dev->types.n,
                            size, max));
    vk_buffer *buf = new_buffer(dev, size, CLV_ACCESS_READ | CLV_ACCESS_WRITE);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->room = (size + align - 1) & ~(align - 1);
    return finish(buf,
                  size > block_size(dev) / SHARED_PART || max < BLOCK_MOST
                      ? place_in_own(dev, mem_type, buf, NULL)
                      : place_in_shared(dev, mem_type, buf),
                  out);
}

clv_status vk_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                            const clv_import *import, clv_plugin_buffer **out)
{
    clv_import in;
    CLV_TRY(clv_queue_usable(dev));
    clv_read(&in, sizeof in, import);
    CLV_TRY(gpu_check_alloc(dev->base.host, dev->label, mem_type, dev->types.n,
                            in.size, UINT64_MAX));
    CLV_TRY(gpu_check_import(
        dev->base.host, dev->label, &in,
        dev->types.type[mem_type].import_mask ? CLV_HANDLE_HOST_POINTER : 0,
        dev->phys->import_align));
    if (imports_writable(dev) && !(in.access & CLV_ACCESS_WRITE))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                        "%s: memory that cannot be written is not imported; "
                        "copy",
                        dev->label);
    vk_buffer *buf = new_buffer(dev, in.size, in.access);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->room = in.size;
    CLV_TRY(finish(
        buf, place_in_own(dev, mem_type, buf, (char *)in.pointer + in.offset),
        out));
    buf->base.release = in.release;
    buf->base.release_ctx = in.release_ctx;
    return CLV_OK;
}

/* With the lock held: takes the piece out of its block, and the block out of
 * the device if it is empty and another of the type is, too. */
static vk_block *displace(clv_plugin_device *dev, vk_buffer *buf)
{
    vk_buffer **link = &buf->block->first;
    while (*link != buf)
        link = &(*link)->next;
    *link = buf->next;
    if (buf->block->first)
        return NULL;
    bool other = false;
    vk_block **own = NULL;
    for (vk_block **b = &dev->blocks; *b; b = &(*b)->next) {
        if (*b == buf->block)
            own = b;
        else
            other |= (*b)->type == buf->block->type && !(*b)->first;
    }
    if (!other || !own)
        return NULL;
    *own = buf->block->next;
    return buf->block;
}

void vk_buffer_free(clv_plugin_buffer *base)
{
    if (!base)
        return;
    vk_buffer *buf = vk_buffer_of(base);
    clv_plugin_device *dev = buf->dev;
    vk_block *empty = buf->block;
    pthread_mutex_lock(&dev->memory_lock);
    if (buf->block->shared)
        empty = displace(dev, buf);
    pthread_mutex_unlock(&dev->memory_lock);
    if (empty)
        vk_block_destroy(dev, empty);
    clv_buffer_free(base);
}

clv_status vk_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    const vk_block *block = vk_buffer_of(buf)->block;
    if (block->mapped)
        return clv_buffer_map(buf, access, out);
    return clv_fail(buf->host, CLV_ERR_UNSUPPORTED,
                    "%s: memory type %u is not the host's to see; copy to one "
                    "that is",
                    vk_buffer_of(buf)->dev->label, (unsigned)block->type);
}
