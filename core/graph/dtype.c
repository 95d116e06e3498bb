#include <cleave/cleave.h>
#include <cleave/plugin_format.h>

#include <strings.h>

const char *clv_dtype_name(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return f ? f->name : NULL;
}

uint32_t clv_dtype_parse(const char *name)
{
    for (uint32_t i = 1; name && i < CLV_DTYPE_COUNT; i++)
        if (!strcasecmp(name, clv_format_of(i)->name))
            return i;
    return CLV_DTYPE_NONE;
}

bool clv_dtype_block(uint32_t dtype, uint32_t *elements, uint32_t *bytes)
{
    const clv_format *f = clv_format_of(dtype);
    if (!f)
        return false;
    *elements = f->elements;
    *bytes = f->bytes;
    return true;
}

clv_status clv_dtype_size(uint32_t dtype, uint64_t n, uint64_t *bytes)
{
    const clv_format *f = clv_format_of(dtype);
    uint64_t size;
    if (!f)
        return clv_error(CLV_ERR_INVALID, "element type %u is unknown", dtype);
    if (n % f->elements)
        return clv_error(CLV_ERR_INVALID,
                         "%llu elements of %s are not whole blocks of %u",
                         (unsigned long long)n, f->name, f->elements);
    if (__builtin_mul_overflow(n / f->elements, (uint64_t)f->bytes, &size))
        return clv_error(CLV_ERR_INVALID,
                         "%llu elements of %s need more than 2^64 bytes",
                         (unsigned long long)n, f->name);
    *bytes = size;
    return CLV_OK;
}

bool clv_dtype_is_writable(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return f && f->encode;
}

static clv_status check_convertible(uint32_t dtype, uint64_t n, bool writes)
{
    uint64_t bytes;
    if (writes ? clv_dtype_is_writable(dtype)
               : clv_format_is(dtype, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK))
        return clv_dtype_size(dtype, n, &bytes);
    return clv_error(
        CLV_ERR_UNSUPPORTED, "no conversion %s %s; floats and blocks have one",
        writes ? "from f32 to" : "to f32 from",
        clv_dtype_name(dtype) ? clv_dtype_name(dtype) : "an unknown type");
}

clv_status clv_dtype_to_f32(uint32_t dtype, const void *src, float *dst,
                            uint64_t n)
{
    CLV_TRY(check_convertible(dtype, n, false));
    clv_format_of(dtype)->decode(src, dst, (int64_t)n);
    return CLV_OK;
}

/* A block's scale is an f16: beyond its range the block cannot be stored. */
static clv_status check_blocks(const clv_format *f, const float *src,
                               uint64_t n)
{
    const uint32_t limit = clv_float_bits(f->largest);
    for (uint64_t i = 0; i < n; i += f->elements) {
        uint32_t outside = 0;
        for (uint32_t j = 0; j < f->elements; j++)
            outside |= (clv_float_bits(src[i + j]) & 0x7fffffff) > limit;
        if (outside)
            return clv_error(
                CLV_ERR_INVALID,
                "%s: elements %llu..%llu hold a value that is not finite "
                "or beyond %g",
                f->name, (unsigned long long)i,
                (unsigned long long)i + f->elements - 1, (double)f->largest);
    }
    return CLV_OK;
}

clv_status clv_dtype_from_f32(uint32_t dtype, const float *src, void *dst,
                              uint64_t n)
{
    CLV_TRY(check_convertible(dtype, n, true));
    const clv_format *f = clv_format_of(dtype);
    if (f->format_class == CLV_FORMAT_BLOCK)
        CLV_TRY(check_blocks(f, src, n));
    f->encode(src, dst, (int64_t)n);
    return CLV_OK;
}
