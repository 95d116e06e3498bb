/*
 * The CPU plugin's kernels: one table of function pointers for each instruction
 * set. The scalar reference fills it first; an instruction set replaces what it
 * has (see dispatch.c).
 *
 * Files of kernels are named by what they hold:
 *   <format>.c        the kernels of a weight format: q4_0.c. A new format
 * needs none: the reference computes with its row in cleave/plugin_format.h. An
 * instruction set gains speed by a file of its own, which fills a cpu_format.
 *   <op>[_<shape>][_<operands>].h
 *                     parts of these that formats share. shape: gemv for few
 *                     rows of x, where weights are read once as they are
 *                     stored; gemm for many, where weights are repacked into
 *                     panels; strips for some, where 16 rows of weights are
 *                     turned at a time; none for all. operands: the arithmetic,
 *                     u8s8 for unsigned weights times signed x of 8 bits.
 *                     tiles: for many, where processors have tiles.
 *   <op>.c            the other ops: attention.c, elementwise.c
 *
 * Kernels get everything as arguments: no state, no allocation, no threads.
 * The caller divides work by handing each thread a range. Rows are contiguous;
 * x_stride and the like count elements between rows. f16 is uint16_t bits.
 */
#pragma once

#include <cleave/plugin_format.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of per-thread memory every kernel may use through its scratch pointer,
 * 64-byte aligned. */
#define CPU_SCRATCH_SIZE (512 * 1024)

/* Elements of a row of x with a scale of their own once the row is prepared.
 * Kernels of blocks, and of integers with scales beside them, read weights in
 * such steps. */
#define CPU_BLOCK 32

/* Bytes up to the next cache line. */
static inline uint64_t cpu_round_up(uint64_t size)
{
    return (size + 63) / 64 * 64;
}

/*
 * y[i, o] = dot(x[i, :], w[o, :]) + bias[o]  for i < n, o_begin <= o < o_end
 *
 * o_begin is a multiple of 16, and so is o_end unless it is w's last row.
 *
 * Where the format has a prepare function, xp holds the prepared rows of x
 * (prepared once for all threads), and x is not read.
 *
 * I8 and I4 have their scales beside them: element (o, i) of w is multiplied by
 * scales[o * scale_stride + i / group].
 */
typedef struct cpu_matmul_args {
    uint32_t dtype;    /* of w */
    const float *x;    /* [n, k] */
    const void *xp;    /* [n] rows of row_size(k) bytes, or NULL */
    int64_t xp_row;    /* the prepared row that xp is */
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

/* The scale of element i of row o. */
static inline float cpu_scale(const cpu_matmul_args *a, int64_t o, int64_t i)
{
    const float *row = a->scales + o * a->scale_stride;
    return a->group == a->k ? row[0] : row[(uint32_t)i / (uint32_t)a->group];
}

/* Rows of x that are prepared at once, at most. */
#define CPU_PREPARE_ROWS 16

typedef struct cpu_prepare_args {
    const float *const *x; /* [n] rows of k elements */
    int64_t n, k;
    int64_t begin, end; /* of their elements: whole CPU_BLOCK, or all */
    float scale; /* all of x is whole numbers in -127..127 times it; 0: any */
    void *out;   /* of the first row; rows that lie together begin a group */
} cpu_prepare_args;

/* Converts rows of x to the form that the matmul of a format reads. */
typedef struct cpu_prepare {
    size_t (*row_size)(int64_t k); /* bytes, a multiple of 64 */
    void (*rows)(const cpu_prepare_args *args);
    bool exact; /* the matmul's products of integers are those of the numbers */
    /* Groups of CPU_PREPARE_ROWS rows share their memory, row_size(k) bytes for
     * each, and some of their elements may be prepared without the others. */
    bool together;
} cpu_prepare;

typedef struct cpu_product {
    cpu_matmul_fn matmul;
    cpu_prepare prepare; /* rows NULL: x is read as it is */
} cpu_product;

/* The kernels of one weight format. */
typedef struct cpu_format {
    /* GEMV and GEMM: chooses by n. Of I8 and I4 it takes rows and groups of
     * whole CPU_BLOCK only; cpu_kernels.matmul_any takes all. */
    cpu_product product;
    /* The same, for many_from rows of x or more; 0: there is none. It has
     * rounding of its own, also of x that is whole numbers. */
    cpu_product many;
    int64_t many_from;
    /* Conversion of n elements (whole blocks), as plugin_format.h defines it:
     * I8 and I4 without their scales. NULL: a format that is not written. */
    void (*to_f32)(const void *src, float *dst, int64_t n);
    void (*from_f32)(const float *src, void *dst, int64_t n);
} cpu_format;

/*
 * Fused attention over heads h_begin..h_end and queries q_begin..q_end; never
 * holds more scores than fit the scratch (online softmax). See
 * CLV_OP_ATTENTION.
 */
#define CPU_MAX_HEAD_DIM 1024
typedef struct cpu_attention_args {
    const float *q;       /* [n, heads * head_dim] */
    const void *k, *v;    /* [rows, kv_heads * head_dim] */
    const int32_t *pos;   /* [n] */
    const int32_t *first; /* [n] or NULL */
    float *y;             /* [n, heads * head_dim] */
    int64_t q_begin, q_end, h_begin, h_end;
    int64_t rows, heads, kv_heads, head_dim;
    int64_t q_stride, y_stride; /* elements */
    int64_t kv_stride;          /* bytes */
    float scale, softcap;
    int64_t window; /* 0: all */
    void *scratch;  /* CPU_SCRATCH_SIZE */
} cpu_attention_args;
typedef void (*cpu_attention_fn)(const cpu_attention_args *args);

/* CLV_OP_ROPE of one row: rotates `heads` heads. sin_cos: n_rot/2 pairs (sin,
 * cos), already scaled; y may be x. */
typedef void (*cpu_rope_fn)(const float *x, const float *sin_cos, float *y,
                            int64_t heads, int64_t head_dim, int64_t n_rot,
                            uint32_t mode);

typedef struct cpu_kernels {
    /* By weight dtype; empty for I32. */
    cpu_format formats[CLV_DTYPE_COUNT];
    /* Any format in any rows and groups; x is read as it is. */
    cpu_matmul_fn matmul_any;
    /* Elementwise over n values; y may be x, a or b. */
    void (*add)(const float *a, const float *b, float *y, int64_t n);
    void (*mul)(const float *a, const float *b, float *y, int64_t n);
    void (*silu)(const float *x, float *y, int64_t n, float unused);
    void (*gelu)(const float *x, float *y, int64_t n, float unused);
    void (*sigmoid)(const float *x, float *y, int64_t n, float unused);
    void (*scale)(const float *x, float *y, int64_t n, float factor);
    void (*softcap)(const float *x, float *y, int64_t n, float cap);
    void (*round)(const float *x, float *y, int64_t n, float scale);
    void (*excess)(const float *x, float *y, int64_t n, float limit);
    void (*glu_silu)(const float *gate, const float *up, float *y, int64_t n);
    void (*glu_gelu)(const float *gate, const float *up, float *y, int64_t n);
    /* One row of c values; y may be x. bias may be NULL. */
    void (*rms_norm)(const float *x, const float *weight, float *y, int64_t c,
                     float eps);
    void (*layer_norm)(const float *x, const float *weight, const float *bias,
                       float *y, int64_t c, float eps);
    void (*softmax)(const float *x, float *y, int64_t c);
    void (*sparse_mixer)(const float *x, float *y, int64_t c, float jitter);
    cpu_rope_fn rope;
    /* By dtype of k and v: F32 and F16. */
    cpu_attention_fn attention[CLV_DTYPE_COUNT];
} cpu_kernels;

/* Each fills what it has and leaves the rest. The caller checks the CPU. */
void cpu_kernels_ref(cpu_kernels *table);
void cpu_kernels_avx2(cpu_kernels *table);        /* AVX2, FMA, F16C */
void cpu_kernels_avx512(cpu_kernels *table);      /* AVX-512 F, BW, DQ, VL */
void cpu_kernels_avx512_vnni(cpu_kernels *table); /* the above and VNNI */
void cpu_kernels_amx(cpu_kernels *table);         /* AMX tiles of BF16 */
/* Those of AMX with tiles in C, for tests where processors have none. In builds
 * with CPU_TILES_EMULATED they stand for the level. */
void cpu_kernels_amx_emulated(cpu_kernels *table);
