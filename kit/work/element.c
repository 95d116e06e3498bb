#include "element.h"
#include "../plugin/child.h"

#include <math.h>
#include <string.h>

#define MAX_BLOCK 256 /* elements */

int64_t kit_block_size(uint32_t dtype)
{
    return clv_format_of(dtype)->bytes;
}

int64_t kit_block_length(uint32_t dtype)
{
    return clv_format_of(dtype)->elements;
}

int64_t kit_row_bytes(uint32_t dtype, int64_t c)
{
    int64_t length = kit_block_length(dtype);
    return (c + length - 1) / length * kit_block_size(dtype);
}

uint32_t kit_real(uint32_t i)
{
    for (uint32_t dtype = 1; dtype < CLV_DTYPE_COUNT; dtype++)
        if (clv_format_is(dtype, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK) && !i--)
            return dtype;
    return CLV_DTYPE_NONE;
}

uint32_t kit_n_reals(void)
{
    uint32_t n = 0;
    while (kit_real(n))
        n++;
    return n;
}

const char *kit_dtype_name(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return f ? f->name : dtype ? "?" : "none";
}

/* ------------------------------------------------------------------------ */

double kit_decode(uint32_t dtype, const uint8_t *data, int64_t i)
{
    const clv_format *f = clv_format_of(dtype);
    const uint8_t *p = data + i / f->elements * f->bytes;
    int32_t integer;
    /* The latest block: elements of one are mostly asked for in turn. */
    static _Thread_local struct {
        uint32_t dtype;
        uint8_t bytes[MAX_BLOCK];
        float values[MAX_BLOCK];
    } last;
    if (!f->decode) {
        memcpy(&integer, p, sizeof integer);
        return integer;
    }
    if (last.dtype != dtype || memcmp(last.bytes, p, f->bytes)) {
        f->decode(p, last.values, f->elements);
        memcpy(last.bytes, p, f->bytes);
        last.dtype = dtype;
    }
    return last.values[i % f->elements];
}

bool kit_encode(uint32_t dtype, uint8_t *data, int64_t i, double value)
{
    const clv_format *f = clv_format_of(dtype);
    const int32_t integer = (int32_t)value;
    const float x = (float)value;
    data += i * f->bytes;
    if (f->format_class == CLV_FORMAT_INDEX)
        memcpy(data, &integer, sizeof integer);
    else if (f->format_class == CLV_FORMAT_FLOAT)
        f->encode(&x, data, 1);
    else
        return false;
    return true;
}

/* ------------------------------------------------------------------------ */

static uint64_t random_bits(kit *k)
{
    k->random ^= k->random << 13;
    k->random ^= k->random >> 7;
    k->random ^= k->random << 17;
    return k->random * 0x2545f4914f6cdd1du;
}

double kit_random_real(kit *k)
{
    return (double)(random_bits(k) >> 11) * 0x1p-52 - 1;
}

uint32_t kit_random_below(kit *k, uint32_t n)
{
    return (uint32_t)((random_bits(k) >> 32) * n >> 32);
}

/* Sets the f16 factors of a block's scales and minimums. */
static void set_factors(const clv_format *f, uint8_t *data, double scale,
                        double minimum)
{
    if (f->scale_at >= 0)
        kit_encode(CLV_DTYPE_F16, data + f->scale_at, 0, scale);
    if (f->minimum_at >= 0)
        kit_encode(CLV_DTYPE_F16, data + f->minimum_at, 0, minimum);
}

/* With these factors: tells the mean of the block's values, and returns their
 * largest magnitude. */
static double try_factors(const clv_format *f, uint8_t *data, double scale,
                          double minimum, double *mean)
{
    float block[MAX_BLOCK], top = 0, sum = 0;
    set_factors(f, data, scale, minimum);
    f->decode(data, block, f->elements);
    for (uint32_t i = 0; i < f->elements; i++) {
        const float size = fabsf(block[i]);
        top = size > top ? size : top;
        sum += block[i];
    }
    *mean = sum / (float)f->elements;
    return top;
}

/* Factors with which the values of a block are within 1, and minimums put their
 * mean at zero, where that of weights is. */
static void random_factors(kit *k, const clv_format *f, uint8_t *data)
{
    double above, below, mean, ratio = 0;
    double top = try_factors(f, data, 1, 0, &above);
    if (f->minimum_at >= 0) {
        try_factors(f, data, 0, 1, &below);
        if (below != 0)
            ratio = -above / below;
        top = try_factors(f, data, 1, ratio, &mean);
    }
    top = fmax(top, 1);
    const double factor = (0.5 + 0.5 * kit_random_real(k)) / top;
    set_factors(f, data, factor, factor * ratio);
}

void kit_random_block(kit *k, uint32_t dtype, uint8_t *data)
{
    const clv_format *f = clv_format_of(dtype);
    if (f->format_class == CLV_FORMAT_FLOAT)
        kit_encode(dtype, data, 0, kit_random_real(k));
    if (f->format_class == CLV_FORMAT_INDEX)
        memset(data, 0, f->bytes);
    if (f->format_class & (CLV_FORMAT_FLOAT | CLV_FORMAT_INDEX))
        return;
    for (uint32_t i = 0; i < f->bytes; i++) {
        data[i] = (uint8_t)kit_random_below(k, 256);
        if (data[i] == 0x80 && f->bits == 8)
            data[i] = 0x81; /* -128 does not occur */
    }
    if (f->format_class == CLV_FORMAT_BLOCK)
        random_factors(k, f, data);
}
