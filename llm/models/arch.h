/*
 * Architectures: what weights a model has and what graph computes its logits.
 * Each has a file of its own in models/ and a line in arch.c.
 *
 * load() runs once a model and fills llm_weights; build() runs once a plan
 * variant and adds the ops. Both report through a sticky first error, so that
 * they read as a plain list of weights and ops.
 */
#pragma once

#include "../sources/source.h"

/* A weight of a model. The model owns it and its tensor. */
typedef struct llm_weight {
    char name[64];
    clv_tensor *tensor;
    clv_tensor *scales; /* of the tensor, or NULL */
} llm_weight;

/* Weights of a layer, shapes [out, in]. Optional ones are NULL if absent. */
typedef struct llm_layer {
    const llm_weight *attn_norm;  /* [n_embd] */
    const llm_weight *q, *q_bias; /* [n_heads * head_dim, n_embd] */
    const llm_weight *k, *k_bias; /* [n_kv_heads * head_dim, n_embd] */
    const llm_weight *v, *v_bias;
    const llm_weight *o, *o_bias;       /* [n_embd, n_heads * head_dim] */
    const llm_weight *ffn_norm;         /* [n_embd] */
    const llm_weight *gate, *gate_bias; /* [n_ff, n_embd] */
    const llm_weight *up, *up_bias;
    const llm_weight *down, *down_bias; /* [n_embd, n_ff] */
    /* With experts in their place: which of them, and [n_experts, out, in]. */
    const llm_weight *router; /* [n_experts, n_embd] */
    const llm_weight *gate_exps, *up_exps, *down_exps;
} llm_layer;

typedef struct llm_weights {
    const llm_weight *token_embd;  /* [n_vocab, n_embd] */
    const llm_weight *output_norm; /* [n_embd] */
    const llm_weight *output;      /* [n_vocab, n_embd]; may be token_embd */
    const llm_weight *rope_freqs;  /* [rope_dim / 2], for CLV_OP_ROPE */
    llm_layer *layers;             /* [n_layers], owned by the model */
} llm_weights;

/* Takes weights out of a source; see weights.h. */
typedef struct llm_loader llm_loader;

/* A graph being built. The values are there before build() is called. */
typedef struct llm_graph {
    clv_graph *graph;
    clv_dim rows;      /* symbol: cache rows in use */
    clv_value ids;     /* i32 [n] */
    clv_value pos;     /* i32 [n], also the cache rows of the new tokens */
    clv_value out_ids; /* i32 [m]: rows whose logits are wanted; CLV_NO_TENSOR:
                          all */
    clv_value *k, *v;  /* [n_layers] of [n_ctx, n_kv_heads * head_dim] */
} llm_graph;

typedef struct llm_arch {
    const char *name;
    void (*load)(llm_loader *loader, const llm_hparams *hp,
                 llm_weights *weights);
    /* Returns the logits [m, n_vocab]. */
    clv_value (*build)(llm_graph *g, const llm_hparams *hp,
                       const llm_weights *weights);
} llm_arch;

/* NULL for an unknown name. */
const llm_arch *llm_arch_find(const char *name);
/* CLV_ERR_UNSUPPORTED, naming those there are. */
clv_status llm_arch_unknown(const char *name);

/* w in the graph; CLV_NO_TENSOR for NULL. */
clv_value llm_graph_use(llm_graph *g, const llm_weight *w);
/* x * w + bias. bias may be NULL. */
clv_value llm_graph_linear(llm_graph *g, clv_value x, const llm_weight *w,
                           const llm_weight *bias);

extern const llm_arch llm_arch_llama;
