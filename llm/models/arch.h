/*
 * Architectures. Each has one file in this folder and one row in arch.c. Its
 * llm_arch names everything that depends on the architecture: names and shapes
 * of the weights, keys of the settings, classes of Hugging Face, and the graph.
 * Sources, the converter and made-up models read it and know no architecture.
 */
#pragma once

#include "rope.h"

/* ------------------------------------------------------------------------ */
/* Weights                                                                  */

/* What a weight is used for. Those from LLM_LAYER_ROLES on are in each layer.
 */
typedef enum llm_role {
    LLM_TOKEN_EMBD,
    LLM_OUTPUT_NORM,
    LLM_OUTPUT,
    LLM_LAYER_ROLES,
    LLM_ATTN_NORM = LLM_LAYER_ROLES,
    LLM_ATTN_QKV, /* in files only: q, k and v one after the other */
    LLM_ATTN_Q,
    LLM_ATTN_K,
    LLM_ATTN_V,
    LLM_ATTN_Q_NORM, /* of each head */
    LLM_ATTN_K_NORM,
    LLM_ATTN_OUTPUT,
    LLM_ATTN_POST_NORM, /* of what a part of the layer gives, */
    LLM_FFN_NORM,
    LLM_FFN_POST_NORM, /* before it is added */
    LLM_FFN_GATE_UP,   /* in files only: gate and up one after the other */
    LLM_FFN_GATE,      /* of all experts, where there are some */
    LLM_FFN_UP,
    LLM_FFN_DOWN,
    LLM_FFN_ROUTER,
    LLM_SHARED_GATE, /* of the expert that all tokens use */
    LLM_SHARED_UP,
    LLM_SHARED_DOWN,
    LLM_SHARED_ROUTER,
    LLM_ROLE_COUNT,
} llm_role;

/* Dimensions of weights in terms of the settings. */
typedef enum llm_width {
    LLM_NONE, /* of a vector's second dimension */
    LLM_EMBD,
    LLM_FF,
    LLM_VOCAB,
    LLM_Q,   /* n_heads * head_dim */
    LLM_KV,  /* n_kv_heads * head_dim */
    LLM_QKV, /* LLM_Q and twice LLM_KV */
    LLM_HEAD,
    LLM_EXPERTS,
    LLM_FF_2, /* twice LLM_FF */
    LLM_FF_EXPERT,
    LLM_FF_SHARED,
} llm_width;

enum {
    LLM_BIAS = 1u << 0,        /* has a bias [out] */
    LLM_ATTN_BIAS = 1u << 1,   /* has one if llm_hparams.attn_bias says so */
    LLM_MLP_BIAS = 1u << 2,    /* the same by mlp_bias, */
    LLM_OUTPUT_BIAS = 1u << 3, /* by output_bias */
    LLM_TIED = 1u << 4,        /* absent where the embedding stands in for it */
    LLM_ROTARY = 1u << 5,      /* rows are rotated in pairs, head by head */
    LLM_DENSE = 1u << 6,       /* only in layers without experts */
    LLM_SPARSE = 1u << 7,      /* only in layers with experts */
    LLM_PLUS_1 = 1u << 8,      /* Hugging Face files hold it less 1 */
    LLM_GROUPED = 1u << 9, /* Hugging Face files have one tensor of q, k and v:
                              for each head of k and v those of q, then k, v */
    LLM_OLD = 1u << 10,    /* only in old files, in place of later rows */
    LLM_ONE = 1u << 11,    /* graphs have a first dimension of 1 in front */
};

/* A weight of an architecture. Files append ".weight" or ".bias" to the names,
 * and put "blk.N." or "model.layers.N." in front of those of layer N. */
typedef struct llm_tensor_row {
    uint8_t role;          /* llm_role */
    uint8_t out, in;       /* llm_width */
    uint16_t flags;        /* LLM_BIAS and so on */
    const char *gguf, *hf; /* '#' in hf: one tensor [out, in] for each expert,
                              in GGUF one [n_experts, out, in]; NULL: none */
} llm_tensor_row;

enum { LLM_TENSOR_NAME = 128 };

/* One tensor of a model. */
typedef struct llm_tensor {
    const llm_tensor_row *row;
    uint32_t layer; /* of a layer's role */
    bool bias;
    bool optional;
    char gguf[LLM_TENSOR_NAME]; /* "blk.0.attn_q.weight" */
    char hf[LLM_TENSOR_NAME];   /* "model.layers.0.self_attn.q_proj.weight" */
    uint32_t rank;
    int64_t dims[3];    /* [out, in] or [n]; [experts, out, in] */
    uint32_t n_parts;   /* tensors in Hugging Face files */
    uint32_t at, block; /* where llm_tensor_next() goes on */
} llm_tensor;

/* The next tensor that a model of these settings can have; *tensor starts as
 * zeros. False after the last. */
bool llm_tensor_next(const llm_hparams *h, llm_tensor *tensor);
/* The name of a part in Hugging Face files. */
void llm_tensor_part(const llm_tensor *tensor, uint32_t part,
                     char name[LLM_TENSOR_NAME]);

/* A weight of a model. The model owns it and its tensor. */
typedef struct llm_weight llm_weight;
struct llm_weight {
    char name[LLM_TENSOR_NAME];
    clv_tensor *tensor;
    clv_tensor *scales; /* of the tensor, or NULL */
    float input_scale;  /* by which its other factor is rounded; 0: it is not */
    /* [in, out, 1]: what is left of the other factor is multiplied with; NULL:
     * that is cut off. */
    const llm_weight *outliers;
    uint32_t outlier_bound; /* channels of a row in which something is left */
};

/* A matrix or a norm, and what is added after it. Absent ones are NULL. */
typedef struct llm_linear {
    const llm_weight *weight, *bias;
} llm_linear;

typedef struct llm_weights {
    llm_linear model[LLM_ROLE_COUNT];
    llm_linear (*layers)[LLM_ROLE_COUNT];   /* [n_layers], owned by the model */
    bool outliers;                          /* some weight has them */
    const llm_weight *rope[LLM_ROPE_LISTS]; /* [rope_dim / 2] for CLV_OP_ROPE;
                                               NULL: there is none */
} llm_weights;

/* ------------------------------------------------------------------------ */
/* Graphs                                                                   */

/* A graph being built. blocks.h has the parts it is made of. */
typedef struct llm_graph {
    clv_graph *graph;
    const llm_hparams *hp;
    const llm_weights *weights;
    clv_dim rows;  /* symbol: cache rows in use */
    clv_dim seen;  /* and those of the longest sequence, if there are some */
    bool apart;    /* each token is of another sequence */
    clv_value ids; /* i32 [n] */
    clv_value pos; /* i32 [n] */
    clv_value cache_rows; /* i32 [n], of the new tokens; may be pos */
    clv_value first;      /* i32 [n], of their sequences; CLV_NO_TENSOR: one */
    clv_value out_ids; /* i32 [m]: rows whose logits are wanted; CLV_NO_TENSOR:
                          all */
    clv_value *k, *v;  /* [n_layers] of [n_ctx, n_kv_heads * head_dim] */
    clv_value rope_main; /* input: frequencies that change with the length of
                            the context; CLV_NO_TENSOR: they do not */
    clv_value embd, rope[2]; /* set by llm_embed(): MAIN and LOCAL */
    clv_value *chosen; /* [n_layers] outputs: ids of experts; CLV_NO_TENSOR for
                          layers without; NULL: not wanted */
    clv_value ones;    /* input [n, 1]; CLV_NO_TENSOR: no weight has outliers */
    /* The latest value that was rounded for a product: q, k and v share one;
     * then what was left of it, and in which channels. */
    clv_value unrounded, rounded;
    float rounded_by;
    clv_value cut, left, channels; /* cut: of what */
    uint32_t bound;
    /* Told what a weight is multiplied with, answers what to take for it; may
     * be NULL. */
    clv_value (*observe)(void *ctx, clv_value x, const llm_weight *w);
    void *observe_ctx;
} llm_graph;

/* ------------------------------------------------------------------------ */
/* Architectures                                                            */

/* A class of Hugging Face models that the architecture computes. */
typedef struct llm_class {
    const char *name;     /* "MistralForCausalLM" */
    uint32_t settings;    /* LLM_SETTING_WINDOW, _EXPERTS, _LAYERS: those it
                             has */
    llm_hparams defaults; /* of keys that config.json may leave out */
    bool tied;            /* of tie_word_embeddings */
} llm_class;

/* A published model, whose shape made-up models can have. */
typedef struct llm_published {
    const char *name;    /* "llama3-8b" */
    bool tied;           /* token_embd is the output matrix too */
    llm_hparams hparams; /* what they leave 0 is as in files without the key */
} llm_published;

/* Lists end with a row of zeros. */
struct llm_arch {
    const char *name; /* GGUF's, in front of its keys too: "llama" */
    const llm_tensor_row *tensors;
    const llm_setting *settings; /* beside those of all architectures */
    const llm_class *classes;
    llm_hparams defaults;           /* of keys that GGUF files may leave out */
    const char *activation_key;     /* in config.json; NULL: hidden_act */
    const char *const *activations; /* its values */
    uint32_t activation;            /* clv_activation: what they mean */
    bool layer_norm;                /* norms are LAYER_NORM, else RMS_NORM */
    bool sparse_mixer; /* scores of experts are by SPARSE_MIXER, else SOFTMAX */
    bool long_rope;    /* config.json's "yarn" and "su" mean "longrope" */
    bool partial_rope; /* heads may be rotated in part */
    bool short_rope;   /* of LLM_ROPE_LONG only contexts up to the original one:
                          for longer ones there are two published ways */
    /* Sets what only this architecture derives from its settings; NULL:
     * nothing. */
    void (*derive)(llm_hparams *h);
    uint32_t gguf_rope; /* clv_rope_mode of q and k in GGUF files; in Hugging
                           Face files they are CLV_ROPE_HALVES */
    const llm_published *published;
    /* Adds the ops and returns the logits [m, n_vocab]. Errors stick to the
     * graph. */
    clv_value (*build)(llm_graph *g);
};

/* By GGUF's name. CLV_ERR_UNSUPPORTED, with those there are, for an unknown
 * one; where begins the message. */
clv_status llm_arch_find(const char *name, const char *where,
                         const llm_arch **out);
/* By the class, which is set too. */
clv_status llm_arch_find_class(const char *name, const char *where,
                               const llm_arch **out, const llm_class **class);
/* NULL after the last. */
const llm_arch *llm_arch_at(uint32_t i);
/* Whether files have a tensor of that name, in either form, and no model needs
 * it: what it holds is computed. */
bool llm_arch_ignores(const char *name);
