#include "tensor.h"
#include "host.h"
#include "kernels.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Past any memory; keeps sums and products of a few extents inside 64 bits. */
#define MAX_EXTENT ((int64_t)1 << 56)

static const struct {
    const char *name;
    cpu_block block;
    uint64_t align;
} dtypes[CLV_DTYPE_COUNT] = {
    [CLV_DTYPE_F32] = {"f32", {1, 4}, 4},
    [CLV_DTYPE_F16] = {"f16", {1, 2}, 2},
    [CLV_DTYPE_BF16] = {"bf16", {1, 2}, 2},
    [CLV_DTYPE_I32] = {"i32", {1, 4}, 4},
    [CLV_DTYPE_I8] = {"i8", {1, 1}, 1},
    [CLV_DTYPE_I4] = {"i4", {2, 1}, 1},
    [CLV_DTYPE_Q8_0] = {"q8_0", {CPU_BLOCK, sizeof(clv_block_q8_0)}, 2},
    [CLV_DTYPE_Q4_0] = {"q4_0", {CPU_BLOCK, sizeof(clv_block_q4_0)}, 2},
};

cpu_block cpu_dtype_block(uint32_t dtype)
{
    return dtype < CLV_DTYPE_COUNT ? dtypes[dtype].block : (cpu_block){0, 0};
}

uint64_t cpu_dtype_align(uint32_t dtype)
{
    return dtypes[dtype].align;
}

const char *cpu_dtype_name(uint32_t dtype)
{
    bool known = dtype < CLV_DTYPE_COUNT && dtypes[dtype].name;
    return known ? dtypes[dtype].name : "unknown dtype";
}

__attribute__((format(printf, 3, 4))) static bool
refuse(char *reason, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, size, fmt, args);
    va_end(args);
    return false;
}

static bool read_dims(const clv_subgraph *graph, const clv_tensor_desc *d,
                      uint32_t index, cpu_tensor *t, char *reason, size_t size)
{
    for (uint32_t i = 0; i < d->rank; i++) {
        t->dims[i] = d->dims[i];
        t->symbols[i] = d->symbols[i];
        t->strides[i] = d->strides[i];
        if (t->strides[i])
            t->dense = false;
        if (d->symbols[i] > graph->n_symbols)
            return refuse(reason, size,
                          "tensor %u: symbol %u of %u does not exist", index,
                          d->symbols[i] - 1, graph->n_symbols);
        if (d->symbols[i] &&
            (graph->symbols[d->symbols[i] - 1].max > d->dims[i] ||
             graph->symbols[d->symbols[i] - 1].min < 0))
            return refuse(reason, size,
                          "tensor %u: dimension %u is at most %" PRId64
                          ", its symbol passes that",
                          index, i, d->dims[i]);
        if (d->dims[i] < 1)
            return refuse(reason, size,
                          "tensor %u: dimension %u is %" PRId64
                          ", not 1 or more",
                          index, i, d->dims[i]);
    }
    return true;
}

/* Whether the largest form fits in memory that can be named. */
static bool check_extent(const cpu_tensor *t, uint32_t index, char *reason,
                         size_t size)
{
    cpu_block block = cpu_dtype_block(t->dtype);
    int64_t total = 0, dense = block.bytes;
    uint32_t last = t->rank - 1;
    if (t->dims[last] % block.elements ||
        (block.elements > 1 && t->symbols[last]))
        return refuse(reason, size,
                      "tensor %u: %s rows must be whole blocks of %" PRId64
                      " elements, not %" PRId64,
                      index, cpu_dtype_name(t->dtype), block.elements,
                      t->dims[last]);
    for (uint32_t i = t->rank; i-- > 0;) {
        int64_t n = i == last ? t->dims[i] / block.elements : t->dims[i];
        int64_t step = t->dense ? dense : t->strides[i], span;
        if ((n > 1 && step <= 0) || step % (int64_t)cpu_dtype_align(t->dtype))
            return refuse(reason, size,
                          "tensor %u: stride %" PRId64 " of dimension %u is "
                          "not positive or splits elements",
                          index, step, i);
        if (__builtin_mul_overflow(n, step, &span) ||
            __builtin_mul_overflow(dense, n ? n : 1, &dense) ||
            span > MAX_EXTENT || dense > MAX_EXTENT ||
            (total += span) > MAX_EXTENT)
            return refuse(reason, size, "tensor %u: larger than 2^56 bytes",
                          index);
    }
    return true;
}

bool cpu_tensor_read(const clv_subgraph *graph, uint32_t index, cpu_tensor *out,
                     char *reason, size_t size)
{
    if (index >= graph->n_tensors)
        return refuse(reason, size, "tensor %u of %u does not exist", index,
                      graph->n_tensors);
    clv_tensor_desc d;
    cpu_read(&d, sizeof d,
             (const char *)graph->tensors +
                 (size_t)index * graph->tensor_stride);
    if (cpu_required_extension(&d.header))
        return refuse(reason, size,
                      "tensor %u: needs an extension that is not known here",
                      index);
    if (!cpu_dtype_block(d.dtype).elements)
        return refuse(reason, size, "tensor %u: no %s here", index,
                      cpu_dtype_name(d.dtype));
    if (d.usage > CLV_USAGE_STATE)
        return refuse(reason, size, "tensor %u: usage %u is not known here",
                      index, d.usage);
    bool integers = d.dtype == CLV_DTYPE_I8 || d.dtype == CLV_DTYPE_I4;
    if ((d.quant != CLV_QUANT_NONE && !integers) ||
        d.quant > CLV_QUANT_PER_GROUP)
        return refuse(reason, size,
                      "tensor %u: no separate scales by scheme %u for %s",
                      index, d.quant, cpu_dtype_name(d.dtype));
    if (d.rank < 1 || d.rank > CLV_MAX_RANK)
        return refuse(reason, size, "tensor %u: rank %u is not in 1..%d", index,
                      d.rank, CLV_MAX_RANK);
    if (d.storage != CLV_STORAGE_BUFFER || d.layout != CLV_LAYOUT_LINEAR)
        return refuse(reason, size,
                      "tensor %u: only linear buffers, not storage %u in "
                      "layout %u",
                      index, d.storage, d.layout);
    cpu_tensor t = {.dtype = d.dtype,
                    .usage = d.usage,
                    .rank = d.rank,
                    .dense = true,
                    .quant = d.quant,
                    .quant_group = d.quant_group,
                    .scales = d.quant_scales - 1};
    if (!read_dims(graph, &d, index, &t, reason, size) ||
        !check_extent(&t, index, reason, size))
        return false;
    *out = t;
    return true;
}

int64_t cpu_tensor_group(const cpu_tensor *t)
{
    return t->quant == CLV_QUANT_PER_GROUP ? t->quant_group
                                           : t->dims[t->rank - 1];
}

bool cpu_scales_read(const clv_subgraph *graph, uint32_t index,
                     const cpu_tensor *t, cpu_tensor *out, char *reason,
                     size_t size)
{
    const uint32_t rank = t->quant == CLV_QUANT_PER_GROUP ? 2 : 1;
    if (t->rank != 2 || t->symbols[0] || t->symbols[1])
        return refuse(reason, size,
                      "tensor %u: with separate scales only matrices of fixed "
                      "size",
                      index);
    if (rank == 2 && (!t->quant_group || t->dims[1] % t->quant_group))
        return refuse(reason, size,
                      "tensor %u: rows of %" PRId64 " are no whole groups of "
                      "%u",
                      index, t->dims[1], t->quant_group);
    if (rank == 2 && t->quant_group % cpu_dtype_block(t->dtype).elements)
        return refuse(reason, size, "tensor %u: groups of %u split bytes",
                      index, t->quant_group);
    if (!cpu_tensor_read(graph, t->scales, out, reason, size))
        return false;
    bool fits =
        out->rank == rank && !out->symbols[0] && !out->symbols[rank - 1] &&
        out->dims[0] == (t->quant == CLV_QUANT_PER_TENSOR ? 1 : t->dims[0]) &&
        (rank == 1 || out->dims[1] == t->dims[1] / t->quant_group);
    if (out->dtype != CLV_DTYPE_F32 || !fits || !cpu_tensor_is_rows(out))
        return refuse(reason, size,
                      "tensor %u: its scales are not f32 of the scheme's "
                      "shape in contiguous rows",
                      index);
    return true;
}

bool cpu_tensor_is_rows(const cpu_tensor *t)
{
    if (t->dense)
        return true;
    cpu_block block = cpu_dtype_block(t->dtype);
    uint32_t last = t->rank - 1;
    if (t->strides[last] != block.bytes && t->dims[last] > block.elements)
        return false;
    for (uint32_t i = 0; i + 1 < last; i++) {
        int64_t whole;
        if (t->symbols[i + 1] ||
            __builtin_mul_overflow(t->strides[i + 1], t->dims[i + 1], &whole) ||
            whole != t->strides[i])
            return false;
    }
    return true;
}

bool cpu_tensor_same_dim(const cpu_tensor *a, uint32_t i, const cpu_tensor *b,
                         uint32_t j)
{
    return a->symbols[i] == b->symbols[j] &&
           (a->symbols[i] || a->dims[i] == b->dims[j]);
}

bool cpu_tensor_same_dims(const cpu_tensor *a, const cpu_tensor *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!cpu_tensor_same_dim(a, i, b, i))
            return false;
    return true;
}

void cpu_tensor_shape(const cpu_tensor *t, const int64_t *symbols,
                      cpu_shape *out)
{
    cpu_block block = cpu_dtype_block(t->dtype);
    int64_t step = block.bytes;
    out->dtype = t->dtype;
    out->rank = t->rank;
    for (uint32_t i = t->rank; i-- > 0;) {
        out->dims[i] = t->symbols[i] ? symbols[t->symbols[i] - 1] : t->dims[i];
        out->strides[i] = t->dense ? step : t->strides[i];
        step *= i == t->rank - 1 ? out->dims[i] / block.elements : out->dims[i];
    }
}

uint64_t cpu_shape_extent(const cpu_shape *shape)
{
    cpu_block block = cpu_dtype_block(shape->dtype);
    int64_t bytes = block.bytes;
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t n = shape->dims[i];
        if (!n)
            return 0;
        if (i == shape->rank - 1)
            n /= block.elements;
        bytes += (n - 1) * shape->strides[i];
    }
    return (uint64_t)bytes;
}

cpu_rows cpu_shape_rows(const cpu_shape *shape, void *data)
{
    uint32_t last = shape->rank - 1;
    cpu_rows rows = {.data = data, .n = 1, .c = shape->dims[last]};
    for (uint32_t i = 0; i < last; i++)
        rows.n *= shape->dims[i];
    if (last)
        rows.stride = shape->strides[last - 1];
    return rows;
}
