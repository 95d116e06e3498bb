#include "memory.h"
#include "answer.h"
#include "loss.h"

#include <stdlib.h>

bool core_same_runs(const core_runs *a, const core_runs *b)
{
    return a->offset == b->offset && a->bytes == b->bytes && a->n == b->n &&
           (a->n < 2 || a->pitch == b->pitch);
}

#define HOSTS (CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED)

bool core_device_has_local(const clv_device *dev, uint32_t *type)
{
    bool found = false;
    for (uint32_t i = 0; i < dev->n_mem_types; i++) {
        uint32_t flags = dev->mem_types[i].flags;
        if (!(flags & CLV_MEM_DEVICE_LOCAL))
            continue;
        if ((flags & HOSTS) == HOSTS)
            return false;
        /* Memory that the host does not see may be faster. */
        if (!found || (!(flags & CLV_MEM_HOST_VISIBLE) &&
                       (dev->mem_types[*type].flags & CLV_MEM_HOST_VISIBLE)))
            *type = i;
        found = true;
    }
    return found;
}

bool core_device_is_windowed(const clv_device *dev)
{
    uint32_t type;
    return dev->info.address_size && !core_device_has_local(dev, &type);
}

bool core_device_staging_type(const clv_device *dev, uint32_t *type)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < dev->n_mem_types; i++) {
        uint32_t flags = dev->mem_types[i].flags;
        uint32_t rank = 1 + 4 * !(flags & CLV_MEM_DEVICE_LOCAL) +
                        2 * !!(flags & CLV_MEM_CACHED) +
                        !!(flags & CLV_MEM_COHERENT);
        if (!(flags & CLV_MEM_HOST_VISIBLE) || rank <= best)
            continue;
        best = rank;
        *type = i;
    }
    return best;
}

bool core_device_reaches_host(const clv_device *dev, uint64_t size)
{
    uint32_t type;
    return core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &type) &&
           (dev->mem_types[type].flags & CLV_MEM_COHERENT) &&
           size <= dev->mem_types[type].max_size;
}

bool core_device_imports_mapped(const clv_device *dev, const clv_device *owner,
                                uint32_t *type)
{
    return dev->plugin == owner->plugin &&
           core_device_import_type(dev, CLV_HANDLE_MAPPED_POINTER, type) &&
           (dev->mem_types[*type].flags & CLV_MEM_COHERENT);
}

clv_status core_device_can_exchange(const clv_device *dev)
{
    uint32_t type;
    if (core_device_staging_type(dev, &type))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "device '%s' has memory of its own "
                     "and none that the host sees, so nothing can be copied "
                     "there; leave it out of the plan's devices",
                     dev->id);
}

/* What the plugin says is left, which counts what it keeps itself; 0: nobody
 * knows. */
static uint64_t budget_of(clv_device *dev, uint32_t type)
{
    clv_mem_type init = CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE);
    uint32_t count = dev->n_mem_types;
    clv_mem_type *types = calloc(count, sizeof *types);
    for (uint32_t i = 0; types && i < count; i++)
        types[i] = init;
    const uint64_t left = types && !core_device_usable(dev) &&
                                  !CORE_CALL(dev, mem_types, dev->handle,
                                             &count, types, sizeof *types)
                              ? types[type].budget
                              : 0;
    free(types);
    return left;
}

uint64_t clv_device_room(clv_device *dev)
{
    uint32_t type = 0;
    const uint64_t used = atomic_load(&dev->local_bytes);
    const uint64_t all =
        dev->info.memory_free ? dev->info.memory_free : dev->info.memory_size;
    if (core_device_is_windowed(dev)) {
        const uint64_t reached = atomic_load(&dev->reached_bytes);
        return dev->info.address_size > reached
                   ? dev->info.address_size - reached
                   : 0;
    }
    if (!all || !core_device_has_local(dev, &type))
        return UINT64_MAX;
    const uint64_t left = all > used ? all - used : 0;
    const uint64_t budget = budget_of(dev, type);
    return budget && budget < left ? budget : left;
}

clv_status core_device_has_room(clv_device *dev, uint64_t size,
                                const char *what)
{
    if (size <= clv_device_room(dev))
        return CLV_OK;
    return clv_error(CLV_ERR_NO_MEMORY,
                     "device '%s' has %llu MiB of memory, of which %llu are in "
                     "use here, and %llu more are wanted for %s; use a smaller "
                     "model, context or batch, or more devices",
                     dev->id, (unsigned long long)(dev->info.memory_size >> 20),
                     (unsigned long long)(atomic_load(&dev->local_bytes) >> 20),
                     (unsigned long long)((size + 0xfffff) >> 20), what);
}

clv_status core_device_alloc_local(clv_device *dev, uint64_t size,
                                   const char *what, core_buffer **out)
{
    uint32_t type = 0;
    core_device_has_local(dev, &type);
    CLV_TRY(core_device_has_room(dev, size, what));
    clv_status status = core_buffer_alloc(dev, type, size, out);
    if (status == CLV_ERR_NO_MEMORY || status == CLV_ERR_LIMIT)
        clv_error_prefix(status,
                         "device '%s': %llu bytes of its own memory "
                         "for %s; use a smaller model, context or batch, or "
                         "leave work to other devices",
                         dev->id, (unsigned long long)size, what);
    return status;
}

/* Memory the host can fill, the device's own if there is a choice. */
static bool find_visible(const clv_device *dev, uint64_t size, uint64_t align,
                         uint32_t *type)
{
    bool found = false;
    for (uint32_t i = dev->n_mem_types; i-- > 0;) {
        const clv_mem_type *t = &dev->mem_types[i];
        if ((t->flags & CLV_MEM_HOST_VISIBLE) && size <= t->max_size &&
            t->alignment >= align &&
            (!found || (t->flags & CLV_MEM_DEVICE_LOCAL) ||
             !(dev->mem_types[*type].flags & CLV_MEM_DEVICE_LOCAL))) {
            *type = i;
            found = true;
        }
    }
    return found;
}

clv_status core_device_copy_type(const clv_device *dev, uint64_t size,
                                 uint64_t align, uint32_t *type)
{
    if (!core_device_has_local(dev, type))
        return find_visible(dev, size, align, type)
                   ? CLV_OK
                   : clv_error(CLV_ERR_UNSUPPORTED,
                               "device '%s' has no memory that the host can "
                               "fill with %llu bytes",
                               dev->id, (unsigned long long)size);
    const clv_mem_type *t = &dev->mem_types[*type];
    if (size > t->max_size)
        return clv_error(
            CLV_ERR_LIMIT,
            "device '%s' holds at most %llu bytes at once in its own memory, "
            "not %llu; cut the op, or leave it to another device",
            dev->id, (unsigned long long)t->max_size, (unsigned long long)size);
    if (t->alignment < align)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "device '%s' has memory of its own at multiples of "
                         "%llu bytes, for ops that need %llu; leave it out of "
                         "the plan's devices",
                         dev->id, (unsigned long long)t->alignment,
                         (unsigned long long)align);
    return core_device_can_exchange(dev);
}
