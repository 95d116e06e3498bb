#include "ops/activations.h"
#include "code/formats.h"
#include "ops/tiles.h"

#define ITEMS 128 /* of a group of quantise_tiles, 8 channels each */

bool gpu_is_int8(const gpu_node *node)
{
    return node->in[1].d.quant && !gpu_is_gemv(node);
}

int64_t gpu_int8_block(const gpu_node *node)
{
    const clv_tensor_desc *w = &node->in[1].d;
    const bool whole =
        w->dims[1] % 64 == 0 &&
        (w->quant != CLV_QUANT_PER_GROUP || w->quant_group % 64 == 0);
    return whole ? 64 : 32;
}

int64_t gpu_int8_tile(const gpu_node *node)
{
    return 16 * gpu_int8_block(node) + 64;
}

static int64_t row_bytes(const gpu_node *node)
{
    return node->in[1].d.dims[1] / gpu_int8_block(node) * gpu_int8_tile(node);
}

void gpu_int8_know(gpu_call *call, const gpu_node *node)
{
    gpu_call_param(call, "known",
                   gpu_float(node->node.attr.matmul.input_scale));
}

static clv_status quantise(gpu_lowering *lowering, const gpu_node *node,
                           uint32_t buffer)
{
    const int64_t row = row_bytes(node);
    gpu_call call;
    gpu_call_init(&call, "activations_tensor_int8",
                  gpu_template_activations_tensor_int8, ITEMS);
    gpu_call_use(&call, gpu_template_packed);
    gpu_call_use(&call, gpu_template_activation_bytes);
    gpu_call_rows(&call, "x", &node->in[0], false);
    gpu_add_private_rows(&call, "tiles", buffer, CLV_DTYPE_I8,
                         gpu_ceil(gpu_rows(&node->in[0]), 16), row, row, true);
    gpu_call_define(&call, "BLOCK", gpu_int8_block(node));
    gpu_call_define(&call, "FRAGMENTS", !gpu_is_glsl(node->target));
    gpu_call_define(&call, "NIBBLES",
                    clv_format_of(node->in[1].d.dtype)->bits == 4);
    gpu_call_define(&call, "GROUP", ITEMS);
    gpu_int8_know(&call, node);
    call.groups[0] =
        gpu_constant((node->in[1].d.dims[1] + 8 * ITEMS - 1) / (8 * ITEMS));
    call.groups[1] = gpu_rows(&node->in[0]);
    return gpu_add_run(lowering, &call);
}

clv_status gpu_int8_lower(gpu_lowering *lowering, const gpu_node *node,
                          uint32_t *buffer)
{
    const int64_t rows = (gpu_max_rows(&node->in[0]) + 15) / 16;
    const gpu_bytes bytes = {.of = node->in[0].index + 1,
                             .form = gpu_int8_block(node) * 256 +
                                     node->in[1].d.dtype};
    CLV_TRY(gpu_share_scratch(lowering, GPU_SCRATCH_BYTES,
                              (uint64_t)(rows * row_bytes(node)), buffer));
    if (lowering->bytes.of == bytes.of && lowering->bytes.form == bytes.form)
        return CLV_OK;
    lowering->bytes.of = 0;
    CLV_TRY(quantise(lowering, node, *buffer));
    if (!lowering->aliased)
        lowering->bytes = bytes;
    return CLV_OK;
}

void gpu_int8_add(gpu_call *call, const gpu_node *node, uint32_t buffer)
{
    const int64_t row = row_bytes(node);
    gpu_add_private_rows(call, "x", buffer, CLV_DTYPE_I8,
                         gpu_ceil(gpu_rows(&node->in[0]), 16), row, row, false);
    gpu_call_param(call, "rows", gpu_rows(&node->in[0]));
    gpu_call_define(call, "BLOCK", gpu_int8_block(node));
}
