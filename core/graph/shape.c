#include "shape.h"

clv_status core_shape_check(uint32_t dtype, uint32_t rank, const int64_t *dims,
                            uint64_t *size)
{
    uint32_t elements, block_bytes;
    uint64_t n = 1, bytes;
    if (!clv_dtype_block(dtype, &elements, &block_bytes))
        return clv_error(CLV_ERR_INVALID, "element type %u is unknown", dtype);
    if (rank < 1 || rank > CLV_MAX_RANK)
        return clv_error(CLV_ERR_INVALID, "rank %u is outside 1..%d", rank,
                         CLV_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1)
            return clv_error(CLV_ERR_INVALID, "dimension %u is %lld, below 1",
                             i, (long long)dims[i]);
        if (__builtin_mul_overflow(n, (uint64_t)dims[i], &n))
            return clv_error(CLV_ERR_INVALID, "more than 2^64 elements");
    }
    if (dims[rank - 1] % elements)
        return clv_error(
            CLV_ERR_INVALID,
            "rows of %lld elements are not whole blocks of %u (%s)",
            (long long)dims[rank - 1], elements, clv_dtype_name(dtype));
    CLV_TRY(clv_dtype_size(dtype, n, &bytes));
    if (bytes > INT64_MAX)
        return clv_error(CLV_ERR_INVALID, "%llu bytes, the limit is 2^63 - 1",
                         (unsigned long long)bytes);
    if (size)
        *size = bytes;
    return CLV_OK;
}
