/* Copies and fills. */
#include "memory.h"
#include "pieces.h"

#include <string.h>

/* Large fills take drivers out of their stride: one of 8 GiB has been seen not
 * to end. */
#define PIECE ((uint64_t)128 << 20)
#define SCRATCH ((uint64_t)4 << 20)

/* The host's memory, which the device reads and writes by copies of its own. */
static bool is_pinned(const ocl_buffer *buf)
{
    return !buf->mem;
}

/* Memory of the device's own, of the job's queue. */
static cl_int get_scratch(clv_plugin_device *dev, const ocl_job *job,
                          cl_mem *out)
{
    cl_int error = CL_SUCCESS;
    cl_mem *scratch = &dev->queues[job->job->submit.queue].scratch;
    if (!*scratch)
        *scratch = dev->cl->CreateBuffer(dev->context, CL_MEM_READ_WRITE,
                                         SCRATCH, NULL, &error);
    *out = *scratch;
    return error;
}

/* Scratch to pinned memory, again and again. from: what comes to scratch
 * before, piece by piece; NULL: it is there. */
static cl_int write_pinned(clv_plugin_device *dev, const ocl_job *job,
                           cl_mem scratch, const char *from, char *to,
                           uint64_t size, cl_event *event)
{
    cl_int error = CL_SUCCESS;
    for (uint64_t at = 0; at < size && !error; at += SCRATCH) {
        const uint64_t n = size - at < SCRATCH ? size - at : SCRATCH;
        if (from)
            error = dev->cl->EnqueueWriteBuffer(job->queue, scratch, CL_FALSE,
                                                0, n, from + at, 0, NULL, NULL);
        if (!error)
            error = dev->cl->EnqueueReadBuffer(job->queue, scratch, CL_FALSE, 0,
                                               n, to + at, 0, NULL,
                                               at + n < size ? NULL : event);
    }
    return error;
}

static cl_int copy_pinned(clv_plugin_device *dev, const ocl_job *job,
                          const clv_command *c, cl_event *event)
{
    const char *from = c->src->data + c->src_offset;
    char *to = c->dst->data + c->dst_offset;
    const uint64_t rows = clv_copy_rows(c);
    cl_mem scratch;
    cl_int error = get_scratch(dev, job, &scratch);
    for (uint64_t i = 0; i < rows && !error; i++)
        error = write_pinned(dev, job, scratch, from + i * c->src_pitch,
                             to + i * c->dst_pitch, c->size,
                             i + 1 < rows ? NULL : event);
    return error;
}

/* `size` bytes of each row, from byte `at` of it on. */
static cl_int copy_columns(clv_plugin_device *dev, const ocl_job *job,
                           const clv_command *c, uint64_t at, uint64_t size,
                           cl_event *event)
{
    const ocl_buffer *src = ocl_buffer_of(c->src), *dst = ocl_buffer_of(c->dst);
    const uint64_t first = c->src_offset + at, second = c->dst_offset + at;
    const size_t region[] = {size, c->n_rows, 1}, none[] = {0, 0, 0};
    const size_t from[] = {first % c->src_pitch, first / c->src_pitch, 0};
    const size_t to[] = {second % c->dst_pitch, second / c->dst_pitch, 0};
    if (is_pinned(src))
        return dev->cl->EnqueueWriteBufferRect(
            job->queue, dst->mem, CL_FALSE, to, none, region, c->dst_pitch, 0,
            c->src_pitch, 0, src->base.data + first, 0, NULL, event);
    if (is_pinned(dst))
        return dev->cl->EnqueueReadBufferRect(
            job->queue, src->mem, CL_FALSE, from, none, region, c->src_pitch, 0,
            c->dst_pitch, 0, dst->base.data + second, 0, NULL, event);
    return dev->cl->EnqueueCopyBufferRect(job->queue, src->mem, dst->mem, from,
                                          to, region, c->src_pitch, 0,
                                          c->dst_pitch, 0, 0, NULL, event);
}

/* Bytes from the offset to the end of its pitch. */
static uint64_t rest_of_pitch(const ocl_buffer *buf, uint64_t offset,
                              uint64_t pitch)
{
    return is_pinned(buf) ? UINT64_MAX : pitch - offset % pitch;
}

static uint64_t min_64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether n rows from the offset on are whole pitches of the buffer. */
static bool has_pitches(const ocl_buffer *buf, uint64_t offset, uint64_t pitch,
                        uint64_t n)
{
    return is_pinned(buf) || offset / pitch + n <= buf->base.size / pitch;
}

/* Bytes that lie side by side, of two buffers of which one at most is pinned.
 */
static cl_int copy_bytes(clv_plugin_device *dev, const ocl_job *job,
                         const clv_command *c, cl_event *event)
{
    const ocl_buffer *src = ocl_buffer_of(c->src), *dst = ocl_buffer_of(c->dst);
    if (is_pinned(src))
        return dev->cl->EnqueueWriteBuffer(
            job->queue, dst->mem, CL_FALSE, c->dst_offset, c->size,
            src->base.data + c->src_offset, 0, NULL, event);
    if (is_pinned(dst))
        return dev->cl->EnqueueReadBuffer(
            job->queue, src->mem, CL_FALSE, c->src_offset, c->size,
            dst->base.data + c->dst_offset, 0, NULL, event);
    return dev->cl->EnqueueCopyBuffer(job->queue, src->mem, dst->mem,
                                      c->src_offset, c->dst_offset, c->size, 0,
                                      NULL, event);
}

static cl_int copy_last_row(clv_plugin_device *dev, const ocl_job *job,
                            const clv_command *c, cl_event *event)
{
    clv_command last = *c;
    last.src_offset += (c->n_rows - 1) * c->src_pitch;
    last.dst_offset += (c->n_rows - 1) * c->dst_pitch;
    return copy_bytes(dev, job, &last, event);
}

/* Rows of two buffers of which one at most is pinned. NVIDIA's driver takes
 * only rectangles whose rows begin and end inside a pitch, and whose last pitch
 * the buffer has to its end. */
static cl_int copy_rows(clv_plugin_device *dev, const ocl_job *job,
                        const clv_command *c, cl_event *event)
{
    const ocl_buffer *src = ocl_buffer_of(c->src), *dst = ocl_buffer_of(c->dst);
    const uint64_t from = c->src_offset, to = c->dst_offset;
    /* A row may end in the pitch after the one that it begins in. */
    const uint64_t end = c->size - 1;
    const bool whole = has_pitches(src, from + end, c->src_pitch, c->n_rows) &&
                       has_pitches(dst, to + end, c->dst_pitch, c->n_rows);
    clv_command rows = *c;
    cl_int error = CL_SUCCESS;
    uint64_t size;
    rows.n_rows -= !whole;
    for (uint64_t at = 0; at < c->size && !error; at += size) {
        size = min_64(rest_of_pitch(src, from + at, c->src_pitch),
                      rest_of_pitch(dst, to + at, c->dst_pitch));
        size = min_64(size, c->size - at);
        error = copy_columns(dev, job, &rows, at, size,
                             whole && at + size == c->size ? event : NULL);
    }
    return error || whole ? error : copy_last_row(dev, job, c, event);
}

static cl_int copy(clv_plugin_device *dev, const ocl_job *job,
                   const clv_command *c, cl_event *event)
{
    if (is_pinned(ocl_buffer_of(c->src)) && is_pinned(ocl_buffer_of(c->dst)))
        return copy_pinned(dev, job, c, event);
    return clv_copy_rows(c) > 1 ? copy_rows(dev, job, c, event)
                                : copy_bytes(dev, job, c, event);
}

/* The copy, or a piece of it, and its event where somebody asks for it. */
static cl_int enqueue_copy(ocl_queue *q, ocl_job *job, uint32_t i,
                           const clv_command *c, bool ends, uint64_t under_way)
{
    cl_event own = NULL;
    cl_event *span = ocl_span_begin(job, i, CLV_NO_TENSOR, "copy");
    const cl_int error = copy(q->dev, job, c,
                              span                ? span
                              : ends || under_way ? &own
                                                  : NULL);
    const cl_event event = span ? *span : own;
    if (!error && ends)
        ocl_end_with(q->dev, job, event);
    if (!error && under_way)
        ocl_pieces_add(q, event, under_way);
    if (own)
        q->dev->cl->ReleaseEvent(own);
    return error;
}

static cl_int copy_in_pieces(ocl_queue *q, ocl_job *job, uint32_t i,
                             const clv_command *c, bool ends)
{
    const uint32_t n = ocl_count_pieces(c);
    cl_int error = CL_SUCCESS;
    for (uint32_t k = 0; k < n && !error; k++) {
        const clv_command piece = ocl_piece_of(c, k);
        const uint64_t bytes = piece.size * clv_copy_rows(&piece);
        ocl_pieces_wait(q, bytes);
        error = enqueue_copy(q, job, i, &piece, ends && k + 1 == n, bytes);
        if (!error)
            error = q->dev->cl->Flush(job->queue);
    }
    return error;
}

bool ocl_is_upload(const clv_command *c)
{
    return c->kind == CLV_COMMAND_COPY && is_pinned(ocl_buffer_of(c->src)) &&
           !is_pinned(ocl_buffer_of(c->dst));
}

cl_int ocl_copy(ocl_queue *q, ocl_job *job, uint32_t i, const clv_command *c)
{
    const bool ends = i + 1 == job->job->submit.n_commands;
    if (!c->size)
        return CL_SUCCESS;
    return job->job->submit.queue && ocl_is_upload(c)
               ? copy_in_pieces(q, job, i, c, ends)
               : enqueue_copy(q, job, i, c, ends, 0);
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
static cl_int fill(clv_plugin_device *dev, const ocl_job *job,
                   const clv_command *c)
{
    cl_mem mem = ocl_buffer_of(c->dst)->mem;
    uint64_t at = c->dst_offset, end = at + c->size;
    cl_int error = CL_SUCCESS;
    uint8_t word[4];
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

static cl_int fill_pinned(clv_plugin_device *dev, const ocl_job *job,
                          const clv_command *c)
{
    const uint64_t words = (c->size + 3) / 4 * 4;
    cl_mem scratch;
    cl_int error = get_scratch(dev, job, &scratch);
    if (!error)
        error = fill_piece(dev, job, scratch, &c->pattern, 4, 0,
                           words < SCRATCH ? words : SCRATCH);
    return error
               ? error
               : write_pinned(dev, job, scratch, NULL,
                              ocl_buffer_of(c->dst)->base.data + c->dst_offset,
                              c->size, NULL);
}

cl_int ocl_fill(clv_plugin_device *dev, ocl_job *job, uint32_t i,
                const clv_command *c)
{
    (void)i;
    return is_pinned(ocl_buffer_of(c->dst)) ? fill_pinned(dev, job, c)
                                            : fill(dev, job, c);
}
