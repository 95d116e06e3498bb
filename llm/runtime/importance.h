/*
 * How much it matters that the factors of some weights are rounded: the
 * divergence of the model's predictions from those without rounding.
 */
#pragma once

#include "runner.h"

/* Of the products that the graph has in this order, those whose layer it is. */
struct llm_rounding {
    const uint64_t *layers; /* [products] */
    uint64_t layer;
    float scale;
    clv_tensor *inverse, *divisors; /* of the columns; NULL: not divided */
};

/* A text for it, and what the model predicts. */
typedef struct llm_sample {
    clv_model *model;
    const llm_kv_cache *cache;
    uint32_t window; /* tokens of a run */
    uint64_t n;      /* runs */
    int32_t *ids;    /* [n, window] */
    float *logits;   /* [n, window, n_vocab] */
} llm_sample;

/* The mean divergence, in nats a token. divisors: [columns], or NULL. */
clv_status llm_importance_of(const llm_sample *sample, const uint64_t *layers,
                             uint64_t layer, float scale, const float *divisors,
                             uint64_t columns, double *out);
