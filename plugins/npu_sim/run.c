#include "run.h"
#include "kernel.h"

#include <string.h>

static void view_of(const clv_plugin_program *prog, char *const *data,
                    const int64_t *symbols, uint32_t tensor, npu_view *out)
{
    npu_view_make(&prog->graph->tensors[tensor], symbols, out);
    out->data = (uint8_t *)data[tensor];
}

static void weight_of(const clv_plugin_program *prog, char *const *data,
                      uint32_t tensor, npu_weight *out)
{
    const clv_tensor_desc *desc = &prog->graph->tensors[tensor];
    view_of(prog, data, NULL, tensor, &out->view);
    out->quant = desc->quant;
    out->group = clv_format_is(desc->dtype, CLV_FORMAT_BLOCK)
                     ? clv_format_of(desc->dtype)->elements
                 : desc->quant == CLV_QUANT_PER_GROUP ? desc->quant_group
                                                      : desc->dims[1];
    if (desc->quant)
        view_of(prog, data, NULL, desc->quant_scales - 1, &out->scales);
}

static clv_status see_experts(const clv_plugin_program *prog, uint32_t index,
                              const npu_call *call, const int64_t *symbols,
                              npu_phase *phase)
{
    int64_t experts, products;
    CLV_TRY(npu_count_experts(call, &experts, &products));
    npu_experts_cost(prog->dev->settings, prog->graph, index, symbols, experts,
                     products, phase);
    return CLV_OK;
}

static clv_status run_node(const clv_plugin_program *prog, uint32_t index,
                           char *const *data, const int64_t *symbols,
                           npu_phase *phase)
{
    const clv_node *node = &prog->graph->nodes[index];
    const npu_settings *s = prog->dev->settings;
    npu_call call = {.host = prog->dev->base.host,
                     .node = node,
                     .path = prog->paths[index],
                     .array_rows = s->arrays[NPU_F16].rows,
                     .half_sums = s->half_sums,
                     .half_attention = s->model == NPU_SYSTOLIC};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != CLV_NO_TENSOR)
            view_of(prog, data, symbols, node->inputs[i], &call.in[i]);
    if (node->n_outputs)
        view_of(prog, data, symbols, node->outputs[0], &call.out);
    const bool product =
        node->op == CLV_OP_MATMUL || node->op == CLV_OP_MATMUL_EXPERTS;
    if (product || node->op == CLV_OP_GET_ROWS)
        weight_of(prog, data, node->inputs[product], &call.weight);
    switch (node->op) {
    case CLV_OP_MATMUL:
        return npu_run_matmul(&call);
    case CLV_OP_ATTENTION:
        return npu_run_attention(&call);
    case CLV_OP_TOP_K:
    case CLV_OP_NONZERO:
        return npu_run_select(&call);
    case CLV_OP_MATMUL_EXPERTS:
        if (phase)
            CLV_TRY(see_experts(prog, index, &call, symbols, phase));
        return npu_run_experts(&call);
    }
    return npu_run_rows(&call);
}

clv_status npu_run(const clv_plugin_program *prog, char *const *data,
                   const int64_t *symbols, npu_phase *phases)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < prog->graph->n_nodes && !status; i++)
        status = run_node(prog, i, data, symbols, phases ? phases + i : NULL);
    return status;
}
