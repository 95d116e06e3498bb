#include "tune/case_data.h"

#include <cleave/plugin_op.h>

#include <math.h>

uint32_t gpu_case_scramble(uint32_t i, uint32_t seed)
{
    uint32_t x = (i + 1) * 0x9e3779b1u ^ seed * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

int gpu_case_number(uint32_t i, uint32_t seed)
{
    return (int)(gpu_case_scramble(i, seed) % 15) - 7;
}

float gpu_case_element(uint32_t i, uint32_t seed)
{
    return (float)gpu_case_number(i, seed) * GPU_CASE_STEP;
}

/* Blocks of 256 whose sub-blocks have scales and minimums of 1 and 7. */
static void write_superblock(uint8_t *to, uint32_t dtype, uint32_t first,
                             uint32_t seed)
{
    const uint16_t d = clv_f32_to_f16(GPU_CASE_STEP);
    if (dtype == CLV_DTYPE_Q4_K) {
        clv_block_q4_k *b = (clv_block_q4_k *)(void *)to;
        static const uint8_t scales[12] = {1, 1, 1,    1,    7,    7,
                                           7, 7, 0x71, 0x71, 0x71, 0x71};
        b->d = b->m = d;
        memcpy(b->scales, scales, sizeof scales);
        for (uint32_t j = 0; j < 128; j++) {
            const uint32_t k = first + j / 32 * 64 + j % 32;
            b->q[j] = (uint8_t)((gpu_case_number(k, seed) + 7) |
                                (gpu_case_number(k + 32, seed) + 7) << 4);
        }
        return;
    }
    clv_block_q6_k *b = (clv_block_q6_k *)(void *)to;
    memset(b, 0, sizeof *b);
    b->d = d;
    memset(b->scales, 1, sizeof b->scales);
    for (uint32_t j = 0; j < 256; j++) {
        const uint32_t q = (uint32_t)(gpu_case_number(first + j, seed) + 32);
        b->q[j / 128 * 64 + j % 64] |= (uint8_t)((q & 15) << j % 128 / 64 * 4);
        b->h[j / 128 * 32 + j % 32] |= (uint8_t)(q >> 4 << j % 128 / 32 * 2);
    }
}

/* A block of 32: d, then bytes or nibbles. */
static void write_block(uint8_t *to, uint32_t dtype, uint32_t first,
                        uint32_t seed)
{
    const uint16_t d = clv_f32_to_f16(GPU_CASE_STEP);
    memcpy(to, &d, 2);
    to += 2;
    for (uint32_t j = 0; j < 32; j++) {
        const int q = gpu_case_number(first + j, seed);
        if (dtype == CLV_DTYPE_Q8_0)
            to[j] = (uint8_t)q;
        else if (j < 16)
            to[j] = (uint8_t)(q + 8);
        else
            to[j - 16] |= (uint8_t)((q + 8) << 4);
    }
}

static void write_elements(uint8_t *to, uint32_t dtype, uint32_t n,
                           uint32_t seed)
{
    int64_t elements, bytes;
    clv_block(dtype, &elements, &bytes);
    for (uint32_t i = 0; i < n; i += (uint32_t)elements, to += bytes) {
        const float x = gpu_case_element(i, seed);
        if (elements == 32)
            write_block(to, dtype, i, seed);
        else if (elements == 256)
            write_superblock(to, dtype, i, seed);
        else if (dtype == CLV_DTYPE_I8)
            *to = (uint8_t)gpu_case_number(i, seed);
        else if (dtype == CLV_DTYPE_I4)
            *to = (uint8_t)((gpu_case_number(i, seed) & 15) |
                            (gpu_case_number(i + 1, seed) & 15) << 4);
        else if (dtype == CLV_DTYPE_I32)
            memcpy(to, &x, sizeof x); /* written over */
        else
            clv_format_of(dtype)->encode(&x, to, 1);
    }
}

bool gpu_case_tensor(const clv_host_api *host, gpu_case *c, uint32_t dtype,
                     uint32_t usage, int64_t rows, int64_t columns,
                     uint32_t seed)
{
    uint32_t i = c->graph.n_tensors++;
    int64_t elements, bytes;
    clv_tensor_desc *t = &c->tensors[i];
    clv_block(dtype, &elements, &bytes);
    t->header = (clv_header){sizeof *t, CLV_STRUCT_TENSOR_DESC, NULL};
    t->dtype = dtype;
    t->usage = usage;
    t->rank = columns ? 2 : 1;
    t->dims[0] = rows;
    t->dims[1] = columns;
    int64_t n = rows * (columns ? columns : 1);
    c->size[i] = (uint64_t)(n / elements * bytes);
    if (!seed) {
        c->out = i;
        c->n_want = (uint64_t)n;
        c->want = clv_new(host, c->n_want * sizeof *c->want);
        return c->want != NULL;
    }
    c->data[i] = clv_new(host, c->size[i]);
    if (c->data[i])
        write_elements(c->data[i], dtype, (uint32_t)n, seed);
    return c->data[i] != NULL;
}

clv_node *gpu_case_node(gpu_case *c, uint32_t op, uint32_t out)
{
    clv_node *node = &c->nodes[c->graph.n_nodes++];
    node->header = (clv_header){sizeof *node, CLV_STRUCT_NODE, NULL};
    node->op = op;
    node->revision = 1;
    node->n_outputs = 1;
    node->outputs[0] = out;
    c->graph.header = (clv_header){sizeof c->graph, CLV_STRUCT_SUBGRAPH, NULL};
    c->graph.tensors = c->tensors;
    c->graph.tensor_stride = sizeof *c->tensors;
    c->graph.nodes = c->nodes;
    c->graph.node_stride = sizeof *node;
    return node;
}

void gpu_case_binary(gpu_case *c, uint32_t op, uint32_t a, uint32_t b,
                     uint32_t out)
{
    clv_node *node = gpu_case_node(c, op, out);
    node->n_inputs = 2;
    node->inputs[0] = a;
    node->inputs[1] = b;
}

static double cached(const gpu_case_heads *a, const float *last_row,
                     bool is_last, uint32_t row, uint32_t channel,
                     uint32_t seed)
{
    return is_last && last_row
               ? last_row[channel]
               : gpu_case_element(row * (a->n / a->shared * a->dim) + channel,
                                  seed);
}

void gpu_case_attend(const gpu_case_heads *a, uint32_t i, uint32_t h,
                     uint32_t last, float *out)
{
    const uint32_t from = h / a->shared * a->dim;
    double sum = 0, values[GPU_CASE_DIM] = {0};
    for (uint32_t j = 0; j <= last; j++) {
        double dot = 0;
        for (uint32_t d = 0; d < a->dim; d++)
            dot += (double)gpu_case_element((i * a->n + h) * a->dim + d, 1) *
                   cached(a, a->key, j == last, j, from + d, 2);
        double p = exp(dot * 4);
        sum += p;
        for (uint32_t d = 0; d < a->dim; d++)
            values[d] += p * cached(a, a->value, j == last, j, from + d, 3);
    }
    for (uint32_t d = 0; d < a->dim; d++)
        out[d] = (float)(values[d] / sum);
}
