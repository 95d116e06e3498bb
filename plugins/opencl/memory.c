#include "memory.h"

#include <string.h>

#define PAGE 4096u
#define NO_ADDRESS PAGE /* data of memory that the host has no view of */

uint32_t ocl_n_mem_types(const clv_plugin_device *dev)
{
    return dev->props->info.n_mem_types;
}

/* The last type is the one that the host sees. */
static bool sees(const clv_plugin_device *dev, uint32_t type)
{
    return type == ocl_n_mem_types(dev) - 1;
}

/* ------------------------------------------------------------------------ */
/* Is the host's memory the device's?                                       */

static bool device_wrote(clv_plugin_device *dev, cl_mem mem,
                         const uint8_t *data)
{
    const cl_uint pattern = 0x5a5a5a5a;
    if (dev->cl->EnqueueFillBuffer(dev->side, mem, &pattern, 4, PAGE, PAGE, 0,
                                   NULL, NULL) ||
        dev->cl->Finish(dev->side))
        return false;
    for (uint32_t i = 0; i < 3 * PAGE; i++)
        if (data[i] != (i / PAGE == 1 ? 0x5a : 0x11))
            return false;
    return true;
}

static bool device_reads(clv_plugin_device *dev, cl_mem mem, uint8_t *data)
{
    uint8_t back[64] = {0}, want[64];
    memset(want, 0x33, sizeof want);
    memset(data + PAGE, 0x33, PAGE);
    return !dev->cl->EnqueueReadBuffer(dev->side, mem, CL_TRUE, 2 * PAGE - 64,
                                       64, back, 0, NULL, NULL) &&
           !memcmp(back, want, sizeof want);
}

clv_status ocl_try_memory(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    cl_int error;
    if (ocl_n_mem_types(dev) != 1)
        return CLV_OK;
    uint8_t *data = host->alloc(host->host, 3 * PAGE, PAGE);
    if (!data)
        return clv_fail(host, CLV_ERR_NO_MEMORY,
                        "opencl: no memory to try the device with; close other "
                        "programs");
    memset(data, 0x11, 3 * PAGE);
    cl_mem mem = dev->cl->CreateBuffer(dev->context,
                                       CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                       3 * PAGE, data, &error);
    dev->zero_copy =
        mem && device_wrote(dev, mem, data) && device_reads(dev, mem, data);
    if (mem)
        dev->cl->ReleaseMemObject(mem);
    host->free(host->host, data);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Types                                                                    */

static uint64_t import_align(const clv_plugin_device *dev)
{
    return dev->props->is_cpu ? 1 : PAGE;
}

/* What is pinned for one device, all devices of the driver copy as fast. */
static bool takes_mapped(const clv_plugin_device *dev, uint32_t type)
{
    return ocl_n_mem_types(dev) > 1 && sees(dev, type);
}

static void describe(const clv_plugin_device *dev, uint32_t i, clv_mem_type *t)
{
    memset(t, 0, sizeof *t);
    t->max_size = dev->props->max_alloc;
    t->budget = gpu_budget_left(&dev->budget);
    if (dev->zero_copy) {
        t->flags = CLV_MEM_DEVICE_LOCAL | CLV_MEM_HOST_VISIBLE |
                   CLV_MEM_COHERENT | CLV_MEM_CACHED;
        t->import_handles = CLV_HANDLE_HOST_POINTER;
        t->import_align = import_align(dev);
        t->alignment = PAGE;
        return;
    }
    t->flags = !sees(dev, i) ? CLV_MEM_DEVICE_LOCAL
               : ocl_n_mem_types(dev) == 1
                   ? CLV_MEM_HOST_VISIBLE | CLV_MEM_CACHED
                   : CLV_MEM_HOST_VISIBLE | CLV_MEM_CACHED | CLV_MEM_COHERENT;
    t->alignment = sees(dev, i) ? 64 : dev->props->base_align;
    if (takes_mapped(dev, i)) {
        t->import_handles = CLV_HANDLE_MAPPED_POINTER;
        t->import_align = 1;
    }
}

clv_status ocl_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride)
{
    uint32_t n = ocl_n_mem_types(dev);
    for (uint32_t i = 0; i < n && i < *count; i++) {
        clv_mem_type type;
        describe(dev, i, &type);
        clv_write(clv_at(out, i, stride), &type, sizeof type);
    }
    *count = n;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Allocation                                                               */

static ocl_buffer *new_buffer(clv_plugin_device *dev, uint64_t size,
                              uint32_t access)
{
    ocl_buffer *buf = clv_new(dev->base.host, sizeof *buf);
    if (!buf)
        return NULL;
    buf->base.host = dev->base.host;
    buf->base.size = size;
    buf->base.access = access;
    buf->dev = dev;
    buf->serial = __atomic_add_fetch(&dev->n_buffers, 1, __ATOMIC_RELAXED);
    return buf;
}

/* Around a block of the host's. */
static cl_int wrap(ocl_buffer *buf)
{
    cl_int error = CL_SUCCESS;
    cl_mem_flags flags = buf->base.access & CLV_ACCESS_WRITE ? CL_MEM_READ_WRITE
                                                             : CL_MEM_READ_ONLY;
    buf->mem = buf->dev->cl->CreateBuffer(
        buf->dev->context, flags | CL_MEM_USE_HOST_PTR, buf->base.size,
        buf->base.data, &error);
    return buf->mem ? CL_SUCCESS : error;
}

cl_int ocl_allocate_now(clv_plugin_device *dev, cl_mem mem)
{
    const cl_int error = dev->cl->EnqueueMigrateMemObjects(
        dev->side, 1, &mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL,
        NULL);
    return error ? error : dev->cl->Finish(dev->side);
}

static cl_int allocate(ocl_buffer *buf)
{
    clv_plugin_device *dev = buf->dev;
    cl_int error = CL_SUCCESS;
    buf->mem = dev->cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE,
                                     buf->base.size, NULL, &error);
    return buf->mem ? ocl_allocate_now(dev, buf->mem) : error;
}

/* Memory of the host that the device reaches without another copy. */
static cl_int pin(ocl_buffer *buf)
{
    clv_plugin_device *dev = buf->dev;
    cl_int error = CL_SUCCESS;
    buf->pinned = dev->cl->CreateBuffer(
        dev->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
        buf->base.size + 64, NULL, &error);
    if (!buf->pinned)
        return error;
    void *data = dev->cl->EnqueueMapBuffer(
        dev->side, buf->pinned, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
        buf->base.size + 64, 0, NULL, NULL, &error);
    if (!data) {
        dev->cl->ReleaseMemObject(buf->pinned);
        buf->pinned = NULL;
        return error;
    }
    buf->base.data = data;
    return CL_SUCCESS;
}

static clv_status failed(ocl_buffer *buf, cl_int error)
{
    clv_plugin_device *dev = buf->dev;
    uint64_t size = buf->base.size;
    ocl_buffer_free(&buf->base);
    return ocl_noticed(dev, ocl_fail(dev->base.host, error,
                                     "%s: a buffer of %llu bytes", dev->label,
                                     (unsigned long long)size));
}

clv_status ocl_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out)
{
    CLV_TRY(clv_queue_usable(dev));
    CLV_TRY(gpu_check_alloc(dev->base.host, dev->label, mem_type,
                            ocl_n_mem_types(dev), size, dev->props->max_alloc));
    ocl_buffer *buf = new_buffer(dev, size, CLV_ACCESS_READ | CLV_ACCESS_WRITE);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    if (dev->zero_copy || !sees(dev, mem_type)) /* else it is the host's */
        buf->taken = size;
    clv_status status =
        gpu_budget_take(dev->base.host, dev->label, &dev->budget, buf->taken);
    if (status) {
        clv_free(dev->base.host, buf);
        return status;
    }
    cl_int error;
    if (dev->zero_copy) {
        buf->base.allocated = 1;
        buf->base.data =
            dev->base.host->alloc(dev->base.host->host, size, PAGE);
        error = buf->base.data ? wrap(buf) : CL_OUT_OF_HOST_MEMORY;
    } else {
        buf->base.data = (char *)(uintptr_t)NO_ADDRESS;
        error = CL_SUCCESS;
        if (!sees(dev, mem_type) || ocl_n_mem_types(dev) == 1)
            error = allocate(buf);
        if (!error && sees(dev, mem_type))
            error = pin(buf);
    }
    if (error)
        return failed(buf, error);
    *out = &buf->base;
    return CLV_OK;
}

clv_status ocl_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out)
{
    const clv_host_api *host = dev->base.host;
    clv_mem_type type;
    CLV_TRY(clv_queue_usable(dev));
    CLV_TRY(gpu_check_alloc(host, dev->label, mem_type, ocl_n_mem_types(dev),
                            import->size, dev->props->max_alloc));
    describe(dev, mem_type, &type);
    CLV_TRY(gpu_check_import(host, dev->label, import, type.import_handles,
                             type.import_align));
    ocl_buffer *buf = new_buffer(dev, import->size, import->access);
    if (!buf)
        return CLV_ERR_NO_MEMORY;
    buf->base.data = (char *)import->pointer + import->offset;
    const cl_int error = dev->zero_copy ? wrap(buf) : CL_SUCCESS;
    if (error)
        return failed(buf, error);
    buf->base.release = import->release;
    buf->base.release_ctx = import->release_ctx;
    *out = &buf->base;
    return CLV_OK;
}

static void unpin(ocl_buffer *buf)
{
    const ocl_api *cl = buf->dev->cl;
    cl->EnqueueUnmapMemObject(buf->dev->side, buf->pinned, buf->base.data, 0,
                              NULL, NULL);
    cl->Finish(buf->dev->side);
    cl->ReleaseMemObject(buf->pinned);
}

void ocl_buffer_free(clv_plugin_buffer *base)
{
    if (!base)
        return;
    ocl_buffer *buf = ocl_buffer_of(base);
    const ocl_api *cl = buf->dev->cl;
    while (buf->views) {
        ocl_view *view = buf->views;
        buf->views = view->next;
        cl->ReleaseMemObject(view->mem);
        clv_free(base->host, view);
    }
    if (buf->pinned)
        unpin(buf);
    if (buf->mem)
        cl->ReleaseMemObject(buf->mem);
    gpu_budget_give(&buf->dev->budget, buf->taken);
    if (base->allocated)
        clv_free(base->host, base->data);
    else if (base->release)
        base->release(base->release_ctx);
    clv_free(base->host, buf);
}

/* ------------------------------------------------------------------------ */
/* The host's view                                                          */

static clv_status not_visible(const clv_plugin_buffer *buf)
{
    return clv_fail(buf->host, CLV_ERR_UNSUPPORTED,
                    "%s: memory type 0 of this device is not visible to the "
                    "host; use type 1, or copy",
                    ocl_buffer_of(buf)->dev->label);
}

clv_status ocl_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out)
{
    const ocl_buffer *own = ocl_buffer_of(buf);
    return own->dev->zero_copy || own->pinned || !own->mem
               ? clv_buffer_map(buf, access, out)
               : not_visible(buf);
}

/* Brings a range over; to_device: what the host wrote. */
static clv_status sync(clv_plugin_buffer *base, uint64_t offset, uint64_t size,
                       bool to_device)
{
    ocl_buffer *buf = ocl_buffer_of(base);
    clv_plugin_device *dev = buf->dev;
    if (!clv_buffer_range(base, offset, size, 0))
        return clv_fail(base->host, CLV_ERR_INVALID,
                        "%s: %llu bytes at %llu of a buffer of %llu",
                        dev->label, (unsigned long long)size,
                        (unsigned long long)offset,
                        (unsigned long long)base->size);
    if (dev->zero_copy || !size)
        return CLV_OK;
    if (!buf->mem)
        return CLV_OK;
    if (!buf->pinned)
        return not_visible(base);
    cl_int error =
        to_device
            ? dev->cl->EnqueueWriteBuffer(dev->side, buf->mem, CL_TRUE, offset,
                                          size, base->data + offset, 0, NULL,
                                          NULL)
            : dev->cl->EnqueueReadBuffer(dev->side, buf->mem, CL_TRUE, offset,
                                         size, base->data + offset, 0, NULL,
                                         NULL);
    if (!error)
        return CLV_OK;
    return ocl_noticed(dev, ocl_fail(base->host, error,
                                     "%s: %llu bytes between host "
                                     "and device",
                                     dev->label, (unsigned long long)size));
}

clv_status ocl_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                            uint64_t size)
{
    return sync(buf, offset, size, true);
}

clv_status ocl_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                 uint64_t size)
{
    return sync(buf, offset, size, false);
}

/* ------------------------------------------------------------------------ */
/* Views                                                                    */

clv_status ocl_buffer_check_bound(const clv_plugin_buffer *buf)
{
    const ocl_buffer *own = ocl_buffer_of(buf);
    return own->mem ? CLV_OK
                    : clv_fail(buf->host, CLV_ERR_INVALID,
                               "%s: a program cannot be bound to memory type "
                               "1, which is the host's; copy to type 0",
                               own->dev->label);
}

cl_int ocl_buffer_view(ocl_buffer *buf, uint64_t offset, cl_mem *out,
                       cl_int *rest)
{
    clv_plugin_device *dev = buf->dev;
    const clv_host_api *host = buf->base.host;
    if (offset >= buf->base.size) /* of a tensor without elements */
        offset = 0;
    const uint64_t begin = offset / OCL_VIEW_STEP * OCL_VIEW_STEP;
    cl_buffer_region region = {begin, buf->base.size - begin};
    cl_int error = CL_SUCCESS;
    *rest = (cl_int)(offset - begin);
    *out = buf->mem;
    if (!begin)
        return CL_SUCCESS;
    pthread_mutex_lock(&dev->lock);
    ocl_view *view = buf->views;
    while (view && view->offset != begin)
        view = view->next;
    pthread_mutex_unlock(&dev->lock);
    if (view) {
        *out = view->mem;
        return CL_SUCCESS;
    }
    view = host->alloc(host->host, sizeof *view, 64);
    if (!view)
        return CL_OUT_OF_HOST_MEMORY;
    view->offset = begin;
    view->mem = *out = dev->cl->CreateSubBuffer(
        buf->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    if (!view->mem) {
        host->free(host->host, view);
        return error ? error : CL_OUT_OF_HOST_MEMORY;
    }
    pthread_mutex_lock(&dev->lock);
    view->next = buf->views;
    buf->views = view;
    pthread_mutex_unlock(&dev->lock);
    return CL_SUCCESS;
}
