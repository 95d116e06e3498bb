#include "matrix.h"

#define FEW 8 /* rows that the kernel for few takes */

int64_t gpu_tile_bytes(uint32_t dtype)
{
    switch (dtype) {
    case CLV_DTYPE_F16: return 1024;
    case CLV_DTYPE_Q8_0: return 544;
    case CLV_DTYPE_Q4_0: return 288;
    }
    return 0;
}

int64_t gpu_tiles_row(const clv_tensor_desc *w)
{
    return w->dims[1] / 32 * gpu_tile_bytes(w->dtype);
}

bool gpu_is_few(const gpu_node *node)
{
    return gpu_max_rows(&node->in[0]) <= FEW;
}

bool gpu_is_glsl(const gpu_target *target)
{
    return target->language == GPU_GLSL;
}

bool gpu_has_matrices(const gpu_target *target)
{
    return target->plain_matrix ||
           (gpu_is_glsl(target) ? target->coop_matrix && target->subgroup == 32
                                : target->nvidia_ptx);
}

int64_t gpu_plain_bytes(const gpu_target *target, int64_t items)
{
    return target->nvidia_ptx ? 0 : 28 * items;
}

gpu_operand *gpu_add_private_rows(gpu_call *call, const char *name,
                                  uint32_t buffer, uint32_t dtype,
                                  gpu_expr width, int64_t channels,
                                  int64_t stride, bool written)
{
    gpu_operand *o = &call->operands[call->n_operands++];
    *o = (gpu_operand){.name = name, .dtype = dtype, .written = written,
                       .memory = GPU_MEMORY_PRIVATE, .index = buffer,
                       .packed = true, .width = width,
                       .channels = gpu_constant(channels)};
    for (uint32_t i = 0; i < 5; i++)
        o->strides[i] = gpu_constant(0);
    o->strides[CLV_L_W] = gpu_constant(stride);
    return o;
}

void gpu_add_tiles(gpu_call *call, const gpu_node *node, const char *name,
                   uint32_t buffer)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t row = gpu_tiles_row(w);
    gpu_add_private_rows(call, name, buffer, CLV_DTYPE_I8,
                         gpu_constant((w->dims[0] + 15) / 16), row, row, false);
}

const char *gpu_matrix_words(const gpu_target *target)
{
    if (gpu_is_glsl(target))
        return target->plain_matrix ? gpu_template_matrix_coop_plain
                                    : gpu_template_matrix_coop;
    return target->nvidia_ptx ? gpu_template_matrix_ptx
                              : gpu_template_matrix_plain;
}

clv_status gpu_matrix_text(gpu_text *text, const gpu_target *target,
                           const char *template)
{
    gpu_puts(text, gpu_template_packed);
    if (gpu_is_glsl(target)) {
        if (template == gpu_template_matmul_coop)
            gpu_puts(text, gpu_matrix_words(target));
        gpu_puts(text, gpu_template_tile_units);
        gpu_puts(text, template);
        return text->failed ? CLV_ERR_NO_MEMORY : CLV_OK;
    }
    gpu_puts(text, gpu_matrix_words(target));
    gpu_puts(text, gpu_template_matrix_weights);
    gpu_puts(text, template);
    return text->failed ? CLV_ERR_NO_MEMORY : CLV_OK;
}

clv_status gpu_lower_tiles(gpu_lowering *lowering, const gpu_node *node,
                           uint32_t *buffer)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const int64_t row = gpu_tiles_row(w), rows = (w->dims[0] + 15) / 16;
    gpu_call call;
    clv_status status = gpu_build_private(
        &lowering->builder, (uint64_t)(rows * row), true, buffer);
    if (status)
        return status;
    gpu_call_init(&call, "tiles", gpu_template_tiles, node->index, 64);
    gpu_call_rows(&call, "w", &node->in[1], false);
    gpu_add_private_rows(&call, "tiles", *buffer, CLV_DTYPE_I8,
                         gpu_constant(rows), row, row, true);
    gpu_call_define(&call, "DTYPE", w->dtype);
    call.groups[0] = gpu_constant((w->dims[1] / 32 * 16 + 63) / 64);
    call.groups[1] = gpu_constant(rows);
    return gpu_build(&lowering->builder, &call, true);
}
