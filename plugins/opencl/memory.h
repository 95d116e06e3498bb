/*
 * Buffers.
 *
 * A device that shares the host's memory has one type: the host's own blocks,
 * used in place. Others have two: their own memory, and pinned memory of the
 * host, which the device copies from and to by itself and binds no program to.
 * (One that only says it shares memory has one type: its own memory with a view
 * of the host's, between which flush and invalidate bring bytes over.)
 */
#pragma once

#include "device.h"

#include <cleave/plugin_memory.h>

/* Kernels are told offsets by 32-bit integers; larger buffers are seen from
 * multiples of this. */
#define OCL_VIEW_STEP ((uint64_t)1 << 30)
typedef struct ocl_view {
    struct ocl_view *next;
    uint64_t offset;
    cl_mem mem;
} ocl_view;

typedef struct ocl_buffer {
    clv_plugin_buffer base; /* data: the host's view; of memory that it has no
                               view of, a number that stands for it */
    clv_plugin_device *dev;
    uint64_t serial; /* no other buffer of the device has or had it; from 1 */
    cl_mem mem;      /* NULL: of pinned memory */
    cl_mem pinned;   /* mapped at data, or NULL */
    uint64_t taken;  /* of the device's budget */
    ocl_view *views;
} ocl_buffer;

static inline ocl_buffer *ocl_buffer_of(const clv_plugin_buffer *buf)
{
    return (ocl_buffer *)(uintptr_t)buf;
}

/* Sets zero_copy: whether blocks of the host's are used in place, both
 * variants. A device that says it shares memory is tried. */
clv_status ocl_try_memory(clv_plugin_device *dev);

uint32_t ocl_n_mem_types(const clv_plugin_device *dev);
clv_status ocl_mem_types(clv_plugin_device *dev, uint32_t *count,
                         clv_mem_type *out, uint32_t stride);
clv_status ocl_buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                            uint64_t size, clv_plugin_buffer **out);
clv_status ocl_buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                             const clv_import *import, clv_plugin_buffer **out);
void ocl_buffer_free(clv_plugin_buffer *buf);
clv_status ocl_buffer_map(clv_plugin_buffer *buf, uint32_t access, void **out);
clv_status ocl_buffer_flush(clv_plugin_buffer *buf, uint64_t offset,
                            uint64_t size);
clv_status ocl_buffer_invalidate(clv_plugin_buffer *buf, uint64_t offset,
                                 uint64_t size);

/* Drivers put allocation off to the first use of memory, where a failure would
 * be one of the device. After this it has been made, or has failed. */
cl_int ocl_allocate_now(clv_plugin_device *dev, cl_mem mem);

/* Fails for memory that programs are not bound to. */
clv_status ocl_buffer_check_bound(const clv_plugin_buffer *buf);

/* What to bind for memory that begins at an offset, and how many bytes below it
 * that begins; valid as long as the buffer. CL_SUCCESS, or why there is none.
 */
cl_int ocl_buffer_view(ocl_buffer *buf, uint64_t offset, cl_mem *out,
                       cl_int *rest);
