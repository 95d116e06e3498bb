/* Parts that the graphs of several architectures are made of. */
#pragma once

#include "arch.h"

/* x * weight + bias. */
clv_value llm_linear_of(llm_graph *g, clv_value x, const llm_linear *w);
clv_value llm_rms_norm(llm_graph *g, clv_value x, const llm_linear *w);

/* The embeddings of the input ids: how every graph begins. */
clv_value llm_embed(llm_graph *g);
/* Attention of a layer, up to its output matrix. x: its normalised input. */
clv_value llm_attention(llm_graph *g, uint32_t layer, clv_value x);
/* The feed-forward part of a layer, by its experts where it has some. act:
 * clv_act. */
clv_value llm_feed_forward(llm_graph *g, uint32_t layer, clv_value x,
                           uint32_t act);
/* After the last attention rows no longer mix: leaves those in *x and *y whose
 * logits are wanted. In other layers it does nothing. */
void llm_select_rows(llm_graph *g, uint32_t layer, clv_value *x, clv_value *y);
/* x: normalised. */
clv_value llm_logits(llm_graph *g, clv_value x);

/* The whole graph of models whose layers are attention and feed-forward one
 * after the other, each with an RMS norm in front and a residual around it. */
clv_value llm_pre_norm_model(llm_graph *g, uint32_t act);
