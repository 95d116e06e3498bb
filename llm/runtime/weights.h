/*
 * Weights of a model: found in its source, checked, and wrapped as tensors. The
 * first failure sticks: later calls answer NULL, and llm_weights_load()
 * returns it.
 */
#pragma once

#include "../models/arch.h"

#define LLM_FORMAT(fmt, args) __attribute__((format(printf, fmt, args)))

/* Everything loaded, for as long as the model lives. */
typedef struct llm_weight_list {
    llm_weight **items;
    uint32_t n, capacity;
    uint64_t n_params, size;            /* elements and bytes of all */
    uint64_t by_dtype[CLV_DTYPE_COUNT]; /* elements of matrices */
} llm_weight_list;

/* Has arch load its weights. On failure list holds what must be destroyed. */
clv_status llm_weights_load(clv_context *ctx, llm_source *source,
                            const llm_arch *arch, llm_weights *weights,
                            llm_weight_list *list);
void llm_weights_finish(llm_weight_list *list);

/* A weight [out, in] as the source has it. */
const llm_weight *llm_load_matrix(llm_loader *l, int64_t out, int64_t in,
                                  const char *fmt, ...) LLM_FORMAT(4, 5);
/* NULL if the source has none. */
const llm_weight *llm_load_optional_matrix(llm_loader *l, int64_t out,
                                           int64_t in, const char *fmt, ...)
    LLM_FORMAT(4, 5);
/* Matrices of experts [n, out, in]. */
const llm_weight *llm_load_experts(llm_loader *l, int64_t n, int64_t out,
                                   int64_t in, const char *fmt, ...)
    LLM_FORMAT(5, 6);
/* Norms and biases [n]: converted to f32. */
const llm_weight *llm_load_vector(llm_loader *l, int64_t n, const char *fmt,
                                  ...) LLM_FORMAT(3, 4);
const llm_weight *llm_load_optional_vector(llm_loader *l, int64_t n,
                                           const char *fmt, ...)
    LLM_FORMAT(3, 4);
/* Rotary frequencies [rope_dim / 2], from the settings and the source. */
const llm_weight *llm_load_rope(llm_loader *l);
