/*
 * cleave/plugin_float.h - numbers of 16 bits
 *
 * Not part of the ABI: functions that a host or a plugin compiles into itself.
 * They are without branches, so that loops over them are vectorised.
 */
#ifndef CLEAVE_PLUGIN_FLOAT_H_
#define CLEAVE_PLUGIN_FLOAT_H_

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline uint32_t clv_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float clv_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float clv_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t u = h & 0x7fff;
    uint32_t normal = (u << 13) + (112u << 23);
    uint32_t special = (u << 13) | 0x7f800000;
    uint32_t small = clv_float_bits((float)(int32_t)u * 0x1p-24f);
    uint32_t bits = u < 0x400 ? small : u < 0x7c00 ? normal : special;
    return clv_bits_float(sign | bits);
}

/* Rounds to nearest even; what is too large becomes infinite. */
static inline uint16_t clv_f32_to_f16(float x)
{
    uint32_t u = clv_float_bits(x) & 0x7fffffff;
    uint32_t sign = clv_float_bits(x) >> 16 & 0x8000;
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    /* 0.5 has the ulp of an f16 subnormal: the addition rounds. */
    uint32_t small = clv_float_bits(clv_bits_float(u) + 0.5f) - 0x3f000000;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    uint32_t h = u < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (u >= 0x47800000 ? special : h));
}

static inline float clv_bf16_to_f32(uint16_t h)
{
    return clv_bits_float((uint32_t)h << 16);
}

/* Rounds to nearest even. */
static inline uint16_t clv_f32_to_bf16(float x)
{
    uint32_t u = clv_float_bits(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_FLOAT_H_ */
