/* What devices are said to take for a node beside what is bound, against what
 * the code of feed-forward parts takes, lowered for several devices. */
#include "kernels.h"
#include "lower/check.h"

#include "graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Nothing is run, so the sizes are those of models. */
enum { EMBD = 4096, FF = 14336, EXPERTS = 8, USED = 2 };

/* What is said may be so many times what is taken. */
#define MOST 4

static const gpu_target plain = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = (uint64_t)1 << 32,
    .units = 16,
};

static uint32_t weights(graph *g, uint32_t dtype, int64_t experts, int64_t out,
                        int64_t in)
{
    const uint32_t t = graph_tensor(g, dtype, CLV_USAGE_WEIGHT,
                                    (experts ? experts : 1) * out, in);
    if (experts) {
        g->tensors[t].rank = 3;
        g->tensors[t].dims[0] = experts;
        g->tensors[t].dims[1] = out;
        g->tensors[t].dims[2] = in;
        g->tensors[t].strides[2] = g->tensors[t].strides[1];
        g->tensors[t].strides[1] = g->tensors[t].strides[0];
        g->tensors[t].strides[0] *= out;
    }
    return t;
}

#define TENSOR(type, usage, columns)                                           \
    graph_tensor(g, CLV_DTYPE_##type, CLV_USAGE_##usage, n, columns)
#define NODE(op, out, ...)                                                     \
    graph_node(g, CLV_OP_##op, out,                                            \
               (const uint32_t[]){__VA_ARGS__, CLV_NO_TENSOR})

static void build_dense(graph *g, uint32_t dtype, int64_t n)
{
    graph_init(g);
    const uint32_t x = TENSOR(F32, INPUT, EMBD);
    const uint32_t gate = TENSOR(F32, TRANSIENT, FF);
    const uint32_t up = TENSOR(F32, TRANSIENT, FF);
    const uint32_t mid = TENSOR(F32, TRANSIENT, FF);
    const uint32_t sum = TENSOR(F32, TRANSIENT, EMBD);
    const uint32_t y = TENSOR(F32, OUTPUT, EMBD);
    NODE(MATMUL, gate, x, weights(g, dtype, 0, FF, EMBD));
    NODE(MATMUL, up, x, weights(g, dtype, 0, FF, EMBD));
    NODE(GLU, mid, gate, up);
    NODE(MATMUL, sum, mid, weights(g, dtype, 0, EMBD, FF));
    NODE(ADD, y, x, sum);
    graph_symbol(g, n);
}

static void build_experts(graph *g, uint32_t dtype, int64_t n)
{
    graph_init(g);
    const uint32_t x = TENSOR(F32, INPUT, EMBD);
    const uint32_t ids = TENSOR(I32, INPUT, USED);
    const uint32_t scores = TENSOR(F32, INPUT, EXPERTS);
    const uint32_t gate = TENSOR(F32, TRANSIENT, USED * FF);
    const uint32_t up = TENSOR(F32, TRANSIENT, USED * FF);
    const uint32_t mid = TENSOR(F32, TRANSIENT, USED * FF);
    const uint32_t y = TENSOR(F32, OUTPUT, EMBD);
    const uint32_t gate_w = weights(g, dtype, EXPERTS, FF, EMBD);
    const uint32_t up_w = weights(g, dtype, EXPERTS, FF, EMBD);
    const uint32_t down_w = weights(g, dtype, EXPERTS, EMBD, FF);
    clv_node *nodes[] = {NODE(MATMUL_EXPERTS, gate, x, gate_w, ids),
                         NODE(MATMUL_EXPERTS, up, x, up_w, ids)};
    NODE(GLU, mid, gate, up);
    clv_node *down = NODE(MATMUL_EXPERTS, y, mid, down_w, ids, scores);
    for (uint32_t i = 0; i < 2; i++)
        nodes[i]->attr.experts.total = EXPERTS;
    down->attr.experts.total = EXPERTS;
    graph_symbol(g, n);
}

/* Of the node for which most is said. */
static uint64_t said(const gpu_target *target, const graph *g)
{
    clv_op_caps caps[GRAPH_NODES];
    uint64_t most = 0;
    for (uint32_t i = 0; i < GRAPH_NODES; i++)
        caps[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    gpu_caps(target, &g->sub, caps, sizeof *caps);
    for (uint32_t i = 0; i < g->sub.n_nodes; i++) {
        assert_int_not_equal(caps[i].answer, CLV_ANSWER_NO);
        most = caps[i].scratch_size > most ? caps[i].scratch_size : most;
    }
    return most;
}

static uint64_t taken(const gpu_target *target, const graph *g)
{
    gpu_code *code;
    uint64_t sum = 0;
    if (gpu_lower(&test_host, target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    for (uint32_t i = 0; i < code->n_privates; i++)
        if (!code->privates[i].weights)
            sum += code->privates[i].size;
    gpu_code_free(&test_host, code);
    return sum;
}

static void check(const gpu_target *target, const char *name)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K};
    static const int64_t rows[] = {1, 8, 32, 512, 2048};
    for (uint32_t i = 0; i < 4 * 5 * 2; i++) {
        const uint32_t dtype = dtypes[i / 10];
        const int64_t n = rows[i / 2 % 5];
        graph g;
        (i % 2 ? build_experts : build_dense)(&g, dtype, n);
        const uint64_t should = said(target, &g), is = taken(target, &g);
        print_message("%s, %s of %s, %lld rows: %.1f MB said, %.1f taken\n",
                      name, i % 2 ? "experts" : "dense", clv_dtype_label(dtype),
                      (long long)n, (double)should / 1e6, (double)is / 1e6);
        assert_true(is <= should);
        if (n >= 2048)
            assert_true((double)should <= MOST * (double)is);
    }
}

static void check_nvidia(uint32_t units, uint32_t wgmma_bytes, const char *name)
{
    gpu_target target = plain;
    target.nvidia_ptx = target.scarce = true;
    target.local_bytes = 49152;
    target.units = units;
    target.wgmma_bytes = wgmma_bytes;
    check(&target, name);
}

static void test_wgmma(void **state)
{
    (void)state;
    check_nvidia(132, 200 << 10, "warp groups");
}

static void test_matrices(void **state)
{
    (void)state;
    check_nvidia(80, 0, "tensor cores");
}

static void test_plain(void **state)
{
    (void)state;
    check(&plain, "plain");
}

static void test_slices(void **state)
{
    gpu_target target = plain;
    (void)state;
    target.slices = 1 + CLV_STORAGE_BUFFER;
    target.int_dot = true;
    check(&target, "slices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wgmma), cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_plain), cmocka_unit_test(test_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
