/*
 * Half-precision bits to and from float, without hardware support: exact one
 * way, round to nearest even the other.
 */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float cpu_bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t cpu_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float cpu_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    if (magnitude >= 0x0f800000) /* infinity, NaN */
        return cpu_bits_float(sign | (magnitude + 0x70000000));
    /* Rebias by 112: the product is exact, subnormals included. */
    return cpu_bits_float(sign |
                          cpu_float_bits(cpu_bits_float(magnitude) * 0x1p112f));
}

static inline uint16_t cpu_f32_to_f16(float f)
{
    uint32_t bits = cpu_float_bits(f);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) /* quiet NaN, upper payload bits kept */
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x1ff));
    if (bits >= 0x477ff000) /* rounds past 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* subnormal: the adder rounds to 2^-24 */
        float sum = cpu_bits_float(bits) + 0.5f;
        return (uint16_t)(sign | (cpu_float_bits(sum) - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static inline float cpu_bf16_to_f32(uint16_t h)
{
    return cpu_bits_float((uint32_t)h << 16);
}

static inline uint16_t cpu_f32_to_bf16(float f)
{
    uint32_t bits = cpu_float_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
