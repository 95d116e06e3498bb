/* Published shapes by name, and the formats of their weights. */
#include "synth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const llm_synth_shape shapes[] = {
    {"llama-1b", "llama", 16, 2048, 8192, 32000, 32, 8, 64, 4096, 0, 1e-5f,
     1e4f, false, 0, false, 0, 0},
    {"llama2-7b", "llama", 32, 4096, 11008, 32000, 32, 32, 128, 4096, 0, 1e-5f,
     1e4f, false, 0, false, 0, 0},
    {"llama2-70b", "llama", 80, 8192, 28672, 32000, 64, 8, 128, 4096, 0, 1e-5f,
     1e4f, false, 0, false, 0, 0},
    {"llama3-8b", "llama", 32, 4096, 14336, 128256, 32, 8, 128, 8192, 0, 1e-5f,
     5e5f, false, 0, false, 0, 0},
    {"llama3.2-3b", "llama", 28, 3072, 8192, 128256, 24, 8, 128, 131072, 0,
     1e-5f, 5e5f, true, 32, false, 0, 0},
    {"mistral-7b", "llama", 32, 4096, 14336, 32000, 32, 8, 128, 32768, 4096,
     1e-5f, 1e4f, false, 0, false, 0, 0},
    {"internlm2-1.8b", "llama", 24, 2048, 8192, 92544, 16, 8, 128, 32768, 0,
     1e-5f, 1e6f, false, 0, false, 0, 0},
    /* Qwen2 is a Llama with biases of q, k and v. */
    {"qwen1.5-1.8b", "llama", 24, 2048, 5504, 151936, 16, 16, 128, 32768, 0,
     1e-6f, 1e6f, false, 0, true, 0, 0},
    {"qwen2-7b", "llama", 28, 3584, 18944, 152064, 28, 4, 128, 131072, 0, 1e-6f,
     1e6f, false, 0, true, 0, 0},
    {"mixtral-8x7b", "llama", 32, 4096, 14336, 32000, 32, 8, 128, 32768, 0,
     1e-5f, 1e6f, false, 0, false, 8, 2},
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* Names with an architecture that is not there. */
static const char *const unavailable[][2] = {
    {"gemma-2b", "gemma"},
    {"gemma2-2b", "gemma2"},
    {"phi-2", "phi2"},
    {"qwen2-57b-a14b", "qwen2moe"},
};
#define N_UNAVAILABLE (sizeof(unavailable) / sizeof(unavailable[0]))

#define PLAIN(name, dtype)                                                     \
    {                                                                          \
        name, {dtype, 0},                                                      \
        {                                                                      \
            dtype, 0                                                           \
        }                                                                      \
    }
static const llm_synth_format formats[] = {
    /* The default: half the size of the 16-bit files these models are published
     * in, with little loss. What most would run. */
    PLAIN("q8_0", CLV_DTYPE_Q8_0),
    PLAIN("f32", CLV_DTYPE_F32),
    PLAIN("f16", CLV_DTYPE_F16),
    PLAIN("bf16", CLV_DTYPE_BF16),
    PLAIN("q4_0", CLV_DTYPE_Q4_0),
    /* A table costs nothing to look up, but its errors show most. */
    {"w4a16",
     {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL},
     {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL}},
    {"w8a8",
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR},
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR}},
};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

/* Edits that turn a into b. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t row[64];
    const uint32_t n = (uint32_t)strnlen(b, 63);
    for (uint32_t j = 0; j <= n; j++)
        row[j] = j;
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i + 1;
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t swap = diagonal + (a[i] != b[j]);
            const uint32_t add =
                1 + (row[j] < row[j + 1] ? row[j] : row[j + 1]);
            diagonal = row[j + 1];
            row[j + 1] = swap < add ? swap : add;
        }
    }
    return row[n];
}

static clv_status unknown_name(const char *name)
{
    char all[320] = "";
    size_t nearest = 0, at = 0;
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (distance(name, shapes[i].name) <
            distance(name, shapes[nearest].name))
            nearest = i;
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
                               i ? ", " : "", shapes[i].name);
    }
    for (size_t i = 0; i < N_UNAVAILABLE; i++)
        if (!strcmp(name, unavailable[i][0]))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "synth:%s needs architecture '%s', which is not "
                             "supported yet; there is: %s",
                             name, unavailable[i][1], all);
    return clv_error(CLV_ERR_NOT_FOUND,
                     "no made-up model is called '%s'; the nearest is %s, all "
                     "are: %s",
                     name, shapes[nearest].name, all);
}

static clv_status parse_format(const char *text, const llm_synth_format **out)
{
    char all[64] = "";
    size_t at = 0;
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!strcasecmp(text, formats[i].name)) {
            *out = &formats[i];
            return CLV_OK;
        }
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s",
                               i ? ", " : "", formats[i].name);
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "made-up weights cannot be of type '%s'; types are: %s, "
                     "and after one ':zero'",
                     text, all);
}

/* Scales lie beside matrices only. */
static clv_status check_experts(const llm_synth_shape *shape,
                                const llm_synth_format *format)
{
    if (!shape->n_experts || !format->matrix.quant)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "synth:%s cannot be of type '%s': weights of experts are "
                     "f32, f16, bf16, q8_0 or q4_0",
                     shape->name, format->name);
}

clv_status llm_synth_parse(const char *spec, const llm_synth_shape **shape,
                           const llm_synth_format **format, bool *zero)
{
    static const char suffix[] = ":zero";
    char text[96];
    const size_t length = strlen(spec), tail = sizeof(suffix) - 1;
    *zero = length > tail && !strcasecmp(spec + length - tail, suffix);
    snprintf(text, sizeof(text), "%.*s",
             (int)(*zero         ? length - tail
                   : length < 95 ? length
                                 : 95),
             spec);
    char *colon = strchr(text, ':');
    if (colon)
        *colon = 0;
    *format = &formats[0];
    for (size_t i = 0; i < N_SHAPES; i++) {
        if (strcasecmp(text, shapes[i].name))
            continue;
        *shape = &shapes[i];
        clv_status status = colon ? parse_format(colon + 1, format) : CLV_OK;
        return status ? status : check_experts(*shape, *format);
    }
    return unknown_name(text);
}
