/*
 * Matrix products with 8-bit and 4-bit weights by AVX-512 VNNI: unsigned bytes
 * of w times signed bytes of x, four products summed into 32 bits. Weights
 * carry an offset that makes them unsigned (128, or the nibble's 8); the block
 * sums of x take it out again.
 */
#include "gemm.h"
#include "prepare.h"
#include "tokens.h"
#include "weight.h"
#include "x86.h"

#define FEW 4
#define MANY 9 /* rows of x from which packing pays */
#define DEPTH 1024
#define ROWS (2 * VL)
#define MOST 6 /* rows of x at once: f32 sums lie in registers as well */

typedef struct panel {
    float d[DEPTH / CPU_QK][ROWS];
    uint8_t q[DEPTH / 4][ROWS][4];
} panel;

static ALWAYS_INLINE int is_bytes(const int dtype)
{
    return dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_I8;
}

/* The offset in units of the nibble's, which the sums of x are made for. */
static ALWAYS_INLINE float offset(const int dtype)
{
    return is_bytes(dtype) ? 16 : 1;
}

/* A block as unsigned bytes in the order of x. */
static ALWAYS_INLINE __m256i unpack(const uint8_t *block, const int dtype)
{
    if (is_bytes(dtype))
        return _mm256_xor_si256(
            _mm256_loadu_si256((const __m256i *)(block + block_head(dtype))),
            _mm256_set1_epi8(-128));
    __m128i v = nibbles(block, dtype);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v),
                            _mm256_set1_epi8(15));
}

static ALWAYS_INLINE void pack(const cpu_matmul_args *a, int64_t o, int n_rows,
                               int64_t k_begin, int depth, panel *p,
                               const int dtype)
{
    for (int r = 0; r < ROWS; r += 8) {
        const uint8_t *w = (const uint8_t *)a->w + (o + r) * a->w_stride +
                           k_begin / CPU_QK * block_size(dtype);
        for (int b = 0; b < depth / CPU_QK; b++, w += block_size(dtype)) {
            __m256 v[8];
            for (int i = 0; i < 8; i++) {
                const uint8_t *block = w + i * a->w_stride;
                int used = r + i < n_rows;
                p->d[b][r + i] =
                    used ? block_scale(a, o + r + i, k_begin + b * CPU_QK,
                                       block, dtype)
                         : 0;
                v[i] = used ? _mm256_castsi256_ps(unpack(block, dtype))
                            : _mm256_setzero_ps();
            }
            transpose8(v);
            for (int i = 0; i < 8; i++)
                _mm256_storeu_ps((float *)p->q[b * 8 + i][r], v[i]);
        }
    }
}

static ALWAYS_INLINE void micro_n(const gemm_tile *t, const int dtype,
                                  const int n)
{
    const panel *p = t->panel;
    const int8_t *x[MOST];
    int64_t at = t->k_begin / CPU_QK;
    vf sum[MOST][2];

    UNROLL
    for (int i = 0; i < n; i++) {
        x[i] = (const int8_t *)(t->x + (size_t)i * t->x_stride);
        sum[i][0] = vf_load(t->y + i * t->y_stride);
        sum[i][1] = vf_load(t->y + i * t->y_stride + VL);
    }
    for (int b = 0; b * CPU_QK < t->depth; b++) {
        const uint8_t *w = p->q[b * 8][0];
        vi acc[MOST][2];
        UNROLL
        for (int i = 0; i < n; i++)
            acc[i][0] = acc[i][1] =
                vf_to_int(vf_set1(q8_sums(x[i], t->k)[at + b] * offset(dtype)));
        UNROLL
        for (int k = 0; k < CPU_QK; k += 4) {
            vi w0 = vi_load(w + k * ROWS), w1 = vi_load(w + k * ROWS + 4 * VL);
            UNROLL
            for (int i = 0; i < n; i++) {
                vi v = vi_set1_32(load_32(x[i] + t->k_begin + b * CPU_QK + k));
                acc[i][0] = _mm512_dpbusd_epi32(acc[i][0], w0, v);
                acc[i][1] = _mm512_dpbusd_epi32(acc[i][1], w1, v);
                KEEP(acc[i][0]);
                KEEP(acc[i][1]);
            }
        }
        vf d0 = vf_load(p->d[b]), d1 = vf_load(p->d[b] + VL);
        UNROLL
        for (int i = 0; i < n; i++) {
            vf d = vf_set1(q8_scales(x[i], t->k)[at + b]);
            sum[i][0] =
                vf_fma(vf_from_int(acc[i][0]), vf_mul(d, d0), sum[i][0]);
            sum[i][1] =
                vf_fma(vf_from_int(acc[i][1]), vf_mul(d, d1), sum[i][1]);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        vf_store(t->y + i * t->y_stride, sum[i][0]);
        vf_store(t->y + i * t->y_stride + VL, sum[i][1]);
    }
}

static ALWAYS_INLINE void micro(const gemm_tile *t, const int dtype)
{
    WITH_6(t->tokens, micro_n, t, dtype)
}

/* n rows of x times one of w, whose offset sums up beside the lanes. */
static ALWAYS_INLINE void dot_row(const cpu_matmul_args *a, int64_t o,
                                  int64_t first, size_t x_size, const int dtype,
                                  const int n)
{
    const uint8_t *w = (const uint8_t *)a->w + o * a->w_stride;
    const uint8_t *xp = (const uint8_t *)a->xp + (size_t)first * x_size;
    __m256 acc[FEW];
    float out[FEW] = {0};

    UNROLL
    for (int t = 0; t < n; t++)
        acc[t] = _mm256_setzero_ps();
    for (int64_t b = 0; b < a->k / CPU_QK; b++, w += block_size(dtype)) {
        __m256i q = unpack(w, dtype);
        float d = block_scale(a, o, b * CPU_QK, w, dtype);
        if (first == 0)
            prefetch_stream(w, 1);
        UNROLL
        for (int t = 0; t < n; t++) {
            const uint8_t *x = xp + t * x_size;
            float scale = d * q8_scales(x, a->k)[b];
            __m256i v = _mm256_dpbusd_epi32(
                _mm256_setzero_si256(), q,
                _mm256_loadu_si256((const __m256i *)(x + b * CPU_QK)));
            out[t] += scale * q8_sums(x, a->k)[b];
            acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(v),
                                     _mm256_set1_ps(scale), acc[t]);
        }
    }
    UNROLL
    for (int t = 0; t < n; t++)
        a->y[(first + t) * a->y_stride + o] =
            hsum8(acc[t]) + out[t] * offset(dtype) + (a->bias ? a->bias[o] : 0);
}

static ALWAYS_INLINE void few(const cpu_matmul_args *a, const int dtype)
{
    size_t x_size = ISA(cpu_x86_q8_size)(a->k);

    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        for (int64_t i = 0; i < a->n; i += FEW) {
            int n = (int)(a->n - i < FEW ? a->n - i : FEW);
            WITH_4(n, dot_row, a, o, i, x_size, dtype)
        }
    }
}

#define MATMUL(name, dtype)                                                    \
    static void pack_##name(const cpu_matmul_args *a, int64_t o, int n_rows,   \
                            int64_t k_begin, int depth, void *out)             \
    {                                                                          \
        pack(a, o, n_rows, k_begin, depth, out, dtype);                        \
    }                                                                          \
                                                                               \
    static void micro_##name(const gemm_tile *tile)                            \
    {                                                                          \
        micro(tile, dtype);                                                    \
    }                                                                          \
                                                                               \
    static void matmul_##name(const cpu_matmul_args *a)                        \
    {                                                                          \
        static const gemm_kind kind = {                                        \
            .rows = ROWS,                                                      \
            .tokens = MOST,                                                    \
            .depth = DEPTH,                                                    \
            .panel_size = sizeof(panel),                                       \
            .pack = pack_##name,                                               \
            .micro = micro_##name,                                             \
        };                                                                     \
        if (a->n < MANY)                                                       \
            few(a, dtype);                                                     \
        else                                                                   \
            cpu_x86_gemm(&kind, a, a->xp, ISA(cpu_x86_q8_size)(a->k));         \
    }

MATMUL(q8_0, CLV_DTYPE_Q8_0)
MATMUL(q4_0, CLV_DTYPE_Q4_0)
MATMUL(i8, CLV_DTYPE_I8)
MATMUL(i4, CLV_DTYPE_I4)

void cpu_kernels_avx512_vnni(cpu_kernels *table)
{
    cpu_prepare q8 = {ISA(cpu_x86_q8_size), ISA(cpu_x86_q8_rows)};

    table->matmul[CLV_DTYPE_Q8_0] = matmul_q8_0;
    table->matmul[CLV_DTYPE_Q4_0] = matmul_q4_0;
    table->prepare[CLV_DTYPE_Q8_0] = q8;
    table->prepare[CLV_DTYPE_Q4_0] = q8;
    table->matmul[CLV_DTYPE_I8] = matmul_i8;
    table->matmul[CLV_DTYPE_I4] = matmul_i4;
    table->prepare[CLV_DTYPE_I8] = q8;
    table->prepare[CLV_DTYPE_I4] =
        (cpu_prepare){ISA(cpu_x86_q8_size), ISA(cpu_x86_q8_pair_rows)};
}
