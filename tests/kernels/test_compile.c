/* Every kernel of the ops, in every dtype, compiles in both languages. With
 * LOWER_ONLY they are made, and no compiler is run: sanitizers see nothing of
 * it. With the argument "all", portable products are in every format, and else
 * in one of each kind; PTX is in every format anyway, as the assembler spills
 * where nobody expects it, but then for every architecture, and for warp groups
 * of every number of rows. */
#include "compiler.h"
#include "kernels_templates.h"
#include "ptx.h"
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool all; /* the argument */

static const gpu_target base = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
};

#define T(...) graph_tensor(&g, __VA_ARGS__)
#define INPUTS(...)                                                            \
    (const uint32_t[])                                                         \
    {                                                                          \
        __VA_ARGS__, CLV_NO_TENSOR                                             \
    }

static void compile_elements(compiler *c)
{
    static const uint32_t ops[] = {CLV_OP_ADD,   CLV_OP_MUL,   CLV_OP_SILU,
                                   CLV_OP_GELU,  CLV_OP_GLU,   CLV_OP_GLU,
                                   CLV_OP_ROUND, CLV_OP_EXCESS};
    for (uint32_t i = 0; i < 8; i++) {
        graph g;
        graph_init(&g);
        uint32_t a = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 77);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 77);
        clv_node *n;
        if (clv_op_find(ops[i])->n_inputs == 1) {
            n = graph_node(&g, ops[i], y, INPUTS(a));
            if (ops[i] == CLV_OP_ROUND)
                n->attr.round.scale = 0.01f;
        } else {
            uint32_t b = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 77);
            n = graph_node(&g, ops[i], y, INPUTS(a, b));
        }
        if (i == 5)
            n->attr.glu.activation = CLV_ACT_GELU_TANH;
        graph_symbol(&g, 5);
        compiler_add(c, &g);
    }
}

static void compile_conversions(compiler *c)
{
    static const uint32_t from[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                    CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
                                    CLV_DTYPE_Q4_0};
    for (uint32_t i = 0; i < 15; i++) {
        if (i >= 5 && i % 5 > 1)
            continue; /* what is new is only the type written */
        for (uint32_t apart = 0; apart < 2; apart++) {
            if (apart && i % 4)
                continue;
            graph g;
            graph_init(&g);
            uint32_t x = T(from[i % 5], CLV_USAGE_INPUT, 4, 64);
            uint32_t y = T(from[i / 5], CLV_USAGE_OUTPUT, 4, 64);
            if (apart) {
                g.tensors[y].strides[1] = 16;
                g.tensors[y].strides[0] = 4;
            }
            graph_node(&g, CLV_OP_CONVERT, y, INPUTS(x));
            compiler_add(c, &g);
        }
    }
}

static void compile_rows(compiler *c)
{
    static const uint32_t tables[] = {
        CLV_DTYPE_F32,  CLV_DTYPE_F16, CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
        CLV_DTYPE_Q4_0, CLV_DTYPE_I8,  CLV_DTYPE_I4};
    for (uint32_t i = 0; i < 7; i++) {
        graph g;
        graph_init(&g);
        uint32_t table = T(tables[i], CLV_USAGE_WEIGHT, 9, 64);
        uint32_t ids = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 64);
        if (i >= 5) {
            uint32_t scales = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 9, 2);
            g.tensors[table].quant = CLV_QUANT_PER_GROUP;
            g.tensors[table].quant_group = 32;
            g.tensors[table].quant_scales = 1 + scales;
        }
        graph_node(&g, CLV_OP_GET_ROWS, y, INPUTS(table, ids));
        compiler_add(c, &g);
    }
    for (uint32_t i = 0; i < 4; i++) { /* Q8_0 is the last that is written */
        graph g;
        graph_init(&g);
        uint32_t state = T(tables[i], CLV_USAGE_STATE, 9, 64);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 64);
        uint32_t ids = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5);
        graph_node(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(state, x, ids));
        compiler_add(c, &g);
    }
}

static void compile_norms(compiler *c)
{
    static const uint32_t ops[] = {CLV_OP_RMS_NORM, CLV_OP_LAYER_NORM,
                                   CLV_OP_LAYER_NORM, CLV_OP_SOFTMAX,
                                   CLV_OP_ROPE};
    for (uint32_t i = 0; i < 5; i++) {
        graph g;
        graph_init(&g);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 64);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 64);
        uint32_t w = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, 64);
        uint32_t pos = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5);
        uint32_t freq = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, 8);
        if (ops[i] == CLV_OP_ROPE)
            graph_node(&g, ops[i], y, INPUTS(x, pos, freq))
                ->attr.rope.head_dim = 32;
        else if (ops[i] == CLV_OP_SOFTMAX)
            graph_node(&g, ops[i], y, INPUTS(x));
        else
            graph_node(&g, ops[i], y, i == 2 ? INPUTS(x, w, w) : INPUTS(x, w));
        compiler_add(c, &g);
    }
}

static void compile_all(compiler *c)
{
    compile_elements(c);
    compile_conversions(c);
    compile_rows(c);
    compile_norms(c);
    assert_true(c->kernels > 0);
    print_message("%u kernels\n", (unsigned)c->kernels);
}

static void test_opencl(void **state)
{
    compiler c = {.all = all, .target = base};
    cl_platform_id platform;
    cl_uint n = 0;
    cl_int status;
    (void)state;
    if (clGetPlatformIDs(1, &platform, &n) || !n ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &c.device, &n) || !n)
        skip();
    c.context = clCreateContext(NULL, 1, &c.device, NULL, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    compile_all(&c);
    compiler_finish(&c);
    clReleaseContext(c.context);
}

/* Without what devices may lack, and with it: what is then the same compiles
 * once. */
static void test_glsl(void **state)
{
    compiler c = {.all = all, .target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    compile_all(&c);
    c.target.fp16_storage = true;
    c.target.subgroup = 8;
    compile_all(&c);
    compiler_finish(&c);
}

/* Products of many rows and of one, in formats of every kind, and of experts.
 */
static void compile_products(compiler *c)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_F16,  CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
        CLV_DTYPE_Q6_K, CLV_DTYPE_I4,   CLV_DTYPE_Q8_0,
        CLV_DTYPE_Q5_K, CLV_DTYPE_Q2_K, CLV_DTYPE_I8};
    const uint32_t n = all ? 9 : 5, n_integers = all ? 2 : 1;
    for (uint32_t i = 0; i < 2 * n; i++) {
        const uint32_t dtype = dtypes[i / 2];
        const int64_t in = clv_format_of(dtype)->elements == 256 ? 256 : 96;
        graph g;
        graph_init(&g);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, i % 2 ? 1 : 40, in);
        uint32_t w = T(dtype, CLV_USAGE_WEIGHT, 70, in);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, i % 2 ? 1 : 40, 70);
        graph_node(&g, CLV_OP_MATMUL, y, INPUTS(x, w));
        if (clv_format_is(dtype, CLV_FORMAT_INTEGER)) {
            T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 70, 3);
            g.tensors[w].quant = CLV_QUANT_PER_GROUP;
            g.tensors[w].quant_group = 32;
            g.tensors[w].quant_scales = g.sub.n_tensors;
        }
        compiler_add(c, &g);
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t in = clv_format_of(dtypes[i])->elements == 256 ? 256 : 96;
        if (clv_format_is(dtypes[i], CLV_FORMAT_INTEGER))
            continue;
        graph g;
        graph_init(&g);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 40, in);
        uint32_t w = T(dtypes[i], CLV_USAGE_WEIGHT, 64, in);
        uint32_t ids = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 40, 2);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 40, 2 * 64);
        clv_tensor_desc *experts = &g.tensors[w];
        experts->rank = 3;
        memcpy(experts->dims, (int64_t[]){4, 64, in}, 3 * sizeof in);
        memset(experts->strides, 0, sizeof experts->strides);
        graph_node(&g, CLV_OP_MATMUL_EXPERTS, y, INPUTS(x, w, ids));
        compiler_add(c, &g);
    }
    compiler_finish(c);
    assert_true(c->kernels >= 4 * n + 3 * (n - n_integers));
}

/* Products by cooperative matrices: words of no version of GLSL. */
static void test_glsl_matrices(void **state)
{
    compiler c = {.all = all, .target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    c.target.fp16_storage = c.target.fp16 = c.target.coop_matrix = true;
    c.target.coop_bytes = true;
    c.target.subgroup = 32;
    compile_products(&c);
}

static void init_experts(graph *g, uint32_t dtype, int64_t rows, bool scored)
{
    const int64_t in = 1280, out = 64;
    graph_init(g);
    uint32_t x = graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows,
                              scored ? 2 * in : in);
    uint32_t w = graph_tensor(g, dtype, CLV_USAGE_WEIGHT, 4 * out, in);
    uint32_t ids = graph_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, rows, 2);
    uint32_t y = graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows,
                              scored ? out : 2 * out);
    uint32_t scores = graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, 4);
    clv_tensor_desc *experts = &g->tensors[w];
    experts->rank = 3;
    memcpy(experts->dims, (int64_t[]){4, out, in}, 3 * sizeof in);
    memset(experts->strides, 0, sizeof experts->strides);
    graph_node(g, CLV_OP_MATMUL_EXPERTS, y,
               INPUTS(x, w, ids, scored ? scores : CLV_NO_TENSOR));
}

/* Warp groups for every number of rows. */
/* known: the scale of x; or 0. few: the most rows alone. */
static void compile_shapes(compiler *c, uint32_t dtype, float known, bool few)
{
    const bool integers = dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4;
    gpu_variants variants;
    uint32_t seen = 0;
    graph g;
    graph_init(&g);
    uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 200, 1024);
    uint32_t w = T(dtype, CLV_USAGE_WEIGHT, 256, 1024);
    uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 200, 256);
    if (integers) {
        g.tensors[w].quant = CLV_QUANT_PER_CHANNEL;
        g.tensors[w].quant_scales =
            1 + T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, 256);
    }
    graph_node(&g, CLV_OP_MATMUL, y, INPUTS(x, w))->attr.matmul.input_scale =
        known;
    gpu_list_variants(&c->target, &g.sub, 0, &variants);
    assert_true(variants.n >= 3);
    c->only = known > 0 ? "gemm_wgmma_int8" : "gemm_wgmma";
    for (uint32_t i = 0; i < variants.n; i++) {
        char choice[GPU_KEY_SIZE + 16];
        const uint32_t rows = variants.id[i] >> 16 & 15;
        if (seen >> rows & 1)
            continue;
        seen |= 1u << rows;
        if (few && rows != 8)
            continue;
        snprintf(choice, sizeof choice, "%s=%u", variants.key,
                 (unsigned)variants.id[i]);
        c->target.choices = choice;
        compiler_add(c, &g);
    }
    c->target.choices = NULL;
    assert_int_equal(seen, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8);
    if (integers)
        return;
    init_experts(&g, dtype, 200, true);
    const uint32_t kernels = c->kernels;
    compiler_add(c, &g);
    assert_int_equal(c->kernels, kernels + 1);
}

static void open_text(const char *text, const char *want, const char *reason)
{
    const char *why = NULL;
    char *opened = gpu_ptx_open(&test_host, text, strlen(text) + 1, &why);
    if (want)
        assert_string_equal(opened, want);
    else
        assert_null(opened);
    if (reason)
        assert_string_equal(why, reason);
    clv_free(&test_host, opened);
}

/* What a driver gives as a program's binary, opened. */
static void test_ptx_opened(void **state)
{
    (void)state;
    open_text("// by a compiler\n.version 7.5\n.target sm_90, texmode\n"
              "//@a;\n\t//@{ b; }\n// c\n",
              "// by a compiler\n.version 8.0\n.target sm_90a, texmode\n"
              "a;\n\t{ b; }\n// c\n",
              NULL);
    open_text(".version 9.0\n.target sm_90\n//@a;//@b;",
              ".version 9.0\n.target sm_90a\na;b;", NULL);
    open_text("\177ELF //@", NULL, "its binary is no PTX");
    open_text(".target sm_90\n//@", NULL, "its binary is no PTX");
    open_text(".version 9.0\n.target sm_90\na;", NULL,
              "its PTX lost what is to be opened");
    assert_true(gpu_ptx_is_closed("asm(\"//@a;\")"));
    assert_false(gpu_ptx_is_closed("// a"));
}

static void detach_text(const char *text, const char *want)
{
    const char *why = NULL;
    char *out = gpu_ptx_detach(&test_host, text, &why);
    if (want)
        assert_string_equal(out, want);
    else
        assert_null(out);
    assert_int_equal(why != NULL, want == NULL);
    clv_free(&test_host, out);
}

/* Registers that OpenCL alone sets are not read any more. */
static void test_ptx_detached(void **state)
{
    (void)state;
    detach_text("mov.b32 %r1, %envreg0;\nmov.b32 %r2, %envreg5;\n",
                "mov.b32 %r1, 0;\nmov.b32 %r2, 0;\n");
    detach_text("%envreg6 %envreg7 %envreg8", "%nctaid.x %nctaid.y %nctaid.z");
    detach_text("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x;");
    detach_text("mov.b32 %r1, %envreg9;", NULL);
    detach_text("mov.b32 %r1, %envreg12;", NULL);
    detach_text("mov.b32 %r1, %envreg;", NULL);
}

/* Gate and up behind a norm, of rows that a group keeps in registers or not. */
static void compile_gated(compiler *c, uint32_t dtype, int64_t in)
{
    graph g;
    graph_init(&g);
    uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 200, in);
    uint32_t gain = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, in);
    uint32_t norm = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 200, in);
    uint32_t two[2], y = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 200, 256);
    uint32_t seen = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 200, 256);
    graph_node(&g, CLV_OP_RMS_NORM, norm, INPUTS(x, gain));
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t w = T(dtype, CLV_USAGE_WEIGHT, 256, in);
        two[k] = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 200, 256);
        graph_node(&g, CLV_OP_MATMUL, two[k], INPUTS(norm, w));
    }
    graph_node(&g, CLV_OP_GLU, y, INPUTS(two[0], two[1]));
    graph_node(&g, CLV_OP_SOFTMAX, seen, INPUTS(y));
    c->only = NULL;
    compiler_add(c, &g);
}

static void set_nvidia(gpu_target *target)
{
    target->nvidia_ptx = true;
    target->local_bytes = 49152;
    target->units = 132;
}

/* By warp groups of sm_90a. */
static void test_ptx_warp_groups(void **state)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_F16,  CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K, CLV_DTYPE_I8,
        CLV_DTYPE_BF16, CLV_DTYPE_Q8_0, CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K,
        CLV_DTYPE_Q2_K, CLV_DTYPE_I4};
    compiler c = {.all = all, .target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.wgmma_bytes = 232448;
    for (uint32_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        compile_shapes(&c, dtypes[i], 0, !all && i >= 4);
    compile_shapes(&c, CLV_DTYPE_I8, 0.5f, false);
    compile_shapes(&c, CLV_DTYPE_I4, 0.5f, !all);
    c.target.max_group = c.target.max_group_size[0] = 1024;
    for (int64_t in = 4096; in <= 28672; in *= 7)
        compile_gated(&c, CLV_DTYPE_Q4_K, in);
    compiler_finish(&c);
    if (!PTXAS[0])
        print_message("no ptxas: not assembled\n");
}

/* By NVIDIA's tensor cores. */
static void test_ptx(void **state)
{
    compiler c = {.all = all, .target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    if (!PTXAS[0])
        print_message("no ptxas: not assembled\n");
    compile_products(&c);
}

/* Of q, a row of so many channels, by heads of which four share a cache. */
static uint32_t add_attention(graph *g, uint32_t cache, uint32_t q,
                              uint32_t pos, int64_t channels)
{
    uint32_t keys = graph_tensor(g, cache, CLV_USAGE_STATE, 8192, channels / 4);
    uint32_t values =
        graph_tensor(g, cache, CLV_USAGE_STATE, 8192, channels / 4);
    uint32_t y =
        graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, channels);
    clv_node *node =
        graph_node(g, CLV_OP_ATTENTION, y, INPUTS(q, keys, values, pos));
    node->attr.attention.head_dim = 128;
    node->attr.attention.scale = 0.1f;
    return y;
}

/* What a layer of products begins with, and what one more begins with. */
typedef struct series_inputs {
    int64_t rows;
    uint32_t x, sum, norm, pos, freq;
    uint32_t seen[3], n_seen; /* of which a softmax is made in the end */
} series_inputs;

static uint32_t add_value(graph *g, const series_inputs *in, int64_t channels)
{
    return graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, in->rows,
                        channels);
}

/* A product of the first type and its sum with what was before it; behind the
 * norm of that two products of the second type, of as many channels as out. */
static void add_products(graph *g, series_inputs *in, const uint32_t dtypes[2],
                         int64_t from, int64_t hidden, int64_t out,
                         uint32_t two[2])
{
    uint32_t w = graph_tensor(g, dtypes[0], CLV_USAGE_WEIGHT, hidden, from);
    uint32_t gain = graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, hidden);
    uint32_t y = add_value(g, in, hidden), sum = add_value(g, in, hidden);
    uint32_t norm = add_value(g, in, hidden);
    graph_node(g, CLV_OP_MATMUL, y, INPUTS(in->x, w));
    graph_node(g, CLV_OP_ADD, sum, INPUTS(y, in->sum));
    graph_node(g, CLV_OP_RMS_NORM, norm, INPUTS(sum, gain));
    in->sum = sum;
    in->norm = norm;
    for (uint32_t k = 0; k < 2; k++) {
        w = graph_tensor(g, dtypes[1], CLV_USAGE_WEIGHT, out, hidden);
        two[k] = add_value(g, in, out);
        graph_node(g, CLV_OP_MATMUL, two[k], INPUTS(norm, w));
    }
}

/* What a product gives a cache. */
static void add_values(graph *g, const series_inputs *in, uint32_t dtype,
                       int64_t hidden)
{
    const int64_t channels = hidden / 4;
    uint32_t w = graph_tensor(g, dtype, CLV_USAGE_WEIGHT, channels, hidden);
    uint32_t cache =
        graph_tensor(g, CLV_DTYPE_F16, CLV_USAGE_STATE, 8192, channels);
    uint32_t v = add_value(g, in, channels);
    graph_node(g, CLV_OP_MATMUL, v, INPUTS(in->norm, w));
    graph_node(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(cache, v, in->pos));
}

/* cache: the layer begins with an attention over one of that kind, or 0; down:
 * the type of the product behind gates and, if it is another, of values. */
static void add_layer(graph *g, series_inputs *in, uint32_t dtype,
                      uint32_t down, uint32_t cache, int64_t hidden,
                      int64_t inner)
{
    uint32_t two[2];
    if (cache)
        in->x = add_attention(g, cache, in->x, in->pos, hidden);
    add_products(g, in, (const uint32_t[]){dtype, dtype}, hidden, hidden, inner,
                 two);
    in->x = add_value(g, in, inner);
    graph_node(g, CLV_OP_GLU, in->x, INPUTS(two[0], two[1]));
    add_products(g, in, (const uint32_t[]){down, dtype}, inner, hidden, hidden,
                 two);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t turned = add_value(g, in, hidden);
        graph_node(g, CLV_OP_ROPE, turned, INPUTS(two[k], in->pos, in->freq))
            ->attr.rope.head_dim = 128;
        two[k] = turned;
    }
    in->x = two[0];
    in->seen[in->n_seen++] = two[1];
    if (down != dtype)
        add_values(g, in, down, hidden);
}

/* Products that follow one another; cache: two layers of them, each behind an
 * attention over one of that kind, or 0. */
static void compile_mixed(compiler *c, uint32_t dtype, uint32_t down,
                          uint32_t cache, int64_t rows, int64_t hidden,
                          int64_t inner)
{
    graph g;
    graph_init(&g);
    series_inputs in = {.rows = rows,
                        .x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, hidden),
                        .sum = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, hidden),
                        .pos = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, rows),
                        .freq = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, 64)};
    for (uint32_t i = 0; i < (cache ? 2 : 1); i++)
        add_layer(&g, &in, dtype, down, cache, hidden, inner);
    in.seen[in.n_seen++] = in.x;
    for (uint32_t k = 0; k < in.n_seen; k++) {
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows, hidden);
        graph_node(&g, CLV_OP_SOFTMAX, y, INPUTS(in.seen[k]));
    }
    c->only = rows == 1 ? "gemv_series" : "gemv_series_rows";
    compiler_add(c, &g);
}

static void compile_series(compiler *c, uint32_t dtype, uint32_t cache,
                           int64_t rows, int64_t hidden, int64_t inner)
{
    compile_mixed(c, dtype, dtype, cache, rows, hidden, inner);
}

/* By groups that stay, of sm_90a. */
static void test_ptx_series(void **state)
{
    /* With an attention a kernel has all that it has without, and more. */
    static const uint32_t cases[][2] = {{CLV_DTYPE_Q4_K, CLV_DTYPE_Q8_0},
                                        {CLV_DTYPE_F16, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q8_0, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q4_0, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q4_1, 0},
                                        {CLV_DTYPE_Q3_K, 0},
                                        {CLV_DTYPE_Q2_K, 0},
                                        {CLV_DTYPE_Q5_K, 0},
                                        {CLV_DTYPE_Q6_K, 0},
                                        {CLV_DTYPE_Q4_K, 0},
                                        {CLV_DTYPE_Q4_0, 0},
                                        {CLV_DTYPE_F16, 0},
                                        {CLV_DTYPE_Q8_0, 0}};
    static const uint32_t rows[] = {CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                    CLV_DTYPE_F16,  CLV_DTYPE_Q8_0,
                                    CLV_DTYPE_Q6_K, CLV_DTYPE_Q2_K};
    const uint32_t n = all ? sizeof cases / sizeof cases[0] : 9;
    const uint32_t n_rows = all ? sizeof rows / sizeof rows[0] : 3;
    compiler c = {.all = all, .target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.wgmma_bytes = 232448;
    c.target.series = true;
    c.target.repeats = UINT32_MAX;
    c.target.max_group = c.target.max_group_size[0] = 1024;
    for (uint32_t i = 0; i < n; i++)
        compile_series(&c, cases[i][0], cases[i][1], 1, 4096, 14336);
    for (uint32_t i = 0; i < n_rows; i++)
        compile_series(&c, rows[i], 0, 8, 4096, 14336);
    compile_mixed(&c, CLV_DTYPE_Q4_K, CLV_DTYPE_Q6_K, CLV_DTYPE_F16, 1, 4096,
                  14336);
    compile_mixed(&c, CLV_DTYPE_Q4_K, CLV_DTYPE_Q6_K, 0, 8, 4096, 14336);
    if (all)
        compile_mixed(&c, CLV_DTYPE_F16, CLV_DTYPE_Q2_K, CLV_DTYPE_F16, 1, 4096,
                      14336);
    compiler_finish(&c);
    assert_int_equal(c.kernels, n + n_rows + (all ? 3 : 2));
    /* Too small for groups of eight warps. */
    c.kernels = 0;
    compile_series(&c, CLV_DTYPE_Q8_0, 0, 1, 256, 512);
    assert_int_equal(c.kernels, 0);
}

/* The only series of the graph, which sends its results of so many bytes, takes
 * all that a launch that exchanges gives. */
static void check_exchange(const compiler *c, const graph *g, uint64_t bytes)
{
    gpu_code *code;
    uint32_t given = 0, n = 0;
    assert_int_equal(gpu_lower(&test_host, &c->target, &g->sub, &code), CLV_OK);
    for (uint32_t i = 0; i < code->n_dispatches; i++) {
        const gpu_dispatch *d = &code->dispatches[i];
        const gpu_kernel *k = &code->kernels[d->kernel];
        if (strcmp(k->name, c->only) != 0)
            continue;
        n++;
        assert_true(d->exchanges);
        assert_int_equal(d->sent_bytes, bytes);
        assert_in_range(d->sent, 1, k->n_args);
        assert_true(d->args[d->sent - 1].written);
        for (uint32_t p = 0; p < k->n_params; p++)
            if (d->params[p].given)
                given |= 1u << (d->params[p].given - 1);
    }
    assert_int_equal(n, 1);
    assert_int_equal(given, (1u << 2 * GPU_EXCHANGE_VALUES) - 1);
    gpu_code_free(&test_host, code);
}

/* What a series of one row may begin with: a sum, which is written as well but
 * for the last one. */
static void test_ptx_sums(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_F16, CLV_DTYPE_Q8_0};
    const int64_t n = 4096;
    compiler c = {.all = all, .target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.wgmma_bytes = 232448;
    c.target.max_group = c.target.max_group_size[0] = 1024;
    c.target.series = true;
    c.only = "gemv_series";
    for (uint32_t i = 0; i < 4; i++) {
        graph g;
        graph_init(&g);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, n);
        for (uint32_t k = 0; k < 2; k++) {
            const bool seen = k && i < 3;
            uint32_t term = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, n);
            uint32_t sum =
                T(CLV_DTYPE_F32, seen ? CLV_USAGE_OUTPUT : CLV_USAGE_TRANSIENT,
                  1, n);
            graph_node(&g, CLV_OP_ADD, sum, INPUTS(x, term));
            x = sum;
        }
        uint32_t gain = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, n);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, n);
        uint32_t w = T(dtypes[i], CLV_USAGE_WEIGHT, n, n);
        uint32_t out = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, n);
        uint32_t seen = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, n);
        graph_node(&g, CLV_OP_RMS_NORM, y, INPUTS(x, gain));
        graph_node(&g, CLV_OP_MATMUL, out, INPUTS(y, w));
        graph_node(&g, CLV_OP_SOFTMAX, seen, INPUTS(out));
        compiler_add(&c, &g);
        check_exchange(&c, &g, (uint64_t)n * 4);
    }
    compiler_finish(&c);
    assert_int_equal(c.kernels, 4);
}

/* By which devices wait for each other. */
static void test_ptx_waits(void **state)
{
    compiler c = {.all = all, .target = base, .assembles = true};
    (void)state;
    if (!CLANG[0])
        skip();
    compiler_add_text(&c, "wait_and_fetch", gpu_template_wait_and_fetch);
    compiler_add_text(&c, "store_and_signal", gpu_template_store_and_signal);
    compiler_finish(&c);
}

/* Products of one row with weights as bound. */
static void test_ptx_scarce(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q6_K};
    compiler c = {.all = all, .target = base, .assembles = true};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.scarce = true;
    for (uint32_t i = 0; i < 5; i++) {
        gpu_variants variants;
        graph g;
        graph_init(&g);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, 1280);
        uint32_t w = T(dtypes[i], CLV_USAGE_WEIGHT, 70, 1280);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, 70);
        graph_node(&g, CLV_OP_MATMUL, y, INPUTS(x, w));
        gpu_list_variants(&c.target, &g.sub, 0, &variants);
        c.only = "gemv_staged";
        for (uint32_t v = 0; v < variants.n; v++) {
            char choice[GPU_KEY_SIZE + 16];
            snprintf(choice, sizeof choice, "%s=%u", variants.key,
                     (unsigned)variants.id[v]);
            c.target.choices = choice;
            compiler_add(&c, &g);
        }
        c.target.choices = NULL;
        for (uint32_t scored = 0; scored < 2; scored++) {
            init_experts(&g, dtypes[i], 1, scored);
            c.only = scored ? "experts_gemv_sum" : "experts_gemv";
            compiler_add(&c, &g);
        }
    }
    compiler_finish(&c);
    assert_int_equal(c.kernels, 5 * (5 + 2));
}

/* Products of experts for one row with weights in the device's layout. */
static void test_ptx_private_experts(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16,  CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    compiler c = {.all = all, .target = base, .assembles = true};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    for (uint32_t i = 0; i < 12; i++) {
        graph g;
        init_experts(&g, dtypes[i / 2], 1, i % 2);
        g.tensors[1].layout = CLV_LAYOUT_PRIVATE;
        compiler_add(&c, &g);
    }
    compiler_finish(&c);
    assert_int_equal(c.kernels, 12);
}

/* Rows out of tables in the device's layout. */
static void test_ptx_private_tables(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16,  CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    compiler c = {.all = all, .target = base, .assembles = true};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    for (uint32_t i = 0; i < 6; i++) {
        graph g;
        graph_init(&g);
        uint32_t table = T(dtypes[i], CLV_USAGE_WEIGHT, 32, 512);
        uint32_t ids = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 5, 512);
        g.tensors[table].layout = CLV_LAYOUT_PRIVATE;
        graph_node(&g, CLV_OP_GET_ROWS, y, INPUTS(table, ids));
        compiler_add(&c, &g);
    }
    compiler_finish(&c);
    assert_int_equal(c.kernels, 6);
}

/* A few queries, or many, of heads of so many channels. */
static void compile_attention(compiler *c, int64_t n, int64_t dim,
                              uint32_t cache)
{
    graph g;
    graph_init(&g);
    uint32_t q = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, n, 12 * dim);
    uint32_t k = T(cache, CLV_USAGE_STATE, 400, 4 * dim);
    uint32_t v = T(cache, CLV_USAGE_STATE, 400, 4 * dim);
    uint32_t at = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n);
    uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, 12 * dim);
    clv_node *node = graph_node(&g, CLV_OP_ATTENTION, y, INPUTS(q, k, v, at));
    node->attr.attention.head_dim = (uint32_t)dim;
    node->attr.attention.scale = 0.1f;
    compiler_add(c, &g);
}

/* Attention by them, by its own words and in plain ones; with parts, too. */
static void test_glsl_attention(void **state)
{
    compiler c = {.all = all, .target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    c.target.fp16_storage = c.target.fp16 = true;
    c.target.subgroup = 32;
    c.target.units = 100;
    for (uint32_t i = 0; i < 6; i++) {
        c.target.plain_matrix = i == 3 || i == 5;
        c.target.coop_matrix = !c.target.plain_matrix;
        compile_attention(&c, i < 2 ? 2 : 300, i == 1 || i == 3 ? 40 : 128,
                          i < 4 ? CLV_DTYPE_F16 : CLV_DTYPE_Q8_0);
    }
    compiler_finish(&c);
    assert_true(c.kernels >= 6 + 3);
}

static void test_ptx_attention(void **state)
{
    compiler c = {.all = all, .target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    for (uint32_t i = 0; i < 4; i++)
        compile_attention(&c, i % 2 ? 300 : 2, 128,
                          i < 2 ? CLV_DTYPE_F16 : CLV_DTYPE_Q8_0);
    compiler_finish(&c);
    assert_true(c.kernels >= 4);
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glsl),
        cmocka_unit_test(test_glsl_matrices),
        cmocka_unit_test(test_ptx_opened),
        cmocka_unit_test(test_ptx_detached),
        cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_ptx_warp_groups),
        cmocka_unit_test(test_ptx_series),
        cmocka_unit_test(test_ptx_sums),
        cmocka_unit_test(test_ptx_waits),
        cmocka_unit_test(test_ptx_scarce),
        cmocka_unit_test(test_ptx_private_experts),
        cmocka_unit_test(test_ptx_private_tables),
        cmocka_unit_test(test_glsl_attention),
        cmocka_unit_test(test_ptx_attention),
        cmocka_unit_test(test_opencl),
    };
    return cmocka_run_group_tests_name("kernels compile", tests, NULL, NULL);
}
