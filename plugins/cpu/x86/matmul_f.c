/* Matrix products with F32, F16 and BF16 weights, in f32 arithmetic. */
#include "gemm.h"
#include "gemm_f32.h"
#include "x86.h"

#include <string.h>

#define FEW 4
#define MANY 17 /* rows of x from which packing pays */
#define DEPTH 512

static ALWAYS_INLINE vf load_w(const void *w, int64_t i, const int dtype)
{
    if (dtype == CLV_DTYPE_F32)
        return vf_load((const float *)w + i);
    if (dtype == CLV_DTYPE_F16)
        return vf_from_f16((const uint16_t *)w + i);
    return vf_from_bf16((const uint16_t *)w + i);
}

/* The last n < VL values; zeros follow. */
static ALWAYS_INLINE vf load_w_n(const void *w, int64_t i, int64_t n,
                                 const int dtype)
{
    uint16_t tail[VL] = {0};
    if (dtype == CLV_DTYPE_F32)
        return vf_load_n((const float *)w + i, n);
    memcpy(tail, (const uint16_t *)w + i, (size_t)n * sizeof(*tail));
    return load_w(tail, 0, dtype);
}

/* Products of one weight row with n rows of x. */
static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t i, const int dtype, const int n)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const float *x = a->x + i * a->x_stride;
    vf acc[FEW][2];
    int64_t k = 0;

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t][0] = acc[t][1] = vf_zero();
    for (; k + 2 * VL <= a->k; k += 2 * VL) {
        vf w0 = load_w(w, k, dtype), w1 = load_w(w, k + VL, dtype);
        UNROLL
        for (int t = 0; t < n; t++) {
            const float *xt = x + t * a->x_stride + k;
            acc[t][0] = vf_fma(w0, vf_load(xt), acc[t][0]);
            acc[t][1] = vf_fma(w1, vf_load(xt + VL), acc[t][1]);
        }
    }
    for (; k < a->k; k += VL) {
        int64_t left = a->k - k < VL ? a->k - k : VL;
        vf w0 = left < VL ? load_w_n(w, k, left, dtype) : load_w(w, k, dtype);
        UNROLL
        for (int t = 0; t < n; t++)
            acc[t][0] =
                vf_fma(w0, vf_load_n(x + t * a->x_stride + k, left), acc[t][0]);
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(i + t) * a->y_stride + o] =
            vf_hsum(vf_add(acc[t][0], acc[t][1])) + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void few(const cpu_matmul_args *a, const int dtype)
{
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += FEW) {
            int n = (int)(a->n - i < FEW ? a->n - i : FEW);
            WITH_4(n, dot_row, a, o, i, dtype)
        }
    }
}

static void micro(const gemm_tile *tile)
{
    f32_tile t = {
        .x = (const float *)tile->x + tile->k_begin,
        .x_stride = (int64_t)(tile->x_stride / sizeof(float)),
        .panel = tile->panel,
        .panel_stride = F32_ROWS,
        .depth = tile->depth,
        .y = tile->y,
        .y_stride = tile->y_stride,
    };
    f32_micro(&t, tile->tokens);
}

#define MATMUL(name, dtype)                                                    \
    static void pack_##name(const cpu_matmul_args *a, int64_t o, int n_rows,   \
                            int64_t k_begin, int depth, void *panel)           \
    {                                                                          \
        const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;            \
        w += k_begin * (dtype == CLV_DTYPE_F32 ? 4 : 2);                       \
        f32_pack(w, a->w_stride, n_rows, depth, panel, dtype);                 \
    }                                                                          \
                                                                               \
    static void matmul_##name(const cpu_matmul_args *a)                        \
    {                                                                          \
        static const gemm_kind kind = {                                        \
            .rows = F32_ROWS,                                                  \
            .tokens = TOKENS,                                                  \
            .depth = DEPTH,                                                    \
            .panel_size = DEPTH * F32_ROWS * sizeof(float),                    \
            .pack = pack_##name,                                               \
            .micro = micro,                                                    \
        };                                                                     \
        if (a->n < MANY)                                                       \
            few(a, dtype);                                                     \
        else                                                                   \
            cpu_x86_gemm(&kind, a, a->x, (size_t)a->x_stride * sizeof(float)); \
    }

MATMUL(f32, CLV_DTYPE_F32)
MATMUL(f16, CLV_DTYPE_F16)
MATMUL(bf16, CLV_DTYPE_BF16)

void ISA(cpu_x86_matmul_f)(cpu_kernels *table)
{
    table->matmul[CLV_DTYPE_F32] = matmul_f32;
    table->matmul[CLV_DTYPE_F16] = matmul_f16;
    table->matmul[CLV_DTYPE_BF16] = matmul_bf16;
}
