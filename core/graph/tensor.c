#include "tensor.h"
#include "../device/answer.h"
#include "../device/loss.h"
#include "../device/relayout.h"
#include "shape.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (2u << 20)

/* ------------------------------------------------------------------------ */
/* Host memory                                                               */

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

void core_memory_release(void *ctx)
{
    core_memory *memory = ctx;
    if (atomic_fetch_sub(&memory->refs, 1) != 1)
        return;
    if (memory->reserved)
        munmap(memory->data, memory->reserved);
    else if (memory->release)
        memory->release(memory->release_ctx);
    free(memory);
}

/* What every device of the context can import without touching other memory. */
static uint64_t shared_alignment(const clv_context *ctx)
{
    uint64_t align = page_size();
    for (uint32_t i = 0; i < ctx->n_devices; i++) {
        const clv_device *dev = ctx->devices[i];
        for (uint32_t j = 0; j < dev->n_mem_types; j++)
            if ((dev->mem_types[j].import_handles & CLV_HANDLE_HOST_POINTER) &&
                dev->mem_types[j].import_align > align)
                align = dev->mem_types[j].import_align;
    }
    return align;
}

/* Zeroed pages, from an address that is a multiple of align. */
static void *map_pages(uint64_t size, uint64_t align)
{
    uint64_t slack = align > page_size() ? align : 0, whole;
    if (__builtin_add_overflow(size, slack, &whole) || whole > SIZE_MAX)
        return NULL;
    uint8_t *base = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (slack) {
        uint64_t head = -(uintptr_t)base & (align - 1);
        if (head)
            munmap(base, head);
        if (slack - head)
            munmap(base + head + size, slack - head);
        base += head;
    }
    if (size >= HUGE_PAGE)
        madvise(base, size, MADV_HUGEPAGE);
    return base;
}

clv_status core_memory_make(const clv_context *ctx, uint64_t size,
                            core_memory **out)
{
    uint64_t align = shared_alignment(ctx), rounded;
    core_memory *memory = calloc(1, sizeof *memory);
    if (memory && !__builtin_add_overflow(size, align - 1, &rounded)) {
        memory->reserved = rounded & ~(align - 1);
        memory->data = map_pages(memory->reserved, align);
    }
    if (!memory || !memory->data) {
        free(memory);
        return clv_error(CLV_ERR_NO_MEMORY,
                         "no memory for a tensor of %llu "
                         "bytes; use a smaller model, context or batch",
                         (unsigned long long)size);
    }
    memory->size = size;
    memory->access = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    memory->refs = 1;
    *out = memory;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

/* A tensor without memory. */
static clv_status make(clv_context *ctx, uint32_t dtype, uint32_t rank,
                       const int64_t *dims, clv_tensor **out)
{
    uint64_t size;
    *out = NULL;
    if (!ctx)
        return clv_error(CLV_ERR_INVALID, "tensor: the context is NULL");
    clv_status status = core_shape_check(dtype, rank, dims, &size);
    if (status)
        return clv_error_prefix(status, "tensor");
    clv_tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return core_no_memory("for a tensor");
    tensor->ctx = ctx;
    tensor->dtype = dtype;
    tensor->rank = rank;
    memcpy(tensor->dims, dims, rank * sizeof *dims);
    tensor->size = size;
    pthread_mutex_init(&tensor->mutex, NULL);
    *out = tensor;
    return CLV_OK;
}

clv_status clv_tensor_create(clv_context *ctx, uint32_t dtype, uint32_t rank,
                             const int64_t *dims, clv_tensor **out)
{
    CLV_TRY(make(ctx, dtype, rank, dims, out));
    clv_status status = core_memory_make(ctx, (*out)->size, &(*out)->memory);
    (*out)->zero = true;
    if (status) {
        clv_tensor_destroy(*out);
        *out = NULL;
    }
    return status;
}

clv_status clv_tensor_wrap(clv_context *ctx, uint32_t dtype, uint32_t rank,
                           const int64_t *dims, void *data, uint64_t size,
                           uint32_t access, void (*release)(void *),
                           void *release_ctx, clv_tensor **out)
{
    clv_tensor *tensor;
    clv_status status;
    CLV_TRY(make(ctx, dtype, rank, dims, &tensor));
    *out = NULL;
    if (!data || size < tensor->size)
        status = clv_error(CLV_ERR_INVALID,
                           "tensor: %llu bytes of memory given, the shape "
                           "needs %llu",
                           (unsigned long long)(data ? size : 0),
                           (unsigned long long)tensor->size);
    else if (!(access & CLV_ACCESS_READ) ||
             (access & ~(uint32_t)(CLV_ACCESS_READ | CLV_ACCESS_WRITE)))
        status = clv_error(CLV_ERR_INVALID,
                           "tensor: access %u is neither read "
                           "(1) nor read and write (3)",
                           access);
    else if (!(tensor->memory = calloc(1, sizeof *tensor->memory)))
        status = core_no_memory("for a tensor");
    else
        status = CLV_OK;
    if (status) {
        clv_tensor_destroy(tensor);
        return status;
    }
    *tensor->memory = (core_memory){.data = data,
                                    .size = tensor->size,
                                    .access = access,
                                    .refs = 1,
                                    .release = release,
                                    .release_ctx = release_ctx};
    *out = tensor;
    return CLV_OK;
}

void core_object_destroy(core_object *object)
{
    if (object->holding == CORE_HOLD_LOCAL && !object->image)
        atomic_fetch_sub(&object->buffer->dev->state_bytes, object->size);
    if (object->mapped)
        core_buffer_unmap(object->buffer);
    core_buffer_free(object->buffer);
    if (object->image)
        core_memory_release(object->image);
    free(object);
}

void clv_tensor_destroy(clv_tensor *tensor)
{
    if (!tensor)
        return;
    while (tensor->objects) {
        core_object *object = tensor->objects;
        tensor->objects = object->next;
        core_object_destroy(object);
    }
    if (tensor->memory)
        core_memory_release(tensor->memory);
    core_regions_finish(&tensor->regions);
    free(tensor->popularity);
    pthread_mutex_destroy(&tensor->mutex);
    free(tensor);
}

uint32_t clv_tensor_dtype(const clv_tensor *tensor)
{
    return tensor->dtype;
}

uint32_t clv_tensor_rank(const clv_tensor *tensor)
{
    return tensor->rank;
}

const int64_t *clv_tensor_dims(const clv_tensor *tensor)
{
    return tensor->dims;
}

uint64_t clv_tensor_size(const clv_tensor *tensor)
{
    return tensor->size;
}

bool clv_tensor_contested(const clv_tensor *tensor)
{
    for (const core_object *o = tensor->objects; o; o = o->next)
        if (o->holding == CORE_HOLD_IMPORT &&
            (o->buffer->access & CLV_ACCESS_WRITE) &&
            core_device_abandoned(o->buffer->dev))
            return true;
    return false;
}

/* ------------------------------------------------------------------------ */
/* Objects on devices                                                        */

/* The range to import so that memory lies in it: whole units of align. Units
 * above a page might reach into memory that is not mapped. */
static bool import_range(const core_memory *memory, uint64_t align,
                         uintptr_t *begin, uint64_t *size)
{
    uintptr_t data = (uintptr_t)memory->data;
    uint64_t length = memory->reserved ? memory->reserved : memory->size;
    uint64_t end;
    *begin = data & ~(align - 1);
    if (__builtin_add_overflow(data, length, &end) ||
        __builtin_add_overflow(end, align - 1, &end))
        return false;
    *size = (end & ~(align - 1)) - *begin;
    return align <= page_size() || (*begin == data && *size == length);
}

static clv_status cannot_import(const clv_device *dev)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "device '%s' imports no host memory; leave it out of the "
                     "plan's devices",
                     dev->id);
}

clv_status core_tensor_can_share(const clv_device *dev, uint64_t size,
                                 bool coherent)
{
    uint32_t type;
    if (!core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &type))
        return cannot_import(dev);
    if (size > dev->mem_types[type].max_size)
        return clv_error(CLV_ERR_LIMIT,
                         "device '%s' imports at most %llu bytes at once, not "
                         "%llu; use a smaller batch or context",
                         dev->id,
                         (unsigned long long)dev->mem_types[type].max_size,
                         (unsigned long long)size);
    if (coherent && !(dev->mem_types[type].flags & CLV_MEM_COHERENT))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "device '%s' sees host memory without coherence, so "
                         "it cannot share a run with other devices; plan for "
                         "it alone",
                         dev->id);
    return CLV_OK;
}

clv_status core_tensor_holding(const clv_tensor *tensor, const clv_device *dev,
                               uint64_t align, bool may_copy, uint32_t *holding)
{
    uint32_t type, visible;
    uintptr_t begin;
    uint64_t size;
    uint64_t natural = clv_format_of(tensor->dtype)->align;
    align = align > natural ? align : natural;
    if (may_copy && core_device_has_local(dev, &type)) {
        *holding = CORE_HOLD_COPY;
        return core_device_copy_type(dev, tensor->size, align, &type);
    }
    bool importable =
        core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, &type) &&
        (tensor->memory->access & CLV_ACCESS_WRITE ||
         !(dev->mem_types[type].flags & CLV_MEM_IMPORTS_WRITABLE));
    bool aligned = !((uintptr_t)tensor->memory->data & (align - 1));
    if (importable && aligned &&
        import_range(tensor->memory, dev->mem_types[type].import_align, &begin,
                     &size) &&
        size <= dev->mem_types[type].max_size) {
        *holding = CORE_HOLD_IMPORT;
        return CLV_OK;
    }
    if (may_copy &&
        !core_device_copy_type(dev, tensor->size, align, &visible)) {
        *holding = CORE_HOLD_COPY;
        return CLV_OK;
    }
    if (!importable)
        return may_copy ? clv_error(CLV_ERR_UNSUPPORTED,
                                    "device '%s' imports no host memory and "
                                    "has none that the host can fill with %llu "
                                    "bytes; leave it out of the plan's devices",
                                    dev->id, (unsigned long long)tensor->size)
                        : cannot_import(dev);
    return clv_error(
        CLV_ERR_LIMIT,
        "device '%s' imports host memory at multiples of %llu, at most %llu "
        "bytes, for ops that need multiples of %llu; %llu bytes at %p do not "
        "fit that; make the tensor with clv_tensor_create()",
        dev->id, (unsigned long long)dev->mem_types[type].import_align,
        (unsigned long long)dev->mem_types[type].max_size,
        (unsigned long long)align, (unsigned long long)tensor->size,
        tensor->memory->data);
}

/* The handle by which the device imports that memory, or 0. */
static uint32_t handle_of(const core_memory *memory, const clv_device *dev,
                          uint32_t *type)
{
    if (core_device_import_type(dev, CLV_HANDLE_HOST_POINTER, type))
        return CLV_HANDLE_HOST_POINTER;
    return memory->mapped_by &&
                   core_device_imports_mapped(dev, memory->mapped_by, type)
               ? CLV_HANDLE_MAPPED_POINTER
               : 0;
}

clv_status core_memory_import(core_memory *memory, clv_device *dev,
                              core_object *object)
{
    uint32_t type;
    uintptr_t begin;
    uint64_t size;
    const uint32_t handle = handle_of(memory, dev, &type);
    if (!handle)
        return cannot_import(dev);
    if (!import_range(memory, dev->mem_types[type].import_align, &begin, &size))
        return core_device_error(dev, CLV_ERR_INVALID,
                                 "memory at %p cannot be imported whole",
                                 memory->data);
    clv_import import = {.handle_type = handle,
                         .access = memory->access,
                         .pointer = (void *)begin,
                         .fd = -1,
                         .size = size,
                         .release = core_memory_release,
                         .release_ctx = memory};
    object->offset = (uintptr_t)memory->data - begin;
    atomic_fetch_add(&memory->refs, 1);
    clv_status status = core_buffer_import(dev, type, &import, &object->buffer);
    if (status)
        core_memory_release(memory);
    return status;
}

/* The ranges are whole rows, or each a part of one. */
static clv_status make_private(const clv_tensor *tensor, clv_device *dev,
                               const core_runs *range, core_buffer **out)
{
    const clv_format *f = clv_format_of(tensor->dtype);
    const int64_t whole = tensor->dims[tensor->rank - 1];
    const int64_t part = (int64_t)(range->bytes / f->bytes) * f->elements;
    return core_device_relayout(dev, tensor->dtype, part < whole ? part : whole,
                                range, tensor->memory->data, out);
}

/* want: its holding, size and range are set. */
static clv_status make_object(clv_tensor *tensor, clv_device *dev,
                              uint64_t align, const core_object *want,
                              core_object **out)
{
    core_object *object = calloc(1, sizeof *object);
    if (!object)
        return core_no_memory("for a tensor's object");
    *object = *want;
    if (want->holding == CORE_HOLD_IMPORT)
        tensor->zero = false;
    const clv_status status =
        want->holding == CORE_HOLD_IMPORT
            ? core_memory_import(tensor->memory, dev, object)
        : want->holding == CORE_HOLD_PRIVATE
            ? make_private(tensor, dev, &object->range, &object->buffer)
            : core_device_copy(dev, align, &object->range, tensor->memory->data,
                               want->holding == CORE_HOLD_STREAM,
                               &object->buffer);
    if (status) {
        free(object);
        return status;
    }
    object->next = tensor->objects;
    *out = tensor->objects = object;
    return CLV_OK;
}

/* Of a weight, in the device's own memory. */
static bool is_own_copy(uint32_t holding)
{
    return holding == CORE_HOLD_COPY || holding == CORE_HOLD_PRIVATE;
}

/* Imports keep the host's address; copies begin where their memory does. */
static bool object_serves(const core_object *object, const clv_device *dev,
                          uint64_t align, const core_object *want)
{
    return object->buffer->dev == dev && object->holding == want->holding &&
           core_same_runs(&object->range, &want->range) &&
           (!is_own_copy(want->holding) ||
            dev->mem_types[object->buffer->mem_type].alignment >= align);
}

static core_object *find_object(const clv_tensor *tensor, const clv_device *dev,
                                uint64_t align, const core_object *want)
{
    core_object *object = tensor->objects;
    while (object && !object_serves(object, dev, align, want))
        object = object->next;
    return object;
}

/* Whether the ranges lie within the tensor. */
static bool is_inside(const clv_tensor *tensor, const core_runs *range)
{
    uint64_t last, end;
    return range->n && range->bytes &&
           !__builtin_mul_overflow(range->n - 1, range->pitch, &last) &&
           !__builtin_add_overflow(last, range->offset, &end) &&
           !__builtin_add_overflow(end, range->bytes, &end) &&
           end <= tensor->size;
}

/* uses: how many more users it has from now on. */
static clv_status get_object(clv_tensor *tensor, clv_device *dev,
                             uint64_t align, uint32_t holding,
                             const core_runs *range, uint32_t uses,
                             const core_object **out)
{
    const core_runs all = core_tensor_whole(tensor);
    core_object want = {.holding = holding, .range = range ? *range : all};
    clv_status status = CLV_OK;
    range = &want.range;
    want.size = range->bytes * range->n;
    if (!is_inside(tensor, range))
        return clv_error(CLV_ERR_INVALID,
                         "a slice of %llu times %llu bytes "
                         "from %llu on passes the tensor's %llu",
                         (unsigned long long)range->n,
                         (unsigned long long)range->bytes,
                         (unsigned long long)range->offset,
                         (unsigned long long)tensor->size);
    pthread_mutex_lock(&tensor->mutex);
    core_object *object = find_object(tensor, dev, align, &want);
    if (!object)
        status = make_object(tensor, dev, align, &want, &object);
    if (!status)
        object->users += uses;
    pthread_mutex_unlock(&tensor->mutex);
    if (!status)
        *out = object;
    return status;
}

clv_status core_tensor_object(clv_tensor *tensor, clv_device *dev,
                              uint64_t align, uint32_t holding,
                              const core_runs *range, const core_object **out)
{
    return get_object(tensor, dev, align, holding, range, 0, out);
}

/* ------------------------------------------------------------------------ */
/* Copies of weights                                                         */

static core_reach **find_reach(clv_tensor *tensor, const clv_device *dev,
                               const core_runs *range)
{
    core_reach **link = &tensor->reaches;
    while (*link &&
           ((*link)->dev != dev || !core_same_runs(&(*link)->range, range)))
        link = &(*link)->next;
    return link;
}

static clv_status add_reach(clv_device *dev, const core_runs *range,
                            core_reach **out)
{
    const uint64_t size = range->bytes * range->n;
    const uint64_t room = clv_device_room(dev);
    if (size > room)
        return clv_error(
            CLV_ERR_NO_MEMORY,
            "device '%s' can address %llu MiB, of which %llu are left, and a "
            "weight takes %llu; leave weights to other devices",
            dev->id, (unsigned long long)(dev->info.address_size >> 20),
            (unsigned long long)(room >> 20),
            (unsigned long long)((size + 0xfffff) >> 20));
    *out = calloc(1, sizeof **out);
    if (!*out)
        return core_no_memory("for a weight");
    **out = (core_reach){.dev = dev, .range = *range};
    atomic_fetch_add(&dev->reached_bytes, size);
    return CLV_OK;
}

clv_status core_tensor_reach(clv_tensor *tensor, clv_device *dev,
                             const core_runs *range)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&tensor->mutex);
    core_reach **link = find_reach(tensor, dev, range);
    if (!*link)
        status = add_reach(dev, range, link);
    if (!status)
        (*link)->users++;
    pthread_mutex_unlock(&tensor->mutex);
    return status;
}

void core_tensor_unreach(clv_tensor *tensor, const clv_device *dev,
                         const core_runs *range)
{
    pthread_mutex_lock(&tensor->mutex);
    core_reach **link = find_reach(tensor, dev, range), *reach = *link;
    if (reach && !--reach->users) {
        atomic_fetch_sub(&reach->dev->reached_bytes, range->bytes * range->n);
        *link = reach->next;
        free(reach);
    }
    pthread_mutex_unlock(&tensor->mutex);
}

static bool has_copy(clv_tensor *tensor, const clv_device *dev, uint64_t align,
                     uint32_t holding, const core_runs *range, bool used)
{
    const core_object want = {.holding = holding, .range = *range};
    pthread_mutex_lock(&tensor->mutex);
    const core_object *object = find_object(tensor, dev, align, &want);
    const bool found = holding == CORE_HOLD_IMPORT
                           ? *find_reach(tensor, dev, range) != NULL
                           : object && (!used || object->users);
    pthread_mutex_unlock(&tensor->mutex);
    return found;
}

bool core_tensor_has_copy(clv_tensor *tensor, const clv_device *dev,
                          uint64_t align, uint32_t holding,
                          const core_runs *range)
{
    return has_copy(tensor, dev, align, holding, range, false);
}

bool core_tensor_has_used_copy(clv_tensor *tensor, const clv_device *dev,
                               uint64_t align, uint32_t holding,
                               const core_runs *range)
{
    return has_copy(tensor, dev, align, holding, range, true);
}

bool core_tensor_copy_at(clv_tensor *tensor, const clv_device *dev,
                         uint32_t index, core_runs *range)
{
    pthread_mutex_lock(&tensor->mutex);
    const core_object *o = tensor->objects;
    while (o && (!is_own_copy(o->holding) || !o->users ||
                 o->buffer->dev != dev || index--))
        o = o->next;
    const core_reach *r = tensor->reaches;
    if (core_device_is_windowed(dev))
        while (r && (r->dev != dev || index--))
            r = r->next;
    else
        r = NULL;
    if (o || r)
        *range = o ? o->range : r->range;
    pthread_mutex_unlock(&tensor->mutex);
    return o || r;
}

clv_status core_tensor_use(clv_tensor *tensor, clv_device *dev, uint64_t align,
                           uint32_t holding, const core_runs *range,
                           const core_object **out)
{
    return get_object(tensor, dev, align, holding, range, 1, out);
}

void core_tensor_leave(clv_tensor *tensor, const core_object *object)
{
    pthread_mutex_lock(&tensor->mutex);
    ((core_object *)object)->users--;
    pthread_mutex_unlock(&tensor->mutex);
}

static bool is_unused(const core_object *object, const clv_device *dev)
{
    return (is_own_copy(object->holding) ||
            object->holding == CORE_HOLD_STREAM) &&
           !object->users && object->buffer->dev == dev;
}

uint64_t core_tensor_unused_bytes(clv_tensor *tensor, const clv_device *dev)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&tensor->mutex);
    for (const core_object *o = tensor->objects; o; o = o->next)
        if (is_unused(o, dev) && is_own_copy(o->holding))
            sum += o->size;
    pthread_mutex_unlock(&tensor->mutex);
    return sum;
}

void core_tensor_drop_unused(clv_tensor *tensor, const clv_device *dev)
{
    pthread_mutex_lock(&tensor->mutex);
    for (core_object **link = &tensor->objects; *link;) {
        core_object *object = *link;
        if (!is_unused(object, dev)) {
            link = &object->next;
            continue;
        }
        *link = object->next;
        core_object_destroy(object);
    }
    pthread_mutex_unlock(&tensor->mutex);
}
