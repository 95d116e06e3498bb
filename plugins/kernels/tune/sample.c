#include "tune/sample.h"

#include <cleave/plugin_program.h>

#include <string.h>

#define FIRST_ROWS 4 /* an attention's input that has its first rows */

/* ------------------------------------------------------------------------ */
/* Made-up data                                                              */

static uint32_t scramble(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Of input `at`, which is added in this order. */
static int32_t integer_of(const gpu_sample *s, uint32_t at, uint64_t i)
{
    if (s->node.op != CLV_OP_ATTENTION || s->graph.n_tensors < 2)
        return 0;
    const int32_t rows = (int32_t)s->tensors[1].dims[0];
    const int32_t sequences =
        s->node.attr.attention.apart ? (int32_t)s->tensors[0].dims[0] : 1;
    const int32_t part = rows > sequences ? rows / sequences : 1;
    const int32_t begin = sequences > 1 ? (int32_t)i * part : 0;
    const int32_t last = sequences > 1 ? begin + part - 1 : rows - 1;
    return at == FIRST_ROWS ? begin : last;
}

/* Numbers of either sign between 1/4 and 1/2. Integers are positions in the end
 * of an attention's cache, of which sequences have equal parts. False: not of
 * this type. */
static bool make_up(const gpu_sample *s, uint32_t at, void *data,
                    const clv_tensor_desc *t, uint64_t size)
{
    uint32_t *words = data;
    for (uint64_t i = 0; i < size / 4; i++) {
        uint32_t x = scramble((uint32_t)i + 1);
        if (t->dtype == CLV_DTYPE_F32)
            words[i] = (x & 0x807fffffu) | 0x3e800000u;
        else if (t->dtype == CLV_DTYPE_F16)
            words[i] = (x & 0x83ff83ffu) | 0x34003400u;
        else if (t->dtype == CLV_DTYPE_I32)
            words[i] = (uint32_t)integer_of(s, at, i);
        else
            return false;
    }
    if (size % 4)
        memset((char *)data + size / 4 * 4, 0, size % 4);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                   */

/* In memory of its own, dense. */
static clv_status add_own(const gpu_context *ctx, gpu_sample *s, uint32_t at,
                          bool out)
{
    clv_tensor_desc *t = &s->tensors[at];
    for (uint32_t d = 0; d < CLV_MAX_RANK; d++)
        t->symbols[d] = 0, t->strides[d] = 0;
    if (t->usage != CLV_USAGE_STATE)
        t->usage = out ? CLV_USAGE_OUTPUT : CLV_USAGE_INPUT;
    const uint64_t size = clv_tensor_size(t, NULL);
    char *data = out ? NULL : clv_new(ctx->host, size);
    clv_status status = CLV_OK;
    if (!out && !data)
        return CLV_ERR_NO_MEMORY;
    if (data && !make_up(s, at, data, t, size))
        status = CLV_ERR_UNSUPPORTED;
    if (!status)
        status = gpu_context_alloc(ctx, data, size, &s->own[at]);
    clv_free(ctx->host, data);
    s->others[s->n_others++] =
        (clv_binding){.tensor = at, .buffer = s->own[at], .size = size};
    if (out) {
        s->out = at;
        s->out_bytes = size;
    }
    return status;
}

static clv_status add_weight(const clv_compile *compile, gpu_sample *s,
                             uint32_t at, uint32_t index)
{
    for (uint32_t i = 0; i < compile->n_weights; i++)
        if (compile->weights[i].tensor == index) {
            s->weights[s->n_weights] = compile->weights[i];
            s->weights[s->n_weights++].tensor = at;
            s->weight_bytes += compile->weights[i].size;
            return CLV_OK;
        }
    return CLV_ERR_UNSUPPORTED;
}

/* Adds the graph's tensor, after its scales; *at: where. */
static clv_status add(const gpu_context *ctx, const clv_compile *compile,
                      gpu_sample *s, uint32_t index, bool out, uint32_t *at)
{
    const clv_tensor_desc *theirs = clv_graph_tensor(compile->graph, index);
    clv_tensor_desc t;
    uint32_t scales;
    clv_status status = CLV_OK;
    if (!theirs)
        return CLV_ERR_UNSUPPORTED;
    clv_read(&t, sizeof t, theirs);
    if (t.quant) {
        const clv_tensor_desc *of =
            clv_graph_tensor(compile->graph, t.quant_scales - 1);
        status = of && !of->quant
                     ? add(ctx, compile, s, t.quant_scales - 1, false, &scales)
                     : CLV_ERR_UNSUPPORTED;
        t.quant_scales = scales + 1;
    }
    if (status)
        return status;
    *at = s->graph.n_tensors++;
    t.header = (clv_header){sizeof t, CLV_STRUCT_TENSOR_DESC, NULL};
    s->tensors[*at] = t;
    return t.usage == CLV_USAGE_WEIGHT ? add_weight(compile, s, *at, index)
                                       : add_own(ctx, s, *at, out);
}

clv_status gpu_sample_make(const gpu_context *ctx, const clv_compile *compile,
                           uint32_t i, gpu_sample *s)
{
    const clv_node *theirs = clv_graph_node(compile->graph, i);
    clv_status status = theirs ? CLV_OK : CLV_ERR_UNSUPPORTED;
    memset(s, 0, sizeof *s);
    if (status)
        return status;
    clv_read(&s->node, sizeof s->node, theirs);
    s->node.header = (clv_header){sizeof s->node, CLV_STRUCT_NODE, NULL};
    for (uint32_t k = 0; k < s->node.n_inputs && !status; k++)
        if (s->node.inputs[k] != CLV_NO_TENSOR)
            status = add(ctx, compile, s, s->node.inputs[k], false,
                         &s->node.inputs[k]);
    for (uint32_t k = 0; k < s->node.n_outputs && !status; k++)
        status =
            add(ctx, compile, s, s->node.outputs[k], true, &s->node.outputs[k]);
    if (s->node.op == CLV_OP_ATTENTION)
        s->node.attr.attention.rows_symbol =
            s->node.attr.attention.seen_symbol = 0;
    s->graph.header = (clv_header){sizeof s->graph, CLV_STRUCT_SUBGRAPH, NULL};
    s->graph.tensors = s->tensors;
    s->graph.tensor_stride = sizeof *s->tensors;
    s->graph.nodes = &s->node;
    s->graph.n_nodes = 1;
    s->graph.node_stride = sizeof s->node;
    return status;
}

void gpu_sample_free(const gpu_context *ctx, gpu_sample *s)
{
    for (uint32_t i = 0; i < GPU_SAMPLE_TENSORS; i++)
        ctx->api->buffer_free(s->own[i]);
}
