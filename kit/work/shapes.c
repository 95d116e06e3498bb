#include "shapes.h"

#define COUNT(list) (uint32_t)(sizeof(list) / sizeof(list)[0])

const kit_matmul_shape kit_matmul_shapes[] = {
    {"stories260k.q", 64, 64, false},
    {"stories260k.ffn_down", 172, 64, false},
    {"stories15m.ffn_up", 288, 768, false},
    {"stories15m.output", 288, 32000, true},
    {"qwen2-0.5b.k", 896, 128, false},
    {"qwen2-0.5b.ffn_down", 4864, 896, false},
    {"llama-1b.q", 2048, 2048, false},
    {"llama-1b.ffn_down", 8192, 2048, true},
    {"gemma2-2b.q", 2304, 2048, false},
    {"gemma2-2b.o", 2048, 2304, false},
    {"gemma2-2b.ffn_down", 9216, 2304, true},
    {"phi-2.q", 2560, 2560, false},
    {"phi-2.ffn_up", 2560, 10240, true},
    {"phi-2.output", 2560, 51200, true},
    {"llama3.2-3b.k", 3072, 1024, false},
    {"llama3.2-3b.ffn_up", 3072, 8192, true},
    {"qwen2-7b.k", 3584, 512, false},
    {"qwen2-7b.ffn_down", 18944, 3584, true},
    {"llama2-7b.ffn_down", 11008, 4096, true},
    {"llama3-8b.k", 4096, 1024, false},
    {"llama3-8b.q", 4096, 4096, true},
    {"llama3-8b.ffn_up", 4096, 14336, true},
    {"llama3-8b.ffn_down", 14336, 4096, true},
    {"llama3-8b.output", 4096, 128256, true},
};
const uint32_t kit_n_matmul_shapes = COUNT(kit_matmul_shapes);

const kit_attention_shape kit_attention_shapes[] = {
    {"stories260k", 8, 4, 8, 0, 0, false},
    {"stories15m", 6, 6, 48, 0, 0, false},
    {"qwen2-0.5b", 14, 2, 64, 0, 0, false},
    {"llama-1b", 32, 8, 64, 0, 0, false},
    {"gemma2-2b", 8, 4, 256, 0, 50, false},
    {"gemma2-2b-local", 8, 4, 256, 4096, 50, false},
    {"phi-2", 32, 32, 80, 0, 0, false},
    {"llama3.2-3b", 24, 8, 128, 0, 0, false},
    {"qwen2-7b", 28, 4, 128, 0, 0, false},
    {"mistral-7b", 32, 8, 128, 4096, 0, true},
    {"llama2-7b", 32, 32, 128, 0, 0, true},
    {"llama3-8b", 32, 8, 128, 0, 0, true},
};
const uint32_t kit_n_attention_shapes = COUNT(kit_attention_shapes);

/* stories, qwen2, llama, gemma2, phi-2; their feed-forward sizes. */
const int64_t kit_widths[] = {64,   172,  288,   768,   896,   2048,
                              2304, 2560, 3072,  3584,  4096,  4864,
                              8192, 9216, 10240, 11008, 14336, 18944};
const uint32_t kit_n_widths = COUNT(kit_widths);
