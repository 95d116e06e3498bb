#include "prepare.h"

#include <math.h>

/*
 * The scale of a group whose largest magnitude has these bits, for values up
 * to limit, and its inverse; where it is known, that one. As integers the bits
 * of infinity and NaN are above all others; magnitudes too small to have a
 * finite inverse count as zero.
 */
static float group_scale(int32_t top_bits, float limit, float known,
                         float *inverse)
{
    float top;
    *inverse = 0;
    if (top_bits >= 0x7f800000)
        return NAN;
    memcpy(&top, &top_bits, sizeof(top));
    if (top < 1e-34f)
        return 0;
    *inverse = known > 0 ? 1 / known : limit / top;
    return known > 0 ? known : top / limit;
}

/* n <= Q16_GROUP, a multiple of CPU_BLOCK */
static float q16_group(const float *x, int64_t n, float scale, int16_t *q)
{
    vi top = vi_zero();
    float inverse, d;

    for (int64_t i = 0; i < n; i += VL)
        top = vi_max32(top, vf_abs_bits(vf_load(x + i)));
    d = group_scale(vi_hmax32(top), Q16_MAX, scale, &inverse);
    for (int64_t i = 0; i < n; i += VL) {
        vf v = inverse ? vf_mul(vf_load(x + i), vf_set1(inverse)) : vf_zero();
        vi_store_16(q + i, vf_to_int(v));
    }
    memset(q + n, 0, (size_t)(Q16_GROUP - n) * sizeof(*q));
    return d;
}

size_t ISA(cpu_x86_q16_size)(int64_t k)
{
    size_t length = (size_t)q16_length(k);
    return cpu_round_up(length * sizeof(int16_t) +
                        length / Q16_GROUP * sizeof(float));
}

void ISA(cpu_x86_q16_rows)(const cpu_prepare_args *args)
{
    const int64_t k = args->k;
    size_t size = ISA(cpu_x86_q16_size)(k);

    for (int64_t i = 0; i < args->n; i++) {
        const float *x = args->x[i];
        int16_t *q = (int16_t *)((uint8_t *)args->out + (size_t)i * size);
        float *d = (float *)(q + q16_length(k));
        for (int64_t j = 0; j < k; j += Q16_GROUP)
            *d++ = q16_group(x + j, k - j < Q16_GROUP ? k - j : Q16_GROUP,
                             args->scale, q + j);
    }
}

static float q8_block(const float *x, float scale, int8_t *q, float *sum,
                      float *halves)
{
    vi top = vi_zero();
    float inverse, d;

    for (int i = 0; i < CPU_BLOCK; i += VL)
        top = vi_max32(top, vf_abs_bits(vf_load(x + i)));
    d = group_scale(vi_hmax32(top), 127, scale, &inverse);
    for (int h = 0; h < 2; h++) {
        vi total = vi_zero();
        for (int i = h * 16; i < h * 16 + 16; i += VL) {
            vf v =
                inverse ? vf_mul(vf_load(x + i), vf_set1(inverse)) : vf_zero();
            vi rounded = vf_to_int(v);
            total = vi_add32(total, rounded);
            vi_store_8(q + i, rounded);
        }
        halves[h] = vf_hsum(vf_from_int(total));
    }
    *sum = halves[0] + halves[1];
    return d;
}

size_t ISA(cpu_x86_q8_size)(int64_t k)
{
    return cpu_round_up((size_t)k +
                        (size_t)(k / CPU_BLOCK) * 4 * sizeof(float));
}

void ISA(cpu_x86_q8_rows)(const cpu_prepare_args *args)
{
    const int64_t k = args->k;
    size_t size = ISA(cpu_x86_q8_size)(k);

    for (int64_t i = 0; i < args->n; i++) {
        const float *x = args->x[i];
        int8_t *q = (int8_t *)args->out + (size_t)i * size;
        float *d = (float *)(q + k);
        float *sum = d + k / CPU_BLOCK, *halves = sum + k / CPU_BLOCK;
        for (int64_t j = 0; j < k; j += CPU_BLOCK, halves += 2)
            *d++ = q8_block(x + j, args->scale, q + j, sum++, halves);
    }
}

/* Even bytes of 32 in front of the odd ones. */
static void part_pairs(int8_t *q)
{
    const __m256i order =
        _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
                         0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m256i v = _mm256_loadu_si256((const __m256i *)q);
    v = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, order), 0xd8);
    _mm256_storeu_si256((__m256i *)q, v);
}

void ISA(cpu_x86_q8_pair_rows)(const cpu_prepare_args *args)
{
    size_t size = ISA(cpu_x86_q8_size)(args->k);

    ISA(cpu_x86_q8_rows)(args);
    for (int64_t i = 0; i < args->n; i++)
        for (int64_t j = 0; j < args->k; j += CPU_BLOCK)
            part_pairs((int8_t *)args->out + (size_t)i * size + j);
}
