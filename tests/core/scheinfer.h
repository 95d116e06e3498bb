/*
 * ScheInfer's formulas (section IV of the paper), written to be read: the
 * oracle of what the planner finds on two devices and a link. Times are
 * seconds, as in the paper's Table I.
 *
 * An MLP is n_l products of T tokens with weights of M x H. Of each weight the
 * CPU holds and multiplies r_cc, the GPU holds and multiplies r_gg, and r_cg
 * comes to the GPU through the link. r_cc + r_cg + r_gg = 1.
 */
#pragma once

#include <stdint.h>

/* t = alpha + n * beta (eq. 3) */
typedef struct scheinfer_line {
    double alpha, beta;
} scheinfer_line;

typedef enum scheinfer_format {
    SCHEINFER_FP16,
    SCHEINFER_INT4,
    SCHEINFER_FORMATS,
} scheinfer_format;

#define SCHEINFER_TESTBEDS 3

/* Table I. beta of products: s for a multiplication and addition. That of the
 * link is for half a byte, an element of INT4: taken for a byte, testbed C's
 * PCIe 3.0 x16 would move 24 GB/s, which is more than its 15.8. */
typedef struct scheinfer_testbed {
    const char *name;
    scheinfer_line gpu[SCHEINFER_FORMATS], cpu[SCHEINFER_FORMATS], link;
    double launch;
} scheinfer_testbed;

extern const scheinfer_testbed scheinfer_testbeds[SCHEINFER_TESTBEDS];

typedef struct scheinfer_mlp {
    scheinfer_line gpu, cpu, link; /* link: beta for a byte */
    double launch;
    double n_gemm; /* T * M * H of one product */
    double n_w;    /* bytes of one weight */
    uint32_t n_l;  /* products */
} scheinfer_mlp;

scheinfer_mlp scheinfer_mlp_of(const scheinfer_testbed *testbed,
                               scheinfer_format format, double tokens,
                               double m_h, uint32_t n_l);

/* What each stream takes for one product. */
typedef struct scheinfer_times {
    double launch, link, gpu, cpu;
} scheinfer_times;

scheinfer_times scheinfer_times_of(const scheinfer_mlp *mlp, double r_gg,
                                   double r_cg); /* eq. 4 */
/* Until all products are done: by the recurrence (eq. 5), and by the cases that
 * it falls into (eq. 6-12). */
double scheinfer_recurrence(const scheinfer_times *t, uint32_t n_l);
double scheinfer_cases(const scheinfer_times *t, uint32_t n_l);

/* The least time for r_gg, and the r_cg that takes it, if not NULL (eq. 13). */
double scheinfer_best(const scheinfer_mlp *mlp, double r_gg, double *r_cg);

/* The least time of a prompt of `tokens` whose weights are divided already: the
 * GPU computes n_g tokens of the CPU's part too (eq. 15). mlp: of that many
 * tokens. */
double scheinfer_prompt(const scheinfer_mlp *mlp, double tokens, double r_gg,
                        double r_cg, double *n_g);

/* A layer in a memory assignment: times[i] with the part i / n_g of its weights
 * on the GPU, which takes i * unit of its memory. */
typedef struct scheinfer_layer {
    const double *times; /* [n_g + 1] */
    uint64_t unit;
} scheinfer_layer;

/* Which part of each layer (of n_g) the GPU holds, by time saved for a byte,
 * until nothing that helps fits (eq. 14). Returns the time of all layers. */
double scheinfer_greedy(const scheinfer_layer *layers, uint32_t n_layers,
                        uint32_t n_g, uint64_t memory, uint32_t *parts);
/* The least time of all divisions that fit, by dynamic programming over whole
 * units of memory. */
double scheinfer_exact(const scheinfer_layer *layers, uint32_t n_layers,
                       uint32_t n_g, uint64_t memory);
