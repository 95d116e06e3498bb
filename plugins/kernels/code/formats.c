#include "formats.h"

#include "kernels_templates.h"

static const char *const texts[CLV_DTYPE_COUNT] = {
    [CLV_DTYPE_F32] = gpu_template_f32,   [CLV_DTYPE_F16] = gpu_template_f16,
    [CLV_DTYPE_BF16] = gpu_template_bf16, [CLV_DTYPE_I8] = gpu_template_i8,
    [CLV_DTYPE_I4] = gpu_template_i4,     [CLV_DTYPE_Q8_0] = gpu_template_q8_0,
    [CLV_DTYPE_Q4_0] = gpu_template_q4_0,
};

bool gpu_has_format(uint32_t dtype)
{
    return texts[dtype] != NULL;
}

void gpu_put_format(gpu_text *out, uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    gpu_printf(out,
               "#define BITS %u\n#define BLOCK %uu\n"
               "#define BLOCK_BYTES %uu\n",
               (unsigned)f->bits, (unsigned)f->elements, (unsigned)f->bytes);
    gpu_puts(out, texts[dtype]);
}
