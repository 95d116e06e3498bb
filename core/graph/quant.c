/* Tensors of plain integers, whose scales lie in a tensor beside them. */
#include "tensor.h"

#include <stdio.h>

uint32_t clv_tensor_quant(const clv_tensor *tensor)
{
    return tensor->quant;
}

uint32_t clv_tensor_quant_group(const clv_tensor *tensor)
{
    return tensor->quant_group;
}

clv_tensor *clv_tensor_scales(const clv_tensor *tensor)
{
    return tensor->scales;
}

static const char *shape_of(const clv_tensor *tensor, char text[CLV_SHAPE_TEXT])
{
    clv_tensor_desc desc = {.dtype = tensor->dtype, .rank = tensor->rank};
    for (uint32_t i = 0; i < tensor->rank; i++)
        desc.dims[i] = tensor->dims[i];
    return clv_shape_text(&desc, text);
}

static clv_status check_scheme(const clv_tensor *t, uint32_t quant,
                               uint32_t group)
{
    char text[CLV_SHAPE_TEXT];
    uint32_t elements, bytes;
    if (!clv_format_is(t->dtype, CLV_FORMAT_INTEGER) || t->rank != 2)
        return clv_error(CLV_ERR_INVALID,
                         "scales are for matrices of i8 and "
                         "i4, this tensor is %s",
                         shape_of(t, text));
    if (quant == CLV_QUANT_NONE || quant > CLV_QUANT_PER_GROUP)
        return clv_error(CLV_ERR_INVALID,
                         "quantisation %u is none of per "
                         "tensor (1), per channel (2), per group (3)",
                         quant);
    if (quant != CLV_QUANT_PER_GROUP)
        return group ? clv_error(CLV_ERR_INVALID,
                                 "a group of %u elements is "
                                 "given, but the scales are not per group",
                                 group)
                     : CLV_OK;
    clv_dtype_block(t->dtype, &elements, &bytes);
    if (!group || t->dims[1] % group || group % elements)
        return clv_error(CLV_ERR_INVALID,
                         "rows of %lld elements are no whole "
                         "groups of %u, a multiple of %u",
                         (long long)t->dims[1], group, elements);
    return CLV_OK;
}

static clv_status check_scales(const clv_tensor *t, uint32_t quant,
                               uint32_t group, const clv_tensor *scales)
{
    int64_t dims[2] = {1, 0};
    char text[CLV_SHAPE_TEXT];
    uint32_t rank = quant == CLV_QUANT_PER_GROUP ? 2 : 1;
    if (quant != CLV_QUANT_PER_TENSOR)
        dims[0] = t->dims[0];
    if (rank == 2)
        dims[1] = t->dims[1] / group;
    bool same = scales->dtype == CLV_DTYPE_F32 && scales->rank == rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = scales->dims[i] == dims[i];
    if (same)
        return CLV_OK;
    char last[24] = "";
    if (rank == 2)
        snprintf(last, sizeof last, ",%lld", (long long)dims[1]);
    return clv_error(CLV_ERR_INVALID,
                     "the scales are %s, they must be f32 [%lld%s]",
                     shape_of(scales, text), (long long)dims[0], last);
}

clv_status clv_tensor_set_quant(clv_tensor *tensor, uint32_t quant,
                                uint32_t group, clv_tensor *scales)
{
    if (!tensor || !scales)
        return clv_error(CLV_ERR_INVALID, "tensor: the %s NULL",
                         tensor ? "scales are" : "tensor is");
    clv_status status =
        tensor->scales ? clv_error(CLV_ERR_INVALID, "it has scales already")
                       : check_scheme(tensor, quant, group);
    if (!status && scales->ctx != tensor->ctx)
        status = clv_error(CLV_ERR_INVALID, "its scales are of another "
                                            "context");
    if (!status)
        status = check_scales(tensor, quant, group, scales);
    if (status)
        return clv_error_prefix(status, "tensor");
    tensor->quant = quant;
    tensor->quant_group = group;
    tensor->scales = scales;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Multiplies a row of integers by its scales. */
static void apply_scales(const clv_tensor *t, int64_t row, float *x)
{
    const float *scales = t->scales->memory->data;
    int64_t columns = t->dims[1], group = columns;
    if (t->quant == CLV_QUANT_PER_CHANNEL)
        scales += row;
    if (t->quant == CLV_QUANT_PER_GROUP) {
        group = t->quant_group;
        scales += row * (columns / group);
    }
    for (int64_t begin = 0; begin < columns; begin += group, scales++)
        for (int64_t i = begin; i < begin + group; i++)
            x[i] *= *scales;
}

clv_status clv_tensor_rows_to_f32(const clv_tensor *t, int64_t begin, int64_t n,
                                  float *dst)
{
    if (t->rank != 2 || begin < 0 || n < 0 || begin > t->dims[0] ||
        n > t->dims[0] - begin) {
        char text[CLV_SHAPE_TEXT];
        return clv_error(CLV_ERR_INVALID, "tensor: %s has no rows %lld..%lld",
                         shape_of(t, text), (long long)begin,
                         (long long)(begin + n));
    }
    const uint64_t columns = (uint64_t)t->dims[1];
    const uint64_t row = t->size / (uint64_t)t->dims[0];
    const uint8_t *src = t->memory->data;
    src += (uint64_t)begin * row;
    if (!t->scales)
        return clv_dtype_to_f32(t->dtype, src, dst, (uint64_t)n * columns);
    for (int64_t i = 0; i < n; i++, src += row, dst += columns) {
        clv_format_of(t->dtype)->decode(src, dst, t->dims[1]);
        apply_scales(t, begin + i, dst);
    }
    return CLV_OK;
}
