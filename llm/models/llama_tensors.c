#include "llama_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum width { NONE, EMBD, FF, VOCAB, Q, KV, EXPERTS } width;

typedef struct row {
    const char *gguf, *hf;
    uint8_t out, in; /* width */
    uint8_t need;    /* llm_tensor_need */
    bool rotary;
} row;

static const row head[] = {
    {"token_embd.weight", "model.embed_tokens.weight", VOCAB, EMBD,
     LLM_TENSOR_REQUIRED, false},
    {"output_norm.weight", "model.norm.weight", EMBD, NONE, LLM_TENSOR_REQUIRED,
     false},
    {"output.weight", "lm_head.weight", VOCAB, EMBD, LLM_TENSOR_OUTPUT, false},
};

static const row layer[] = {
    {"attn_norm.weight", "input_layernorm.weight", EMBD, NONE,
     LLM_TENSOR_REQUIRED, false},
    {"ffn_norm.weight", "post_attention_layernorm.weight", EMBD, NONE,
     LLM_TENSOR_REQUIRED, false},
    {"attn_q.weight", "self_attn.q_proj.weight", Q, EMBD, LLM_TENSOR_REQUIRED,
     true},
    {"attn_k.weight", "self_attn.k_proj.weight", KV, EMBD, LLM_TENSOR_REQUIRED,
     true},
    {"attn_v.weight", "self_attn.v_proj.weight", KV, EMBD, LLM_TENSOR_REQUIRED,
     false},
    {"attn_output.weight", "self_attn.o_proj.weight", EMBD, Q,
     LLM_TENSOR_REQUIRED, false},
    {"ffn_gate.weight", "mlp.gate_proj.weight", FF, EMBD, LLM_TENSOR_REQUIRED,
     false},
    {"ffn_up.weight", "mlp.up_proj.weight", FF, EMBD, LLM_TENSOR_REQUIRED,
     false},
    {"ffn_down.weight", "mlp.down_proj.weight", EMBD, FF, LLM_TENSOR_REQUIRED,
     false},
    {"attn_q.bias", "self_attn.q_proj.bias", Q, NONE, LLM_TENSOR_OPTIONAL,
     true},
    {"attn_k.bias", "self_attn.k_proj.bias", KV, NONE, LLM_TENSOR_OPTIONAL,
     true},
    {"attn_v.bias", "self_attn.v_proj.bias", KV, NONE, LLM_TENSOR_OPTIONAL,
     false},
    {"attn_output.bias", "self_attn.o_proj.bias", EMBD, NONE,
     LLM_TENSOR_OPTIONAL, false},
    {"ffn_gate.bias", "mlp.gate_proj.bias", FF, NONE, LLM_TENSOR_OPTIONAL,
     false},
    {"ffn_up.bias", "mlp.up_proj.bias", FF, NONE, LLM_TENSOR_OPTIONAL, false},
    {"ffn_down.bias", "mlp.down_proj.bias", EMBD, NONE, LLM_TENSOR_OPTIONAL,
     false},
};

/* In place of the feed-forward matrices; '#': one for each expert. */
static const row choice[] = {
    {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight", EXPERTS, EMBD,
     LLM_TENSOR_REQUIRED, false},
    {"ffn_gate_exps.weight", "block_sparse_moe.experts.#.w1.weight", FF, EMBD,
     LLM_TENSOR_REQUIRED, false},
    {"ffn_down_exps.weight", "block_sparse_moe.experts.#.w2.weight", EMBD, FF,
     LLM_TENSOR_REQUIRED, false},
    {"ffn_up_exps.weight", "block_sparse_moe.experts.#.w3.weight", FF, EMBD,
     LLM_TENSOR_REQUIRED, false},
};

enum {
    N_CHOICE = sizeof choice / sizeof choice[0],
    N_HEAD = sizeof head / sizeof head[0],
    N_LAYER = sizeof layer / sizeof layer[0],
    N_ATTENTION = 6, /* of a layer's rows, before those of the feed-forward */
    N_DENSE = 3,     /* of these; then come biases of the attention */
    N_BIASES = 4,
};

static int64_t width_of(const llm_hparams *h, uint8_t which)
{
    switch (which) {
    case EMBD:
        return h->n_embd;
    case FF:
        return h->n_ff;
    case VOCAB:
        return h->n_vocab;
    case Q:
        return (int64_t)h->n_heads * h->head_dim;
    case KV:
        return (int64_t)h->n_kv_heads * h->head_dim;
    case EXPERTS:
        return h->n_experts;
    }
    return 0;
}

static uint64_t layer_count(const llm_hparams *h)
{
    return h->n_experts ? N_ATTENTION + N_CHOICE + N_BIASES : N_LAYER;
}

static const row *layer_row(const llm_hparams *h, uint64_t i)
{
    if (!h->n_experts || i < N_ATTENTION)
        return &layer[i];
    i -= N_ATTENTION;
    return i < N_CHOICE ? &choice[i]
                        : &layer[N_ATTENTION + N_DENSE + i - N_CHOICE];
}

uint64_t llm_llama_tensor_count(const llm_hparams *h)
{
    return N_HEAD + (uint64_t)h->n_layers * layer_count(h);
}

void llm_llama_tensor_at(const llm_hparams *h, uint64_t index,
                         llm_llama_tensor *out)
{
    const row *r;
    if (index < N_HEAD) {
        r = &head[index];
        snprintf(out->gguf, sizeof out->gguf, "%s", r->gguf);
        snprintf(out->hf, sizeof out->hf, "%s", r->hf);
    } else {
        uint64_t i = (index - N_HEAD) / layer_count(h);
        r = layer_row(h, (index - N_HEAD) % layer_count(h));
        snprintf(out->gguf, sizeof out->gguf, "blk.%" PRIu64 ".%s", i, r->gguf);
        snprintf(out->hf, sizeof out->hf, "model.layers.%" PRIu64 ".%s", i,
                 r->hf);
    }
    out->need = r->need;
    out->rotary = r->rotary;
    const bool experts = strchr(r->hf, '#');
    out->rank = 0;
    out->n_parts = experts ? h->n_experts : 1;
    if (experts)
        out->dims[out->rank++] = h->n_experts;
    out->dims[out->rank++] = width_of(h, r->out);
    if (r->in != NONE)
        out->dims[out->rank++] = width_of(h, r->in);
}

void llm_llama_part_name(const llm_llama_tensor *tensor, uint32_t part,
                         char name[LLM_TENSOR_NAME])
{
    const char *number = strchr(tensor->hf, '#');
    if (number)
        snprintf(name, LLM_TENSOR_NAME, "%.*s%" PRIu32 "%s",
                 (int)(number - tensor->hf), tensor->hf, part, number + 1);
    else
        memcpy(name, tensor->hf, sizeof tensor->hf);
}
