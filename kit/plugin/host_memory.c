/*
 * Allocations of the plugin: between guards, filled with rubbish at first,
 * poisoned when freed and kept for a while to find late writes.
 */
#include "host.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* No test needs more; sanitizers end the process over some sizes. */
#define MAX_SIZE ((uint64_t)1 << 39)
#define GUARD 64
#define GUARD_BYTE 0xfb
#define FRESH_BYTE 0xcd
#define FREED_BYTE 0xdd
#define MAX_FREED 64
#define MAX_FREED_SIZE (1u << 16) /* larger ones are not kept */

struct kit_block {
    struct kit_block *next, *previous;
    uint8_t *base, *ptr; /* of the allocation; what the plugin has */
    uint64_t size;
};

/* Of what a fresh or freed block is filled with: enough to be noticed. */
static size_t filled(uint64_t size)
{
    return size < MAX_FREED_SIZE ? (size_t)size : MAX_FREED_SIZE;
}

static bool fails_now(kit_host *host)
{
    uint64_t n = atomic_fetch_add(&host->n_allocs, 1) + 1;
    return host->fail_at &&
           (n == host->fail_at || (host->fail_after && n > host->fail_at));
}

void *kit_host_alloc(clv_host *ctx, uint64_t size, uint64_t alignment)
{
    kit_host *host = kit_host_enter(ctx, "alloc");
    if (!alignment || alignment & (alignment - 1))
        kit_fail(host->k,
                 "host->alloc() is asked for an alignment of %" PRIu64
                 "; give a power of two",
                 alignment);
    if (fails_now(host) || size > MAX_SIZE || alignment > MAX_SIZE)
        return NULL;
    uint64_t front = alignment > GUARD ? alignment : GUARD;
    struct kit_block *block = calloc(1, sizeof *block);
    void *base = NULL;
    if (!block ||
        posix_memalign(&base, (size_t)front, (size_t)(front + size + GUARD))) {
        free(block);
        return NULL;
    }
    block->base = base;
    block->ptr = block->base + front;
    block->size = size;
    memset(block->ptr - GUARD, GUARD_BYTE, GUARD);
    memset(block->ptr, FRESH_BYTE, filled(size));
    memset(block->ptr + size, GUARD_BYTE, GUARD);
    pthread_mutex_lock(&host->mutex);
    block->next = host->blocks;
    if (block->next)
        block->next->previous = block;
    host->blocks = block;
    host->n_blocks++;
    pthread_mutex_unlock(&host->mutex);
    return block->ptr;
}

/* ------------------------------------------------------------------------ */

static void check_guards(kit_host *host, const struct kit_block *block)
{
    for (uint32_t i = 0; i < GUARD; i++) {
        if (block->ptr[-1 - (int)i] != GUARD_BYTE)
            kit_fail(host->k,
                     "the plugin wrote %u bytes before its host allocation of "
                     "%" PRIu64 " bytes",
                     i + 1, block->size);
        if (block->ptr[block->size + i] != GUARD_BYTE)
            kit_fail(host->k,
                     "the plugin wrote %u bytes past its host allocation of "
                     "%" PRIu64 " bytes",
                     i + 1, block->size);
    }
}

static void release(kit_host *host, struct kit_block *block)
{
    for (size_t i = 0; i < filled(block->size); i++)
        if (block->ptr[i] != FREED_BYTE)
            kit_fail(host->k,
                     "the plugin wrote to byte %zu of a host allocation of "
                     "%" PRIu64 " bytes after it freed it",
                     i, block->size);
    free(block->base);
    free(block);
}

static struct kit_block *find(struct kit_block *list, const void *ptr)
{
    while (list && list->ptr != ptr)
        list = list->next;
    return list;
}

static void unlink_block(kit_host *host, struct kit_block *block)
{
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        host->blocks = block->next;
    host->n_blocks--;
}

/* The oldest of the freed blocks, once there are too many. */
static struct kit_block *keep_freed(kit_host *host, struct kit_block *block)
{
    struct kit_block *last = block;
    block->previous = NULL;
    block->next = host->freed;
    if (block->next)
        block->next->previous = block;
    host->freed = block;
    if (++host->n_freed <= MAX_FREED)
        return NULL;
    while (last->next)
        last = last->next;
    last->previous->next = NULL;
    host->n_freed--;
    return last;
}

void kit_host_free(clv_host *ctx, void *ptr)
{
    kit_host *host = kit_host_enter(ctx, "free");
    if (!ptr)
        return;
    pthread_mutex_lock(&host->mutex);
    struct kit_block *block = find(host->blocks, ptr), *old = NULL;
    bool again = !block && find(host->freed, ptr);
    if (block) {
        unlink_block(host, block);
        check_guards(host, block);
        memset(block->ptr, FREED_BYTE, filled(block->size));
        old = block->size > MAX_FREED_SIZE ? block : keep_freed(host, block);
    }
    pthread_mutex_unlock(&host->mutex);
    if (!block)
        kit_fail(host->k, "host->free() is given %s",
                 again ? "a block that is freed already"
                       : "a pointer that host->alloc() did not give");
    if (old)
        release(host, old);
}

uint64_t kit_host_bytes(kit_host *host)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&host->mutex);
    for (struct kit_block *b = host->blocks; b; b = b->next)
        bytes += b->size;
    pthread_mutex_unlock(&host->mutex);
    return bytes;
}

void kit_host_memory_finish(kit_host *host)
{
    while (host->blocks) {
        struct kit_block *block = host->blocks;
        unlink_block(host, block);
        free(block->base);
        free(block);
    }
    while (host->freed) {
        struct kit_block *block = host->freed;
        host->freed = block->next;
        release(host, block);
    }
    host->n_freed = 0;
}
