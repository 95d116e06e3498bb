/*
 * A Llama of 2 layers in Hugging Face form, written byte by byte: hidden 8,
 * 4 heads of 4 channels, 2 key-value heads, feed-forward 12, vocabulary 10.
 */
#pragma once

#include "temp.h"

enum {
    TINY_LAYERS = 2,
    TINY_EMBD = 8,
    TINY_FF = 12,
    TINY_VOCAB = 10,
    TINY_HEAD = 4,
    TINY_Q = 16,
    TINY_KV = 8,
};

typedef struct tiny_tensor {
    char name[80];
    int rows, columns; /* columns 0: a vector */
} tiny_tensor;

typedef struct tiny_options {
    const char *architecture; /* NULL: LlamaForCausalLM */
    const char *config;       /* more keys: ",\"rope_theta\":5" */
    bool tied, biases;
    const char *skip;  /* a tensor left out */
    const char *extra; /* one more, of one element */
    const char *dtype; /* "F32" (NULL) or another of 4 bytes */
} tiny_options;

static inline int tiny_list(tiny_tensor *out, bool tied, bool biases)
{
    static const struct {
        const char *name;
        int rows, columns;
        bool bias;
    } layer[] = {
        {"input_layernorm.weight", TINY_EMBD, 0, false},
        {"post_attention_layernorm.weight", TINY_EMBD, 0, false},
        {"self_attn.q_proj.weight", TINY_Q, TINY_EMBD, false},
        {"self_attn.k_proj.weight", TINY_KV, TINY_EMBD, false},
        {"self_attn.v_proj.weight", TINY_KV, TINY_EMBD, false},
        {"self_attn.o_proj.weight", TINY_EMBD, TINY_Q, false},
        {"mlp.gate_proj.weight", TINY_FF, TINY_EMBD, false},
        {"mlp.up_proj.weight", TINY_FF, TINY_EMBD, false},
        {"mlp.down_proj.weight", TINY_EMBD, TINY_FF, false},
        {"self_attn.q_proj.bias", TINY_Q, 0, true},
        {"self_attn.k_proj.bias", TINY_KV, 0, true},
        {"self_attn.v_proj.bias", TINY_KV, 0, true},
        {"self_attn.o_proj.bias", TINY_EMBD, 0, true},
    };
    int n = 0;
    out[n++] =
        (tiny_tensor){"model.embed_tokens.weight", TINY_VOCAB, TINY_EMBD};
    out[n++] = (tiny_tensor){"model.norm.weight", TINY_EMBD, 0};
    if (!tied)
        out[n++] = (tiny_tensor){"lm_head.weight", TINY_VOCAB, TINY_EMBD};
    for (int i = 0; i < TINY_LAYERS; i++) {
        for (size_t j = 0; j < sizeof layer / sizeof layer[0]; j++) {
            if (layer[j].bias && !biases)
                continue;
            snprintf(out[n].name, sizeof out[n].name, "model.layers.%d.%s", i,
                     layer[j].name);
            out[n].rows = layer[j].rows;
            out[n++].columns = layer[j].columns;
        }
    }
    return n;
}

/* Element i of the tensor with this name; exact in F16. */
static inline float tiny_value(const char *name, int i)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    h = (h + (uint32_t)i) * 2654435761u;
    return (float)((int)(h >> 23) - 256) / 256;
}

static inline void tiny_tensor_entry(bytes *header, bytes *data,
                                     const tiny_tensor *t, const char *dtype)
{
    char text[256], shape[32];
    int n = t->rows * (t->columns ? t->columns : 1);
    snprintf(shape, sizeof shape, t->columns ? "%d,%d" : "%d", t->rows,
             t->columns);
    snprintf(text, sizeof text,
             "%s\"%.79s\":{\"dtype\":\"%s\",\"shape\":[%s],"
             "\"data_offsets\":[%zu,%zu]}",
             header->size > 1 ? "," : "", t->name, dtype ? dtype : "F32", shape,
             data->size, data->size + (size_t)n * 4);
    put_text(header, text);
    for (int i = 0; i < n; i++)
        put_f32(data, tiny_value(t->name, i));
}

/* Into t's directory, over what was there. */
static inline void tiny_write(temp *t, const tiny_options *o)
{
    tiny_tensor tensors[64];
    bytes header = {0}, data = {0}, file = {0};
    char config[1024];
    int n = tiny_list(tensors, o->tied, o->biases);
    put_text(&header, "{");
    for (int i = 0; i < n; i++)
        if (!o->skip || strcmp(o->skip, tensors[i].name))
            tiny_tensor_entry(&header, &data, &tensors[i], o->dtype);
    if (o->extra) {
        tiny_tensor extra = {"", 1, 0};
        snprintf(extra.name, sizeof extra.name, "%s", o->extra);
        tiny_tensor_entry(&header, &data, &extra, NULL);
    }
    put_text(&header, "}");
    put_u64(&file, header.size);
    put(&file, header.data, header.size);
    put(&file, data.data, data.size);
    temp_write(t, "model.safetensors", file.data, file.size);
    snprintf(config, sizeof config,
             "{\"architectures\":[\"%s\"],\"vocab_size\":%d,"
             "\"hidden_size\":%d,\"intermediate_size\":%d,"
             "\"num_hidden_layers\":%d,\"num_attention_heads\":4,"
             "\"num_key_value_heads\":2,\"head_dim\":%d,"
             "\"attention_bias\":%s,\"tie_word_embeddings\":%s%s}",
             o->architecture ? o->architecture : "LlamaForCausalLM", TINY_VOCAB,
             TINY_EMBD, TINY_FF, TINY_LAYERS, TINY_HEAD,
             o->biases ? "true" : "false", o->tied ? "true" : "false",
             o->config ? o->config : "");
    temp_write_text(t, "config.json", config);
    bytes_free(&header);
    bytes_free(&data);
    bytes_free(&file);
}
