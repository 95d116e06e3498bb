/*
 * The CPU plugin's kernels: one table of function pointers, filled from the
 * scalar reference and overridden upward by instruction set (see dispatch.c).
 *
 * Kernels get everything as arguments: no state, no allocation, no threads.
 * The caller divides work by handing each thread a range. Rows are contiguous;
 * x_stride and the like count elements between rows. f16 is uint16_t bits.
 */
#pragma once

#include <cleave/plugin.h>

#include <stddef.h>
#include <stdint.h>

/* Bytes of per-thread memory every kernel may use through its scratch pointer,
 * 64-byte aligned. */
#define CPU_SCRATCH_SIZE (512 * 1024)

/* Blocks of CLV_DTYPE_Q8_0 and CLV_DTYPE_Q4_0, as plugin.h defines them. */
#define CPU_QK 32
typedef struct cpu_block_q8_0 {
    uint16_t d; /* f16 */
    int8_t q[CPU_QK];
} cpu_block_q8_0;
typedef struct cpu_block_q4_0 {
    uint16_t d; /* f16 */
    uint8_t q[CPU_QK / 2];
} cpu_block_q4_0;

/*
 * y[i, o] = dot(x[i, :], w[o, :]) + bias[o]  for i < n, o_begin <= o < o_end
 *
 * o_begin is a multiple of 16, and so is o_end unless it is w's last row.
 *
 * Where the table has a prepare function for w's dtype, xp holds the prepared
 * rows of x (prepared once for all threads), and x is not read.
 *
 * I8 and I4 have their scales beside them: element (o, i) of w is multiplied by
 * scales[o * scale_stride + i / group].
 */
typedef struct cpu_matmul_args {
    const float *x;    /* [n, k] */
    const void *xp;    /* [n] rows of prepared_size(k) bytes, or NULL */
    const void *w;     /* [o, k] in the weight dtype */
    const float *bias; /* [o], or NULL */
    float *y;          /* [n, o] */
    int64_t n, k;      /* k: whole blocks of the weight dtype */
    int64_t o_begin, o_end;
    int64_t x_stride, y_stride;  /* elements */
    int64_t w_stride;            /* bytes */
    const float *scales;         /* I8, I4 */
    int64_t scale_stride, group; /* elements; group: k where a row has one */
    void *scratch;               /* CPU_SCRATCH_SIZE */
} cpu_matmul_args;
typedef void (*cpu_matmul_fn)(const cpu_matmul_args *args);

/* Whether rows of k elements in groups fit blocks of CPU_QK. */
static inline int cpu_in_blocks(int64_t k, int64_t group)
{
    return k % CPU_QK == 0 && group % CPU_QK == 0;
}

/* The scale of element i of row o. */
static inline float cpu_scale(const cpu_matmul_args *a, int64_t o, int64_t i)
{
    const float *row = a->scales + o * a->scale_stride;
    return a->group == a->k ? row[0] : row[(uint32_t)i / (uint32_t)a->group];
}

/* Turns rows of x into the form the matmul of a weight dtype wants. */
typedef struct cpu_prepare {
    size_t (*row_size)(int64_t k); /* bytes, a multiple of 64 */
    void (*rows)(const float *x, int64_t x_stride, int64_t n, int64_t k,
                 void *out);
} cpu_prepare;

/*
 * Fused attention over heads h_begin..h_end and queries q_begin..q_end; never
 * holds more scores than fit the scratch (online softmax). See
 * CLV_OP_ATTENTION.
 */
#define CPU_MAX_HEAD_DIM 1024
typedef struct cpu_attention_args {
    const float *q;     /* [n, heads * head_dim] */
    const void *k, *v;  /* [rows, kv_heads * head_dim], f32 or f16 */
    const int32_t *pos; /* [n] */
    float *y;           /* [n, heads * head_dim] */
    int64_t q_begin, q_end, h_begin, h_end;
    int64_t rows, heads, kv_heads, head_dim;
    int64_t q_stride, kv_stride, y_stride; /* elements */
    float scale, softcap;
    int64_t window; /* 0: all */
    void *scratch;  /* CPU_SCRATCH_SIZE */
} cpu_attention_args;
typedef void (*cpu_attention_fn)(const cpu_attention_args *args);

/* One head row set of CLV_OP_ROPE: rotates `heads` heads of one row. sin_cos:
 * n_rot/2 pairs (sin, cos), already scaled; y may be x. */
typedef void (*cpu_rope_fn)(const float *x, const float *sin_cos, float *y,
                            int64_t heads, int64_t head_dim, int64_t n_rot,
                            uint32_t mode);

typedef struct cpu_kernels {
    /* By weight dtype; NULL where unsupported. I8 and I4: in rows and groups of
     * whole CPU_QK, see cpu_in_blocks(). */
    cpu_matmul_fn matmul[CLV_DTYPE_COUNT];
    cpu_prepare prepare[CLV_DTYPE_COUNT];
    /* I8 and I4 in any rows and groups; nothing is prepared. */
    cpu_matmul_fn matmul_odd[CLV_DTYPE_COUNT];
    /* Conversion of n elements (whole blocks) from and to f32. I8 and I4 only
     * to f32, without their scales. */
    void (*to_f32[CLV_DTYPE_COUNT])(const void *src, float *dst, int64_t n);
    void (*from_f32[CLV_DTYPE_COUNT])(const float *src, void *dst, int64_t n);
    /* Elementwise over n values; y may be x, a or b. */
    void (*add)(const float *a, const float *b, float *y, int64_t n);
    void (*mul)(const float *a, const float *b, float *y, int64_t n);
    void (*silu)(const float *x, float *y, int64_t n);
    void (*gelu)(const float *x, float *y, int64_t n);
    void (*glu_silu)(const float *gate, const float *up, float *y, int64_t n);
    void (*glu_gelu)(const float *gate, const float *up, float *y, int64_t n);
    /* One row of c values; y may be x. bias may be NULL. */
    void (*rms_norm)(const float *x, const float *weight, float *y, int64_t c,
                     float eps);
    void (*layer_norm)(const float *x, const float *weight, const float *bias,
                       float *y, int64_t c, float eps);
    void (*softmax)(const float *x, float *y, int64_t c);
    cpu_rope_fn rope;
    /* By dtype of k and v: F32 and F16. */
    cpu_attention_fn attention[CLV_DTYPE_COUNT];
} cpu_kernels;

/* Each fills what it has and leaves the rest. The caller checks the CPU. */
void cpu_kernels_ref(cpu_kernels *table);
void cpu_kernels_avx2(cpu_kernels *table);        /* AVX2, FMA, F16C */
void cpu_kernels_avx512(cpu_kernels *table);      /* AVX-512 F, BW, DQ, VL */
void cpu_kernels_avx512_vnni(cpu_kernels *table); /* the above and VNNI */
