#include "timelines.h"

#include "device.h"

#include <sys/mman.h>

static const size_t slot_size = sizeof(vk_timeline);

_Static_assert(sizeof(vk_timeline) * VK_PAGE_SLOTS <= VK_PAGE_SIZE,
               "a page has all its slots");

void vk_timelines_init(clv_plugin_instance *inst)
{
    pthread_mutex_init(&inst->timelines_lock, NULL);
}

void vk_timelines_finish(clv_plugin_instance *inst)
{
    for (uint32_t i = 0; i < inst->n_timelines; i++)
        munmap(inst->timelines[i].memory, VK_PAGE_SIZE);
    pthread_mutex_destroy(&inst->timelines_lock);
}

/* With the lock held: a slot of the page, all zeros; NULL: it is full. */
static vk_timeline *take_slot(vk_page *page)
{
    for (uint32_t i = 0; i < VK_PAGE_SLOTS; i++)
        if (!page->used[i]) {
            page->used[i] = true;
            return memset(page->memory + i * slot_size, 0, slot_size);
        }
    return NULL;
}

/* With the lock held; NULL: there are as many as there may be, or there is no
 * memory. */
static vk_page *add_page(clv_plugin_instance *inst)
{
    if (inst->n_timelines == VK_MAX_PAGES)
        return NULL;
    void *memory = mmap(NULL, VK_PAGE_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    vk_page *page = &inst->timelines[inst->n_timelines];
    page->memory = memory;
    __atomic_store_n(&inst->n_timelines, inst->n_timelines + 1,
                     __ATOMIC_RELEASE);
    return page;
}

static vk_timeline *take(clv_plugin_instance *inst)
{
    vk_timeline *slot = NULL;
    pthread_mutex_lock(&inst->timelines_lock);
    for (uint32_t i = 0; i < inst->n_timelines && !slot; i++)
        slot = take_slot(&inst->timelines[i]);
    vk_page *page = slot ? NULL : add_page(inst);
    if (page)
        slot = take_slot(page);
    pthread_mutex_unlock(&inst->timelines_lock);
    return slot;
}

vk_timeline *vk_timeline_find(const clv_plugin_instance *inst,
                              const uint64_t *flag, uint32_t *page)
{
    const uint32_t n = __atomic_load_n(&inst->n_timelines, __ATOMIC_ACQUIRE);
    for (*page = 0; *page < n; ++*page)
        if ((uintptr_t)flag - (uintptr_t)inst->timelines[*page].memory <
            VK_PAGE_SIZE)
            return (vk_timeline *)(uintptr_t)flag;
    return NULL;
}

static void give(clv_plugin_instance *inst, const vk_timeline *slot)
{
    uint32_t i;
    vk_timeline_find(inst, &slot->base.word, &i);
    vk_page *page = &inst->timelines[i];
    pthread_mutex_lock(&inst->timelines_lock);
    page->used[(size_t)((const char *)slot - page->memory) / slot_size] = false;
    pthread_mutex_unlock(&inst->timelines_lock);
}

static void release(clv_plugin_timeline *tl)
{
    const clv_plugin_device *dev = tl->queue->ctx;
    give(dev->inst, (const vk_timeline *)tl);
}

clv_status vk_timeline_create(clv_plugin_device *dev, uint64_t value,
                              clv_plugin_timeline **out)
{
    vk_timeline *slot = take(dev->inst);
    if (!slot)
        return clv_timeline_create(dev, value, out);
    slot->reached = slot->handed = value;
    const clv_status status =
        clv_timeline_create_in(dev, value, &slot->base, release, out);
    if (status)
        give(dev->inst, slot);
    return status;
}

static void failed(const clv_plugin_instance *inst, clv_plugin_timeline *base)
{
    uint32_t page;
    vk_timeline *tl = vk_timeline_find(inst, &base->word, &page);
    if (tl)
        __atomic_store_n(&tl->reached, UINT64_MAX, __ATOMIC_RELEASE);
}

clv_status vk_timeline_fail(clv_plugin_timeline *tl, clv_status status,
                            const char *message)
{
    const clv_plugin_device *dev = tl->queue->ctx;
    CLV_TRY(clv_timeline_fail(tl, status, message));
    failed(dev->inst, tl);
    return CLV_OK;
}

void vk_timelines_failed(const clv_plugin_instance *inst,
                         const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_signals; i++)
        failed(inst, submit->signals[i].timeline);
}
