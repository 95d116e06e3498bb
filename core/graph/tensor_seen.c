/*
 * Tensors in memory of a device that the host sees, too. A device that cannot
 * import the host's memory copies from and to this directly.
 */
#include "tensor.h"
#include "../base/error.h"
#include "shape.h"

#include <stdlib.h>
#include <string.h>

/* What other devices import: whole pages, with nothing else in them. */
#define SEEN_ALIGN 4096u

static uint64_t whole_pages(uint64_t size)
{
    return (size + SEEN_ALIGN - 1) / SEEN_ALIGN * SEEN_ALIGN;
}

/* Zeros; *data: where the object begins in the host's addresses. */
static clv_status make_buffer(clv_device *dev, core_object *object, char **data)
{
    uint32_t type = 0;
    void *mapped = NULL;
    CLV_TRY(core_device_can_exchange(dev));
    core_device_staging_type(dev, &type);
    CLV_TRY(core_buffer_alloc(dev, type, whole_pages(object->size) + SEEN_ALIGN,
                              &object->buffer));
    CLV_TRY(core_buffer_map(object->buffer, CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                            &mapped));
    object->mapped = true;
    object->offset = -(uintptr_t)mapped & (SEEN_ALIGN - 1);
    *data = (char *)mapped + object->offset;
    memset(*data, 0, object->size);
    return CLV_OK;
}

clv_status core_tensor_create_seen(clv_context *ctx, clv_device *dev,
                                   uint32_t dtype, uint32_t rank,
                                   const int64_t *dims, clv_tensor **out)
{
    uint64_t size;
    char *data = NULL;
    *out = NULL;
    CLV_TRY(core_shape_check(dtype, rank, dims, &size));
    core_object *object = calloc(1, sizeof *object);
    if (!object)
        return core_no_memory("for a tensor's object");
    object->holding = CORE_HOLD_IMPORT;
    object->size = size;
    clv_status status = make_buffer(dev, object, &data);
    if (!status)
        status = clv_tensor_wrap(
            ctx, dtype, rank, dims, data, whole_pages(size),
            CLV_ACCESS_READ | CLV_ACCESS_WRITE, NULL, NULL, out);
    if (status) {
        core_object_destroy(object);
        return status;
    }
    object->range = core_tensor_whole(*out);
    (*out)->memory->mapped_by = dev;
    (*out)->objects = object;
    return CLV_OK;
}
