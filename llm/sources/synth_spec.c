#include "synth_spec.h"

#include "../base/str.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PLAIN(name, dtype)                                                     \
    {                                                                          \
        name, {dtype, 0},                                                      \
        {                                                                      \
            dtype, 0                                                           \
        }                                                                      \
    }
static const llm_synth_format formats[] = {
    /* The default: half the size of the published 16-bit files, with little
     * loss. */
    PLAIN("q8_0", CLV_DTYPE_Q8_0),
    PLAIN("f32", CLV_DTYPE_F32),
    PLAIN("f16", CLV_DTYPE_F16),
    PLAIN("bf16", CLV_DTYPE_BF16),
    PLAIN("q4_0", CLV_DTYPE_Q4_0),
    /* Reading a row of the table costs little, but its errors have the largest
     * effect. */
    {"w4a16",
     {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL},
     {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL}},
    {"w8a8",
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR},
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR}},
};
enum {
    N_FORMATS = sizeof formats / sizeof formats[0],
};

/* The number of edits that turn a into b. */
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

static clv_status find_model(const char *name, llm_synth_spec *out)
{
    char all[640] = "";
    const char *nearest = "";
    for (uint32_t i = 0; (out->arch = llm_arch_at(i)); i++) {
        for (out->model = out->arch->published; out->model->name;
             out->model++) {
            const char *known = out->model->name;
            if (!strcasecmp(name, known))
                return CLV_OK;
            if (!*nearest || distance(name, known) < distance(name, nearest))
                nearest = known;
            llm_list_add(all, sizeof all, known);
        }
    }
    return clv_error(CLV_ERR_NOT_FOUND,
                     "no made-up model is called '%s'; the nearest is %s, all "
                     "are: %s",
                     name, nearest, all);
}

static clv_status find_format(const char *name, const llm_synth_format **out)
{
    char all[64] = "";
    for (size_t i = 0; i < N_FORMATS; i++) {
        *out = &formats[i];
        if (!strcasecmp(name, formats[i].name))
            return CLV_OK;
        llm_list_add(all, sizeof all, formats[i].name);
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "made-up weights cannot be of type '%s'; types are: %s, "
                     "and after one ':zero'",
                     name, all);
}

clv_status llm_synth_parse(const char *text, llm_synth_spec *out)
{
    static const char suffix[] = ":zero";
    char name[96];
    const size_t length = strlen(text), tail = sizeof suffix - 1;
    const bool zero =
        length > tail && !strcasecmp(text + length - tail, suffix);
    snprintf(name, sizeof name, "%.*s", (int)(length - (zero ? tail : 0)),
             text);
    char *format = strchr(name, ':');
    if (format)
        *format++ = 0;
    *out = (llm_synth_spec){.format = &formats[0], .zero = zero};
    CLV_TRY(find_model(name, out));
    if (format)
        CLV_TRY(find_format(format, &out->format));
    /* There is no layout for scales of experts. */
    if (out->model->hparams.n_experts && out->format->matrix.quant)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "synth:%s cannot be of type '%s': weights of experts "
                         "are f32, f16, bf16, q8_0 or q4_0",
                         out->model->name, out->format->name);
    return CLV_OK;
}
