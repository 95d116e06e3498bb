/*
 * Settings of a model: the values, their keys in the two kinds of files, and
 * the checks that every source makes, wherever the values come from.
 */
#pragma once

#include <cleave/llm.h>

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
} llm_rope_scaling;

/* The first ones stand in the order in which published shapes list them. */
typedef struct llm_hparams {
    uint32_t n_layers, n_embd, n_ff, n_vocab, n_heads, n_kv_heads;
    uint32_t n_ctx_train;
    float norm_eps, rope_base;
    uint32_t head_dim, value_dim;       /* of keys and of values; equal */
    uint32_t n_experts, n_experts_used; /* 0: dense; n_ff is an expert's */
    uint32_t sliding_window;            /* 0: none */
    uint32_t rope_mode;                 /* clv_rope_mode of q and k */
    uint32_t rope_dim;                  /* channels rotated */
    uint32_t rope_scaling;              /* llm_rope_scaling */
    float rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    uint32_t rope_original_ctx;
    int32_t bos, eos; /* -1: none; for models without a tokenizer */
    const llm_arch *arch;
    char name[128];
} llm_hparams;

enum {
    LLM_SETTING_FLOAT = 1u << 0,   /* the field is a float, else a uint32_t */
    LLM_SETTING_GGUF = 1u << 1,    /* GGUF files must have it */
    LLM_SETTING_HF = 1u << 2,      /* config.json must have it */
    LLM_SETTING_NULL_0 = 1u << 3,  /* null in config.json stands for 0 */
    LLM_SETTING_WINDOW = 1u << 4,  /* only classes with a sliding window */
    LLM_SETTING_EXPERTS = 1u << 5, /* only classes with experts */
    LLM_SETTING_REFUSED = 1u << 6, /* not supported unless absent or false */
    LLM_SETTING_OF_CLASS = LLM_SETTING_WINDOW | LLM_SETTING_EXPERTS,
};

/* A setting that is one number, or one that is refused. A key that is NULL does
 * not exist. */
typedef struct llm_setting {
    const char *gguf; /* after the architecture's name and a dot */
    const char *hf;   /* in config.json */
    uint32_t offset;  /* of the field in llm_hparams */
    uint32_t flags;   /* LLM_SETTING_ */
    uint32_t least, most;
    const char *what; /* for messages; NULL: any value. Of a refused one: what
                         is not supported, and what to do */
    /* What an absent key stands for; NULL: the field keeps its value. */
    uint32_t (*absent)(const llm_hparams *h);
} llm_setting;

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
/* Checks that counts are in sane ranges, n_heads is a multiple of n_kv_heads,
 * head_dim is even, and of experts some are used. where begins the message: a
 * path. */
clv_status llm_hparams_check(const llm_hparams *h, const char *where);
