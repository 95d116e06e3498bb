#include "synth_spec.h"

#include "../base/str.h"
#include "../quantize/encode.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Integers as in papers; int4 where the embedding is the output matrix. */
static const struct {
    const char *name;
    llm_target matrix, table;
    bool outliers;
} schemes[] = {
    /* Reading a row of the table costs little, but its errors have the largest
     * effect. */
    {"w4a16",
     {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0},
     {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
     false},
    {"w8a8",
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
     false},
    {"w8a8_outliers",
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
     {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
     true},
};
enum {
    N_SCHEMES = sizeof schemes / sizeof schemes[0],
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

/* One dtype for all matrices, integers with scales, or a mix as in files. */
static clv_status find_format(const char *name, llm_synth_spec *out)
{
    const uint32_t dtype = clv_dtype_parse(name);
    snprintf(out->format, sizeof out->format, "%s", name);
    for (size_t i = 0; i < N_SCHEMES; i++) {
        out->matrix = schemes[i].matrix;
        out->table = schemes[i].table;
        out->outliers = schemes[i].outliers;
        if (!strcasecmp(name, schemes[i].name))
            return CLV_OK;
    }
    out->matrix = out->table = (llm_target){.dtype = dtype};
    out->outliers = false;
    if (llm_encoder_of(dtype))
        return CLV_OK;
    const clv_status status = llm_mix_find(name, &out->mix);
    return status ? clv_error_prefix(status, "made-up weights") : CLV_OK;
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
    *out = (llm_synth_spec){.zero = zero};
    CLV_TRY(find_model(name, out));
    /* The default: half the size of the published 16-bit files, with little
     * loss. */
    CLV_TRY(find_format(format ? format : "q8_0", out));
    /* There is no layout for scales of experts. */
    if (out->model->hparams.n_experts && out->matrix.quant)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "synth:%s cannot be of type '%s': weights of experts "
                         "are of floats or blocks, such as q8_0",
                         out->model->name, out->format);
    return CLV_OK;
}
