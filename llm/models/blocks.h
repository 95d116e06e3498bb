/* Parts that the graphs of several architectures are made of. */
#pragma once

#include "arch.h"

/* x * weight + bias. */
clv_value llm_linear_of(llm_graph *g, clv_value x, const llm_linear *w);
/* The architecture's kind of norm. */
clv_value llm_norm(llm_graph *g, clv_value x, const llm_linear *w);

/* The embeddings of the input ids: how every graph begins. */
clv_value llm_embed(llm_graph *g);
/* Attention of a layer, up to its output matrix. x: its normalised input. q and
 * k are normalised head by head where the layer has weights for that. */
clv_value llm_attention(llm_graph *g, uint32_t layer, clv_value x);
/* The feed-forward part of a layer: gate, up and down, by experts where the
 * layer has some. */
clv_value llm_feed_forward(llm_graph *g, uint32_t layer, clv_value x);
/* After the last attention rows no longer mix: leaves those in n values whose
 * logits are wanted. In other layers it does nothing. */
void llm_select_rows(llm_graph *g, uint32_t layer, clv_value *const *values,
                     uint32_t n);

/* All layers of models in which attention and feed-forward follow one another,
 * each with a norm in front and a residual around it, and a norm of its result
 * where the layer has weights for one. */
clv_value llm_layers(llm_graph *g, clv_value x);
/* The output norm and the logits. */
clv_value llm_logits(llm_graph *g, clv_value x);
/* llm_embed(), llm_layers() and llm_logits(). */
clv_value llm_plain_model(llm_graph *g);
/* The same with embeddings times the square root of their width. */
clv_value llm_scaled_model(llm_graph *g);

/* Names in config.json, for llm_arch.activations. */
extern const char *const llm_names_of_silu[], *const llm_names_of_gelu[];
/* A derivation for Qwen's settings of the window: layers from window_first on
 * have it, if window_used says so. */
void llm_derive_late_window(llm_hparams *h);
