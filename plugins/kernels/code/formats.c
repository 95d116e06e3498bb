#include "formats.h"

#include "kernels_templates.h"

/* How kernels read a dtype. */
static const struct {
    const char *text;       /* the format's own; NULL: they do not */
    const char *words;      /* further functions for it; NULL: none */
    uint32_t bits;          /* of an integer in tiles and objects */
    gpu_format_tiles tiles; /* where scales in tiles are as in the file */
} formats[CLV_DTYPE_COUNT] = {
    [CLV_DTYPE_F32] = {gpu_template_f32, NULL, 32},
    [CLV_DTYPE_F16] = {gpu_template_f16, NULL, 16},
    [CLV_DTYPE_BF16] = {gpu_template_bf16, NULL, 16},
    [CLV_DTYPE_I8] = {gpu_template_i8, NULL, 8},
    [CLV_DTYPE_I4] = {gpu_template_i4, NULL, 4},
    [CLV_DTYPE_Q8_0] = {gpu_template_q8_0, NULL, 8},
    [CLV_DTYPE_Q4_0] = {gpu_template_q4_0, NULL, 4},
    [CLV_DTYPE_Q4_1] = {gpu_template_q4_1, NULL, 4},
    [CLV_DTYPE_Q5_0] = {gpu_template_q5_0, NULL, 8},
    [CLV_DTYPE_Q5_1] = {gpu_template_q5_1, NULL, 8},
    [CLV_DTYPE_Q2_K] = {gpu_template_q2_k, NULL, 4},
    [CLV_DTYPE_Q3_K] = {gpu_template_q3_k, NULL, 4},
    [CLV_DTYPE_Q4_K] = {gpu_template_q4_k, NULL, 4, {GPU_HEAD_SIX_BITS, 0}},
    [CLV_DTYPE_Q5_K] = {gpu_template_q5_k, NULL, 8, {GPU_HEAD_SIX_BITS, 1}},
    [CLV_DTYPE_Q6_K] = {gpu_template_q6_k, NULL, 8, {GPU_HEAD_BYTES, 2}},
    [CLV_DTYPE_IQ4_NL] = {gpu_template_iq4_nl, gpu_template_format_table, 8},
    [CLV_DTYPE_IQ4_XS] = {gpu_template_iq4_xs, gpu_template_format_table, 8},
};

bool gpu_has_format(uint32_t dtype)
{
    return formats[dtype].text != NULL;
}

uint32_t gpu_packed_bits(uint32_t dtype)
{
    return formats[dtype].bits;
}

gpu_format_tiles gpu_tiles_of_format(uint32_t dtype)
{
    return formats[dtype].tiles;
}

void gpu_put_format(gpu_text *out, uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    gpu_printf(out,
               "#define FORMAT_BITS %u\n#define BLOCK %uu\n"
               "#define BLOCK_BYTES %uu\n",
               (unsigned)f->bits, (unsigned)f->elements, (unsigned)f->bytes);
    if (clv_format_is(dtype, CLV_FORMAT_BLOCK))
        gpu_puts(out, gpu_template_format_words);
    if (formats[dtype].words)
        gpu_puts(out, formats[dtype].words);
    gpu_puts(out, formats[dtype].text);
}
