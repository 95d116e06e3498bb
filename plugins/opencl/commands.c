/* Copies and fills. */
#include "memory.h"
#include "queue.h"

#include <string.h>

/* Large fills take drivers out of their stride: one of 8 GiB has been seen not
 * to end. */
#define PIECE ((uint64_t)128 << 20)

cl_int ocl_copy(clv_plugin_device *dev, ocl_job *job, uint32_t i,
                const clv_command *c)
{
    if (!c->size)
        return CL_SUCCESS;
    return dev->cl->EnqueueCopyBuffer(
        job->queue, ocl_buffer_of(c->src)->mem, ocl_buffer_of(c->dst)->mem,
        c->src_offset, c->dst_offset, c->size, 0, NULL,
        ocl_span_begin(job, i, CLV_NO_TENSOR, "copy"));
}

/* size is a multiple of unit, and at, too. */
static cl_int fill_piece(clv_plugin_device *dev, const ocl_job *job, cl_mem mem,
                         const void *pattern, size_t unit, uint64_t at,
                         uint64_t size)
{
    cl_int error = CL_SUCCESS;
    while (size && !error) {
        uint64_t n = size < PIECE ? size : PIECE;
        error = dev->cl->EnqueueFillBuffer(job->queue, mem, pattern, unit, at,
                                           n, 0, NULL, NULL);
        at += n;
        size -= n;
    }
    return error;
}

/* Single bytes up to a multiple of 4, words, and what is left; the pattern
 * begins at dst_offset, wherever that is. */
cl_int ocl_fill(clv_plugin_device *dev, ocl_job *job, uint32_t i,
                const clv_command *c)
{
    cl_mem mem = ocl_buffer_of(c->dst)->mem;
    uint64_t at = c->dst_offset, end = at + c->size;
    cl_int error = CL_SUCCESS;
    uint8_t word[4];
    (void)i;
    while (!error && at < end) {
        for (uint32_t k = 0; k < 4; k++)
            word[k] = (uint8_t)(c->pattern >> (at - c->dst_offset + k) % 4 * 8);
        if (at % 4 || end - at < 4) {
            error = fill_piece(dev, job, mem, word, 1, at, 1);
            at++;
        } else {
            error = fill_piece(dev, job, mem, word, 4, at, (end - at) / 4 * 4);
            at += (end - at) / 4 * 4;
        }
    }
    return error;
}
