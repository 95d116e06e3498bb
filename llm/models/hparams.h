/*
 * Settings of a model: the values, their keys in the two kinds of files, and
 * the checks that every source makes, wherever the values come from.
 */
#pragma once

#include <cleave/llm.h>

#include <stddef.h>

typedef struct llm_arch llm_arch;

enum {
    LLM_MAX_LAYERS = 1024,
    LLM_MAX_WIDTH = 1 << 20, /* n_embd, n_ff */
    LLM_MAX_HEADS = 4096,
    LLM_MAX_HEAD_DIM = 4096,
    LLM_MAX_VOCAB = 1 << 24,
    LLM_MAX_CTX = 1 << 28,
    LLM_MAX_EXPERTS = 512,
};

typedef enum llm_rope_scaling {
    LLM_ROPE_NONE = 0,
    LLM_ROPE_LINEAR = 1, /* all frequencies divided by factor */
    LLM_ROPE_LLAMA3 = 2, /* by wavelength, between low and high factors */
    LLM_ROPE_YARN = 3,   /* low frequencies divided by factor, high ones not */
    LLM_ROPE_LONG = 4,   /* by two lists of divisors: one for contexts up to the
                            original one, one for longer ones */
    LLM_ROPE_DYNAMIC = 5, /* none up to the trained context; longer ones are not
                             supported */
} llm_rope_scaling;

/* Whether a file has certain tensors. */
typedef enum llm_presence {
    LLM_PERHAPS = 0, /* it says nothing about them */
    LLM_NEVER = 1,
    LLM_ALWAYS = 2,
} llm_presence;

/* What is special about a layer. */
enum {
    LLM_LAYER_FULL = 1u << 0,  /* no window, where other layers have one */
    LLM_LAYER_DENSE = 1u << 1, /* no experts, where other layers have some */
};

/* The first ones stand in the order in which published shapes list them. */
typedef struct llm_hparams {
    uint32_t n_layers, n_embd, n_ff, n_vocab, n_heads, n_kv_heads;
    uint32_t n_ctx_train;
    float norm_eps, rope_base;
    uint32_t head_dim, value_dim;       /* of keys and of values; equal */
    uint32_t n_experts, n_experts_used; /* 0: dense */
    uint32_t n_ff_expert;               /* 0: n_ff */
    uint32_t n_ff_shared;               /* of the expert that all tokens use */
    uint32_t experts_normalised;        /* their scores add up to one */
    uint32_t sparse_step; /* only each so-many-th layer has experts; 0: all */
    float router_jitter;  /* of CLV_OP_SPARSE_MIXER */
    float query_scalar;   /* scores are divided by its root; 0: head_dim */
    float attn_softcap, final_softcap;         /* 0: none */
    uint32_t attn_bias, mlp_bias, output_bias; /* llm_presence */
    uint32_t sliding_window;                   /* 0: none */
    uint32_t window_period;             /* each so-many-th layer is FULL */
    uint32_t window_used, window_first; /* Qwen: windows from a layer on */
    uint8_t layers[LLM_MAX_LAYERS];     /* LLM_LAYER_, by layer */
    uint32_t rope_mode;                 /* clv_rope_mode of q and k */
    uint32_t rope_dim;                  /* channels rotated */
    float rope_share;                   /* the same as a share of a head */
    float rope_local_base;              /* in layers with a window; 0: as all */
    uint32_t rope_scaling;              /* llm_rope_scaling */
    float rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    float rope_beta_fast, rope_beta_slow; /* of YARN: rotations */
    uint32_t rope_unrounded;              /* of YARN: bounds between channels */
    float rope_attn_factor;               /* multiplies q and k; 0: 1 */
    uint32_t rope_original_ctx;
    int32_t bos, eos; /* -1: none; for models without a tokenizer */
    const llm_arch *arch;
    char name[128];
} llm_hparams;

enum {
    LLM_SETTING_FLOAT = 1u << 0,    /* the field is a float, else a uint32_t */
    LLM_SETTING_GGUF = 1u << 1,     /* GGUF files must have it */
    LLM_SETTING_HF = 1u << 2,       /* config.json must have it */
    LLM_SETTING_NULL_0 = 1u << 3,   /* null in config.json stands for 0 */
    LLM_SETTING_WINDOW = 1u << 4,   /* only classes with a sliding window */
    LLM_SETTING_EXPERTS = 1u << 5,  /* only classes with experts */
    LLM_SETTING_REFUSED = 1u << 6,  /* not supported unless absent or false */
    LLM_SETTING_BOOL = 1u << 7,     /* true or false: 1 or 0 */
    LLM_SETTING_PRESENCE = 1u << 8, /* the same: llm_presence */
    LLM_SETTING_LAYERS = 1u << 9,   /* of classes that list types of layers */
    LLM_SETTING_OF_CLASS = LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
};

/* A setting that is one number, or one that is refused. A key that is NULL does
 * not exist. */
typedef struct llm_setting {
    const char *gguf; /* after the architecture's name and a dot */
    const char *hf;   /* in config.json; "a|b": one of these */
    uint32_t offset;  /* of the field in llm_hparams */
    uint32_t flags;   /* LLM_SETTING_ */
    uint32_t least, most;
    const char *what; /* for messages; NULL: any value. Of a refused one: what
                         is not supported, and what to do */
    /* What an absent key stands for; NULL: the field keeps its value. */
    uint32_t (*absent)(const llm_hparams *h);
} llm_setting;

/* Rows that several architectures have. */
#define LLM_SETTING_EPS(gguf_, hf_)                                            \
    {                                                                          \
        .gguf = gguf_, .hf = hf_, .offset = offsetof(llm_hparams, norm_eps),   \
        .flags = LLM_SETTING_FLOAT | LLM_SETTING_GGUF                          \
    }
#define LLM_SETTING_RMS_EPS                                                    \
    LLM_SETTING_EPS("attention.layer_norm_rms_epsilon", "rms_norm_eps")
#define LLM_SETTING_REAL(gguf_, hf_, field)                                    \
    {                                                                          \
        .gguf = gguf_, .hf = hf_, .offset = offsetof(llm_hparams, field),      \
        .flags = LLM_SETTING_FLOAT | LLM_SETTING_NULL_0                        \
    }
/* A key of config.json alone that says whether there are biases. */
#define LLM_SETTING_HAS(hf_, field)                                            \
    {                                                                          \
        .hf = hf_, .offset = offsetof(llm_hparams, field),                     \
        .flags = LLM_SETTING_PRESENCE                                          \
    }
#define LLM_SETTING_IS(gguf_, hf_, field)                                      \
    {                                                                          \
        .gguf = gguf_, .hf = hf_, .offset = offsetof(llm_hparams, field),      \
        .flags = LLM_SETTING_BOOL                                              \
    }
#define LLM_SETTING_COUNT(gguf_, hf_, field, most_, what_)                     \
    {                                                                          \
        .gguf = gguf_, .hf = hf_, .offset = offsetof(llm_hparams, field),      \
        .most = most_, .what = what_                                           \
    }
#define LLM_SETTING_REFUSE(hf_, what_)                                         \
    {                                                                          \
        .hf = hf_, .flags = LLM_SETTING_REFUSED, .what = what_                 \
    }
#define LLM_SETTING_CAUSAL                                                     \
    LLM_SETTING_REFUSE(                                                        \
        "use_bidirectional_attention",                                         \
        "attention to later tokens "                                           \
        "(use_bidirectional_attention) is not supported; use a "               \
        "model that generates text")

/* The settings that all architectures have, then those of one: i counts from 0.
 * NULL after the last. */
const llm_setting *llm_setting_at(const llm_arch *arch, uint32_t i);
/* The field of a setting. */
void *llm_setting_field(const llm_setting *setting, llm_hparams *h);

/* A key of GGUF files, which begins with the name of the architecture. */
typedef struct llm_gguf_key {
    char text[96];
} llm_gguf_key;
llm_gguf_key llm_gguf_key_of(const llm_arch *arch, const char *setting);

/* Before a file is read: what is not 0 is a default that stays. */
void llm_hparams_start(llm_hparams *h, const llm_arch *arch);
/* After it: sets what follows from other settings, and `layers` as far as files
 * need not list them. */
void llm_hparams_derive(llm_hparams *h);
/* Checks that counts are in sane ranges, n_heads is a multiple of n_kv_heads,
 * head_dim is even, and of experts some are used. where begins the message: a
 * path. */
clv_status llm_hparams_check(const llm_hparams *h, const char *where);
