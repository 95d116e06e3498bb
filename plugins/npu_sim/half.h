/* Half-precision bits to and from float: exact one way, round to nearest even
 * the other. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float npu_bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t npu_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float npu_half_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    if (magnitude >= 0x0f800000) /* infinity, NaN */
        return npu_bits_float(sign | (magnitude + 0x70000000));
    /* Rebias by 112: the product is exact, subnormals included. */
    return npu_bits_float(sign |
                          npu_float_bits(npu_bits_float(magnitude) * 0x1p112f));
}

static inline uint16_t npu_float_half(float f)
{
    uint32_t bits = npu_float_bits(f);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) /* rounds past 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* subnormal: the adder rounds to 2^-24 */
        float sum = npu_bits_float(bits) + 0.5f;
        return (uint16_t)(sign | (npu_float_bits(sum) - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

/* To the nearest F16, as a float. */
static inline float npu_round_half(float f)
{
    return npu_half_float(npu_float_half(f));
}

static inline float npu_brain_float(uint16_t h)
{
    return npu_bits_float((uint32_t)h << 16);
}

static inline uint16_t npu_float_brain(float f)
{
    uint32_t bits = npu_float_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
