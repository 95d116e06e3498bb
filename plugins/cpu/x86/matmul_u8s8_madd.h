/*
 * The part of matmul_u8s8.h for sets without VNNI: pairs of products are added
 * in 16 bits, as many of them as fit whatever their values, and then in 32.
 */
#pragma once

#define GEMM_TOKENS TOKENS /* rows of x at once */
#define PANELS_FROM 2      /* rows of x from which packing pays */

/* Elements of w whose products are added in 16 bits: a pair is at most
 * 2 * TOP * 127. */
#define STEP_FITS (TOP <= 16 ? 32 : TOP <= 32 ? 16 : 8)
#define STEP (STEP_FITS < GROUP ? STEP_FITS : GROUP)
_Static_assert(STEP / 4 * 2 * TOP * 127 < 1 << 15, "sums of 16 bits");

static ALWAYS_INLINE vi dot_vector(vi w, vi x)
{
    return vi_madd16(vi_maddubs(w, x), vi_set1_16(1));
}

/* y += a step's sums of 16 bits times the scales of its group; what the sums of
 * x are multiplied by comes in with the group's first step. */
static ALWAYS_INLINE void micro_sums(const panel *p, const gemm_tile *t, int k,
                                     const int8_t *x, vi acc[2], float *y)
{
    const int g = k / GROUP, first = k % GROUP == 0;
    float sum = q8_sums(x, t->k, GROUP)[(t->k_begin + k) / GROUP];
    float factor = q8_scales(x, t->k)[(t->k_begin + k) / CPU_BLOCK];
    UNROLL
    for (int j = 0; j < 2; j++) {
        vf v = vf_from_int(vi_madd16(acc[j], vi_set1_16(1)));
        vf d = vf_mul(vf_set1(factor), vf_load(p->d[g] + j * VL));
        vf out = vf_load(y + j * VL);
        if (!HAS_MINIMUM && first)
            v = vf_sub(v, vf_set1(OFFSET * sum));
        if (HAS_MINIMUM && first)
            out =
                vf_fnma(vf_set1(factor * sum), vf_load(p->m[g] + j * VL), out);
        vf_store(y + j * VL, vf_fma(v, d, out));
    }
}

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int n)
{
    const panel *p = t->panel;
    const int8_t *x[TOKENS];

    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = (const int8_t *)(t->x + (size_t)i * t->x_stride);
    for (int k = 0; k < t->depth; k += STEP) {
        const uint8_t *w = p->q[k / 4][0];
        vi acc[TOKENS][2];
        UNROLL
        for (int i = 0; i < n; i++)
            acc[i][0] = acc[i][1] = vi_zero();
        UNROLL
        for (int j = 0; j < STEP; j += 4) {
            vi w0 = vi_load(w + j * ROWS), w1 = vi_load(w + j * ROWS + 4 * VL);
            UNROLL
            for (int i = 0; i < n; i++) {
                vi v = vi_set1_32(load_32(x[i] + t->k_begin + k + j));
                ADD16(acc[i][0], vi_maddubs(w0, v));
                ADD16(acc[i][1], vi_maddubs(w1, v));
            }
        }
        UNROLL
        for (int i = 0; i < n; i++)
            micro_sums(p, t, k, x[i], acc[i], t->y + i * t->y_stride);
    }
}

static void micro(const gemm_tile *t)
{
    WITH_TOKENS(t->tokens, micro_n, t)
}
