#include "element.h"
#include "../run/child.h"

#include <math.h>
#include <string.h>

int64_t kit_block_size(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_F32:
    case CLV_DTYPE_I32:
        return 4;
    case CLV_DTYPE_F16:
    case CLV_DTYPE_BF16:
        return 2;
    case CLV_DTYPE_Q8_0:
        return 34;
    case CLV_DTYPE_Q4_0:
        return 18;
    }
    return 1;
}

int64_t kit_block_length(uint32_t dtype)
{
    return dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0 ? 32
           : dtype == CLV_DTYPE_I4                            ? 2
                                                              : 1;
}

int64_t kit_row_bytes(uint32_t dtype, int64_t c)
{
    int64_t length = kit_block_length(dtype);
    return (c + length - 1) / length * kit_block_size(dtype);
}

const char *kit_dtype_name(uint32_t dtype)
{
    static const char *const names[CLV_DTYPE_COUNT] = {
        "none", "f32", "f16", "bf16", "i32", "i8", "i4", "q8_0", "q4_0"};
    return dtype < CLV_DTYPE_COUNT ? names[dtype] : "?";
}

/* ------------------------------------------------------------------------ */

static double half_value(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double x = exponent == 31 ? (mantissa ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                              : ldexp(mantissa, -24);
    return h & 0x8000 ? -x : x;
}

double kit_decode(uint32_t dtype, const uint8_t *data, int64_t i)
{
    const uint8_t *p =
        data + i / kit_block_length(dtype) * kit_block_size(dtype);
    float f = 0;
    int32_t integer;
    switch (dtype) {
    case CLV_DTYPE_F32:
        memcpy(&f, p, sizeof f);
        return f;
    case CLV_DTYPE_F16:
        return half_value(p);
    case CLV_DTYPE_BF16:
        memcpy((char *)&f + 2, p, 2);
        return f;
    case CLV_DTYPE_I32:
        memcpy(&integer, p, sizeof integer);
        return integer;
    case CLV_DTYPE_I8:
        return (int8_t)*p;
    case CLV_DTYPE_I4:
        integer = i % 2 ? *p >> 4 : *p & 15;
        return integer < 8 ? integer : integer - 16;
    case CLV_DTYPE_Q8_0:
        return half_value(p) * (int8_t)p[2 + i % 32];
    case CLV_DTYPE_Q4_0:
        return half_value(p) *
               ((i % 32 < 16 ? p[2 + i % 32] & 15 : p[2 + i % 16] >> 4) - 8);
    }
    return NAN;
}

static uint16_t half_bits(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double a = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (a >= 65520) /* halfway past the largest */
        return sign | 0x7c00;
    int exponent;
    if (frexp(a, &exponent) == 0)
        return sign;
    exponent = exponent - 1 < -14 ? -14 : exponent - 1;
    /* In units of the last place; nearbyint() rounds ties to even. A carry
     * runs into the exponent, as it should. */
    uint32_t units = (uint32_t)nearbyint(ldexp(a, 10 - exponent));
    return (uint16_t)(sign | (units < 1024
                                  ? units
                                  : ((uint32_t)(exponent + 14) << 10) + units));
}

static uint16_t bfloat_bits(double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

bool kit_encode(uint32_t dtype, uint8_t *data, int64_t i, double value)
{
    uint8_t *p = data + i * kit_block_size(dtype);
    float f = (float)value;
    int32_t integer;
    uint16_t half;
    switch (dtype) {
    case CLV_DTYPE_F32:
        memcpy(p, &f, sizeof f);
        return true;
    case CLV_DTYPE_F16:
    case CLV_DTYPE_BF16:
        half = dtype == CLV_DTYPE_F16 ? half_bits(value) : bfloat_bits(value);
        memcpy(p, &half, sizeof half);
        return true;
    case CLV_DTYPE_I32:
        integer = (int32_t)value;
        memcpy(p, &integer, sizeof integer);
        return true;
    }
    return false;
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

void kit_random_block(kit *k, uint32_t dtype, uint8_t *data)
{
    int64_t size = kit_block_size(dtype);
    switch (dtype) {
    case CLV_DTYPE_F32:
    case CLV_DTYPE_F16:
    case CLV_DTYPE_BF16:
        kit_encode(dtype, data, 0, kit_random_real(k));
        return;
    case CLV_DTYPE_I32:
        memset(data, 0, (size_t)size);
        return;
    }
    for (int64_t i = 0; i < size; i++) {
        data[i] = (uint8_t)kit_random_below(k, 256);
        if (data[i] == 0x80 && dtype != CLV_DTYPE_I4 && dtype != CLV_DTYPE_Q4_0)
            data[i] = 0x81; /* -128 does not occur */
    }
    double largest = dtype == CLV_DTYPE_Q8_0 ? 127 : 8;
    if (dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0)
        kit_encode(CLV_DTYPE_F16, data, 0,
                   (0.5 + 0.5 * kit_random_real(k)) / largest);
}
