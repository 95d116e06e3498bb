#include "tensor.h"
#include "../base/error.h"
#include "../device/loss.h"

#include <stdlib.h>

#define HOST 1u
#define MAX_LOCAL 62u

bool core_bounds_runs(uint32_t dtype, uint32_t rank, const int64_t *dims,
                      const core_bounds *box, core_runs *out)
{
    uint32_t elements, block;
    if (!clv_dtype_block(dtype, &elements, &block))
        return false;
    *out = (core_runs){.bytes = block, .n = 1};
    uint64_t stride = block; /* bytes of an index step of dimension d */
    for (uint32_t d = rank; d-- > 0;) {
        uint32_t unit = d + 1 == rank ? elements : 1;
        uint64_t begin = (uint64_t)box->begin[d] / unit;
        uint64_t count =
            ((uint64_t)(box->end[d] - box->begin[d]) + unit - 1) / unit;
        uint64_t extent = ((uint64_t)dims[d] + unit - 1) / unit;
        out->offset += begin * stride;
        if (out->n == 1 && out->bytes == stride) {
            out->bytes *= count;
        } else if (out->n == 1) {
            out->pitch = stride;
            out->n = count;
        } else if (out->pitch * out->n == stride) {
            out->n *= count;
        } else if (count > 1) {
            return false;
        }
        stride *= extent;
    }
    return true;
}

static core_object *find_local(const clv_tensor *tensor, const clv_device *dev,
                               const core_form *form)
{
    core_object *o = tensor->objects;
    while (o && (o->holding != CORE_HOLD_LOCAL || o->buffer->dev != dev ||
                 !core_form_equal(&o->form, form)))
        o = o->next;
    return o;
}

/* Zeros in the memory of the device, padding of the form included. */
static clv_status make_own(clv_device *dev, core_object *o)
{
    const core_runs all = {.bytes = o->size, .n = 1};
    clv_status status =
        core_device_alloc_local(dev, o->size, "a state", &o->buffer);
    if (!status && o->form.layout)
        status = core_buffer_zero(o->buffer, 0, &all);
    if (status)
        core_buffer_free(o->buffer);
    else
        atomic_fetch_add(&dev->state_bytes, o->size);
    return status;
}

/* Memory of the host for this form alone, which the device imports. */
static clv_status make_image(const clv_tensor *tensor, clv_device *dev,
                             core_object *o)
{
    CLV_TRY(core_memory_make(tensor->ctx, o->size, &o->image));
    const clv_status status = core_memory_import(o->image, dev, o);
    if (status)
        core_memory_release(o->image);
    return status;
}

static clv_status make_local(clv_tensor *tensor, clv_device *dev,
                             const core_form *form, core_object **out)
{
    uint64_t size;
    uint32_t type;
    if (tensor->n_local == MAX_LOCAL)
        return clv_error(CLV_ERR_LIMIT,
                         "a tensor lies in the memories of at "
                         "most %u devices; use fewer",
                         MAX_LOCAL);
    CLV_TRY(
        core_form_size(form, tensor->dtype, tensor->rank, tensor->dims, &size));
    if (!tensor->regions.n)
        CLV_TRY(core_regions_begin(&tensor->regions, tensor->rank, tensor->dims,
                                   HOST));
    core_object *o = calloc(1, sizeof *o);
    if (!o)
        return core_no_memory("for a tensor's object");
    *o = (core_object){.holding = CORE_HOLD_LOCAL,
                       .size = size,
                       .form = *form,
                       .memory = tensor->n_local + 1,
                       .next = tensor->objects};
    const clv_status status = core_device_has_local(dev, &type)
                                  ? make_own(dev, o)
                                  : make_image(tensor, dev, o);
    if (status) {
        free(o);
        return status;
    }
    tensor->n_local++;
    tensor->objects = *out = o;
    return CLV_OK;
}

clv_status core_tensor_local(clv_tensor *tensor, clv_device *dev,
                             const core_form *form, const core_object **out)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&tensor->mutex);
    core_object *o = find_local(tensor, dev, form);
    if (!o)
        status = make_local(tensor, dev, form, &o);
    pthread_mutex_unlock(&tensor->mutex);
    if (!status)
        *out = o;
    return status;
}

/* ------------------------------------------------------------------------ */
/* Moving                                                                    */

static const core_object *holder_of(const clv_tensor *tensor,
                                    const core_region *region,
                                    const core_object **lost)
{
    for (const core_object *o = tensor->objects; o; o = o->next) {
        if (o->holding != CORE_HOLD_LOCAL ||
            !(region->memories >> o->memory & 1))
            continue;
        if (o->image || !core_device_lost(o->buffer->dev))
            return o;
        *lost = o;
    }
    return NULL;
}

static clv_status runs_of(const clv_tensor *tensor, const core_bounds *box,
                          core_runs *out)
{
    if (core_bounds_runs(tensor->dtype, tensor->rank, tensor->dims, box, out))
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "a part of a tensor of %u dimensions "
                     "cannot be copied; cut its first or last dimension only",
                     tensor->rank);
}

/* Copies the elements of a box between the host's memory and an object of
 * another form. Where the host does not see the object, all its bytes pass
 * through memory of the host. */
static clv_status change_form(const clv_tensor *tensor, const core_object *o,
                              const core_bounds *box, bool to_form)
{
    const core_bounds all = core_bounds_whole(tensor->rank, tensor->dims);
    const core_runs runs = {.bytes = o->size, .n = 1};
    const bool overwrites =
        to_form && core_bounds_equal(&all, box, tensor->rank);
    clv_status status = CLV_OK;
    if (o->image)
        return core_form_move(&o->form, tensor->dtype, tensor->rank,
                              tensor->dims, box, tensor->memory->data,
                              o->image->data, to_form);
    char *bytes = calloc(o->size, 1);
    if (!bytes)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "no memory for %llu bytes of a state that device '%s' "
                         "has in another layout; use a smaller context",
                         (unsigned long long)o->size, o->buffer->dev->id);
    if (!overwrites)
        status = core_buffer_read(o->buffer, o->offset, &runs, bytes);
    if (!status)
        status =
            core_form_move(&o->form, tensor->dtype, tensor->rank, tensor->dims,
                           box, tensor->memory->data, bytes, to_form);
    if (!status && to_form)
        status = core_buffer_write(o->buffer, o->offset, &runs, bytes);
    free(bytes);
    return status;
}

/* Copies a box from an object to the host's memory. */
static clv_status fetch(const clv_tensor *tensor, const core_object *from,
                        const core_bounds *box)
{
    core_runs runs;
    if (from->form.layout)
        return change_form(tensor, from, box, false);
    CLV_TRY(runs_of(tensor, box, &runs));
    return core_buffer_read(from->buffer, from->offset, &runs,
                            tensor->memory->data);
}

/* Copies a box from the host's memory to an object. */
static clv_status store(const clv_tensor *tensor, const core_object *to,
                        const core_bounds *box)
{
    core_runs runs;
    if (to->form.layout) /* a new object holds zeros, like the tensor */
        return tensor->zero ? CLV_OK : change_form(tensor, to, box, true);
    CLV_TRY(runs_of(tensor, box, &runs));
    return tensor->zero ? core_buffer_zero(to->buffer, to->offset, &runs)
                        : core_buffer_write(to->buffer, to->offset, &runs,
                                            tensor->memory->data);
}

/* The box is in these memories and in no others. */
static clv_status set_regions(clv_tensor *tensor, const core_bounds *box,
                              uint64_t memories)
{
    if (core_regions_are(&tensor->regions, box, memories, CORE_NO_WRITER))
        return CLV_OK;
    atomic_fetch_add(&tensor->ctx->state_moves, 1);
    return core_regions_set(&tensor->regions, box, memories, CORE_NO_WRITER);
}

/* It is in this one, too. */
static clv_status add_region(clv_tensor *tensor, const core_bounds *box,
                             uint64_t memory)
{
    atomic_fetch_add(&tensor->ctx->state_moves, 1);
    return core_regions_add(&tensor->regions, box, memory);
}

static clv_status bring_to_host(clv_tensor *tensor, const core_bounds *box)
{
    core_region old;
    while (core_regions_missing(&tensor->regions, box, HOST, &old)) {
        const core_object *lost = NULL;
        const core_object *from = holder_of(tensor, &old, &lost);
        if (!from)
            return clv_error(CLV_ERR_DEVICE_LOST,
                             "contents of a tensor were in the memory of "
                             "device '%s', which is lost; compute them again",
                             lost ? lost->buffer->dev->id : "?");
        CLV_TRY(fetch(tensor, from, &old.box));
        CLV_TRY(add_region(tensor, &old.box, HOST));
    }
    return CLV_OK;
}

static clv_status bring_to_device(clv_tensor *tensor, const core_object *to,
                                  const core_bounds *box)
{
    const uint64_t bit = (uint64_t)1 << to->memory;
    core_region old;
    while (core_regions_missing(&tensor->regions, box, bit, &old)) {
        CLV_TRY(bring_to_host(tensor, &old.box));
        CLV_TRY(store(tensor, to, &old.box));
        CLV_TRY(add_region(tensor, &old.box, bit));
    }
    return CLV_OK;
}

clv_status core_tensor_bring(clv_tensor *tensor, const core_object *object,
                             const core_bounds *box)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&tensor->mutex);
    if (tensor->n_local)
        status = object ? bring_to_device(tensor, object, box)
                        : bring_to_host(tensor, box);
    pthread_mutex_unlock(&tensor->mutex);
    return status;
}

bool core_tensor_is_there(clv_tensor *tensor, const core_object *object,
                          const core_bounds *box)
{
    const uint64_t bit = (uint64_t)1 << (object ? object->memory : 0);
    core_region old;
    pthread_mutex_lock(&tensor->mutex);
    const bool there = !tensor->n_local ||
                       !core_regions_missing(&tensor->regions, box, bit, &old);
    pthread_mutex_unlock(&tensor->mutex);
    return there;
}

clv_status core_tensor_wrote(clv_tensor *tensor, const core_bounds *box,
                             uint64_t memories)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&tensor->mutex);
    tensor->zero = false;
    if (tensor->n_local)
        status = set_regions(tensor, box, memories);
    pthread_mutex_unlock(&tensor->mutex);
    return status;
}

/* The host may write to what it is given. */
void *clv_tensor_data(clv_tensor *tensor)
{
    const core_bounds all = core_bounds_whole(tensor->rank, tensor->dims);
    clv_status status = CLV_OK;
    pthread_mutex_lock(&tensor->mutex);
    tensor->zero = false;
    if (tensor->n_local) {
        status = bring_to_host(tensor, &all);
        if (!status)
            status = set_regions(tensor, &all, HOST);
    }
    pthread_mutex_unlock(&tensor->mutex);
    return status ? NULL : tensor->memory->data;
}

bool clv_tensor_lost(const clv_tensor *tensor)
{
    const core_object *lost = NULL;
    for (uint32_t i = 0; i < tensor->regions.n; i++)
        if (!(tensor->regions.list[i].memories & HOST) &&
            !holder_of(tensor, &tensor->regions.list[i], &lost))
            return true;
    return false;
}
