#include "memory.h"

#define BLOCK ((uint64_t)64 << 20)
#define PIECE ((uint64_t)256) /* pieces begin at its multiples, at least */

static uint64_t piece_align(const clv_plugin_device *dev)
{
    uint64_t align = PIECE;
    if (dev->phys->offset_align > align)
        align = dev->phys->offset_align;
    return dev->phys->atom > align ? dev->phys->atom : align;
}

clv_status vk_mem_types(clv_plugin_device *dev, uint32_t *count,
                        clv_mem_type *out, uint32_t stride)
{
    for (uint32_t i = 0; i < dev->types.n && i < *count; i++) {
        const struct vk_memory_type *type = &dev->types.type[i];
        clv_mem_type info = {.flags = type->flags,
                             .alignment = piece_align(dev),
                             .max_size = type->max_size};
        if (type->import_mask) {
            info.import_handles = CLV_HANDLE_HOST_POINTER;
            info.import_align = dev->phys->import_align;
        }
        clv_write(clv_at(out, i, stride), &info, sizeof info);
    }
    *count = dev->types.n;
    return CLV_OK;
}

/* With the lock held: puts the buffer into the smallest gap of the type's
 * blocks that holds it. */
static bool place(clv_plugin_device *dev, uint32_t type, clv_plugin_buffer *buf)
{
    uint64_t best = UINT64_MAX;
    clv_plugin_buffer **best_link = NULL;
    for (vk_block *b = dev->blocks; b; b = b->next) {
        uint64_t at = 0;
        if (b->type != type || !b->shared)
            continue;
        for (clv_plugin_buffer **link = &b->first;; link = &(*link)->next) {
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
                               clv_plugin_buffer *buf, void *pointer)
{
    clv_status status =
        vk_block_create(dev, type, buf->room, pointer, &buf->block);
    if (!status)
        buf->block->first = buf;
    return status;
}

static clv_status place_in_shared(clv_plugin_device *dev, uint32_t type,
                                  clv_plugin_buffer *buf)
{
    vk_block *block = NULL;
    pthread_mutex_lock(&dev->memory_lock);
    bool placed = place(dev, type, buf);
    pthread_mutex_unlock(&dev->memory_lock);
    if (placed)
        return CLV_OK;
    CLV_TRY(vk_block_create(dev, type, BLOCK, NULL, &block));
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

clv_status vk_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                           uint64_t size, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->base.host;
    clv_status status = vk_alive(dev);
    if (status)
        return status;
    if (mem_type >= dev->types.n || !size)
        return clv_fail(host, CLV_ERR_INVALID,
                        "vulkan:%s: a buffer of %llu bytes in memory type %u; "
                        "there are %u types, for one byte and more",
                        dev->phys->id, (unsigned long long)size,
                        (unsigned)mem_type, (unsigned)dev->types.n);
    uint64_t max = dev->types.type[mem_type].max_size;
    if (size > max)
        return clv_fail(host, CLV_ERR_LIMIT,
                        "vulkan:%s: a buffer of %llu bytes; one has at most "
                        "%llu, use several",
                        dev->phys->id, (unsigned long long)size,
                        (unsigned long long)max);
    clv_plugin_buffer *buf = clv_new(host, sizeof *buf);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->dev = dev;
    buf->size = size;
    buf->access = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    uint64_t align = piece_align(dev);
    buf->room = (size + align - 1) & ~(align - 1);
    status = size > BLOCK / 2 || max < BLOCK
                 ? place_in_own(dev, mem_type, buf, NULL)
                 : place_in_shared(dev, mem_type, buf);
    if (status)
        clv_free(host, buf);
    else
        *out = buf;
    return status;
}

static clv_status check_import(clv_plugin_device *dev, uint32_t mem_type,
                               const clv_import *import)
{
    const clv_host_api *host = dev->base.host;
    uint64_t end, align = dev->phys->import_align;
    if (mem_type >= dev->types.n)
        return clv_fail(host, CLV_ERR_INVALID,
                        "vulkan:%s: there is no memory type %u; there are %u",
                        dev->phys->id, (unsigned)mem_type,
                        (unsigned)dev->types.n);
    if (import->handle_type != CLV_HANDLE_HOST_POINTER ||
        !clv_chain_known(import) || !dev->types.type[mem_type].import_mask)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "vulkan:%s: handles of kind %#x, or with extensions, "
                        "are not imported into memory type %u; allocate there",
                        dev->phys->id, (unsigned)import->handle_type,
                        (unsigned)mem_type);
    if (!import->pointer || !import->size ||
        ((uintptr_t)import->pointer | import->offset | import->size) % align ||
        __builtin_add_overflow(import->offset, import->size, &end) ||
        __builtin_add_overflow(end, (uint64_t)(uintptr_t)import->pointer, &end))
        return clv_fail(
            host, CLV_ERR_INVALID,
            "vulkan:%s: %llu bytes at %llu after %p are no range of "
            "memory in multiples of %llu",
            dev->phys->id, (unsigned long long)import->size,
            (unsigned long long)import->offset, import->pointer,
            (unsigned long long)align);
    return CLV_OK;
}

clv_status vk_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                            const clv_import *import, clv_plugin_buffer **out)
{
    clv_import in;
    clv_status status = vk_alive(dev);
    clv_read(&in, sizeof in, import);
    in.header = import->header;
    if (!status)
        status = check_import(dev, mem_type, &in);
    if (status)
        return status;
    clv_plugin_buffer *buf = clv_new(dev->base.host, sizeof *buf);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->dev = dev;
    buf->size = buf->room = in.size;
    buf->access = in.access;
    status = place_in_own(dev, mem_type, buf, (char *)in.pointer + in.offset);
    if (status) {
        clv_free(dev->base.host, buf);
        return status;
    }
    buf->release = in.release;
    buf->release_ctx = in.release_ctx;
    *out = buf;
    return CLV_OK;
}

/* With the lock held: takes the piece out of its block, and the block out of
 * the device if it is empty and another of the type is, too. */
static vk_block *displace(clv_plugin_device *dev, clv_plugin_buffer *buf)
{
    clv_plugin_buffer **link = &buf->block->first;
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

void vk_buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    clv_plugin_device *dev = buf->dev;
    vk_block *empty = buf->block;
    pthread_mutex_lock(&dev->memory_lock);
    if (buf->block->shared)
        empty = displace(dev, buf);
    pthread_mutex_unlock(&dev->memory_lock);
    if (empty)
        vk_block_destroy(dev, empty);
    if (buf->release)
        buf->release(buf->release_ctx);
    clv_free(dev->base.host, buf);
}

clv_status vk_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    const clv_host_api *host = buf->dev->base.host;
    if (!buf->block->mapped)
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "vulkan:%s: memory type %u is not the host's to see; "
                        "copy to one that is",
                        buf->dev->phys->id, (unsigned)buf->block->type);
    if (access & ~buf->access)
        return clv_fail(host, CLV_ERR_INVALID,
                        "vulkan:%s: a buffer imported with access %#x is "
                        "mapped for %#x",
                        buf->dev->phys->id, (unsigned)buf->access,
                        (unsigned)access);
    *out = buf->block->mapped + buf->offset;
    return CLV_OK;
}

void vk_buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf; /* blocks stay mapped */
}

bool vk_buffer_has(const clv_plugin_buffer *buf, uint64_t offset, uint64_t size,
                   uint32_t access)
{
    return buf && !(access & ~buf->access) && offset <= buf->size &&
           size <= buf->size - offset;
}
