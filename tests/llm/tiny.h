/*
 * A tiny Llama with random weights in memory, and a naive forward pass: in
 * double, token by token, without a cache.
 */
#pragma once

#include "sources/source.h"

typedef struct tiny_params {
    uint32_t n_layers, n_embd, n_ff, n_vocab, n_heads, n_kv_heads, head_dim;
    uint32_t window, rope_dim, rope_mode;
    uint32_t n_experts, n_experts_used; /* 0: dense */
    bool tied, biases, divisors;
    uint32_t dtype; /* of matrices; vectors too if it is a float type */
    uint32_t quant; /* clv_quant of I8 and I4, per tensor or per channel */
    uint64_t seed;
} tiny_params;

/* 2 layers, 4 heads over 2, everything else plain. */
tiny_params tiny_defaults(void);
llm_source *tiny_create(const tiny_params *params);
/* Removes a tensor, or gives it another shape. */
void tiny_remove(llm_source *source, const char *name);
void tiny_reshape(llm_source *source, const char *name, uint32_t rank,
                  int64_t first, int64_t second);
/* Removes one of its scales. */
void tiny_spoil_scales(llm_source *source, const char *name);
/* logits: [n, n_vocab] */
void tiny_forward(llm_source *source, const int32_t *ids, uint32_t n,
                  double *logits);
/* How far off results may be: mean squares of the differences, relative to
 * those of the results, as in clv_error_class. */
typedef struct tiny_errors {
    double ops[CLV_OP_COUNT]; /* of results of each op */
    double cache;             /* of k and v as the cache holds them */
} tiny_errors;
/* As tiny_forward(), with noise of this size on every row of every result. A
 * seed has its own noise. */
void tiny_forward_disturbed(llm_source *source, const int32_t *ids, uint32_t n,
                            const tiny_errors *errors, uint64_t seed,
                            double *logits);
/* Root of mean squared difference, relative to the reference's. */
double tiny_error(const float *x, const double *ref, uint64_t n);
/* n ids, different for every seed. */
void tiny_ids(const llm_source *source, uint64_t seed, int32_t *ids,
              uint32_t n);
