/* Every kernel of the ops, in every dtype, compiles in both languages. */
#include "graph.h"
#include "kernels.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const gpu_target base = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
};

typedef struct compiler {
    gpu_target target;
    cl_context context;
    cl_device_id device;
    uint32_t kernels;
    bool failed;
} compiler;

static void show(const gpu_kernel *kernel, const char *what)
{
    int line = 1;
    fprintf(stderr, "%s: %s\n%4d ", kernel->name, what, line++);
    for (const char *p = kernel->source; *p; p++) {
        fputc(*p, stderr);
        if (*p == '\n')
            fprintf(stderr, "%4d ", line++);
    }
}

static void compile_opencl(compiler *c, const gpu_kernel *kernel)
{
    cl_int status;
    const char *source = kernel->source;
    char log[4096] = "";
    cl_program program =
        clCreateProgramWithSource(c->context, 1, &source, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    status = clBuildProgram(program, 1, &c->device, "-Werror", NULL, NULL);
    if (status) {
        clGetProgramBuildInfo(program, c->device, CL_PROGRAM_BUILD_LOG,
                              sizeof log, log, NULL);
        show(kernel, log);
        c->failed = true;
    } else {
        cl_uint n = 0;
        cl_kernel k = clCreateKernel(program, kernel->name, &status);
        assert_int_equal(status, CL_SUCCESS);
        clGetKernelInfo(k, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
        assert_int_equal(n, 2 * kernel->n_args + kernel->n_params);
        clReleaseKernel(k);
    }
    clReleaseProgram(program);
}

/* With instructions of sm_80, for a machine that has no such device. */
static void compile_ptx(compiler *c, const gpu_kernel *kernel)
{
    FILE *pipe =
        popen(CLANG " -x cl -cl-std=CL1.2 -Dasm=__asm__ -Wno-everything"
                    " --target=nvptx64-nvidia-nvcl -Xclang"
                    " -finclude-default-header -Xclang -target-cpu"
                    " -Xclang sm_80 -Xclang -target-feature -Xclang"
                    " +ptx75 -S -o /dev/null - >&2",
              "w");
    assert_non_null(pipe);
    fputs(kernel->source, pipe);
    if (pclose(pipe)) {
        show(kernel, "clang refuses it");
        c->failed = true;
    }
}

/* By the compiler's program: Debian's libshaderc.so lacks what it is made of.
 */
static void compile_glsl(compiler *c, const gpu_kernel *kernel)
{
    FILE *pipe = popen(GLSLANG " --stdin -S comp -V --target-env vulkan1.1 "
                               "-o /dev/null >&2",
                       "w");
    assert_non_null(pipe);
    fputs(kernel->source, pipe);
    if (pclose(pipe)) {
        show(kernel, "glslang refuses it");
        c->failed = true;
    }
}

/* Lowers and compiles the graph for the compiler's target. */
static void compile(compiler *c, const graph *g)
{
    gpu_code *code = NULL;
    clv_op_caps caps[GRAPH_NODES];
    for (uint32_t i = 0; i < GRAPH_NODES; i++)
        caps[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    gpu_caps(&c->target, &g->sub, caps, sizeof *caps);
    for (uint32_t i = 0; i < g->sub.n_nodes; i++)
        if (caps[i].answer != CLV_ANSWER_YES)
            fail_msg("refused: %s", caps[i].reason);
    if (gpu_lower(&test_host, &c->target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    assert_true(code->n_dispatches > 0);
    for (uint32_t i = 0; i < code->n_kernels; i++) {
        const gpu_kernel *k = &code->kernels[i];
        assert_true(k->n_args + k->n_params <= GPU_MAX_INTS);
        if (c->target.nvidia_ptx)
            compile_ptx(c, k);
        else if (c->target.language == GPU_OPENCL_C)
            compile_opencl(c, k);
        else
            compile_glsl(c, k);
        c->kernels++;
    }
    gpu_code_free(&test_host, code);
}

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
        compile(c, &g);
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
            compile(c, &g);
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
        compile(c, &g);
    }
    for (uint32_t i = 0; i < 4; i++) { /* Q8_0 is the last that is written */
        graph g;
        graph_init(&g);
        uint32_t state = T(tables[i], CLV_USAGE_STATE, 9, 64);
        uint32_t x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 5, 64);
        uint32_t ids = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 5);
        graph_node(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(state, x, ids));
        compile(c, &g);
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
        compile(c, &g);
    }
}

static void compile_all(compiler *c)
{
    compile_elements(c);
    compile_conversions(c);
    compile_rows(c);
    compile_norms(c);
    assert_false(c->failed);
    assert_true(c->kernels > 0);
    print_message("%u kernels\n", (unsigned)c->kernels);
}

static void test_opencl(void **state)
{
    compiler c = {.target = base};
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
    clReleaseContext(c.context);
}

static void compile_all_glsl(bool halves)
{
    compiler c = {.target = base};
    c.target.language = GPU_GLSL;
    c.target.fp16_storage = halves;
    c.target.subgroup = halves ? 8 : 0;
    compile_all(&c);
}

static void test_glsl(void **state)
{
    (void)state;
    compile_all_glsl(false);
}

static void test_glsl_halves(void **state)
{
    (void)state;
    compile_all_glsl(true);
}

/* Products of many rows and of one, in formats of every kind, and of experts.
 */
static void compile_products(compiler *c)
{
    static const uint32_t dtypes[] = {
        CLV_DTYPE_F16,  CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
        CLV_DTYPE_Q2_K, CLV_DTYPE_Q6_K, CLV_DTYPE_I8,   CLV_DTYPE_I4};
    for (uint32_t i = 0; i < 16; i++) {
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
        compile(c, &g);
    }
    for (uint32_t i = 0; i < 6; i++) {
        const int64_t in = clv_format_of(dtypes[i])->elements == 256 ? 256 : 96;
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
        compile(c, &g);
    }
    assert_false(c->failed);
    assert_true(c->kernels >= 16 + 8 + 8 + 3 * 6);
}

/* Products by cooperative matrices: words of no version of GLSL. */
static void test_glsl_matrices(void **state)
{
    compiler c = {.target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    c.target.fp16_storage = c.target.fp16 = c.target.coop_matrix = true;
    c.target.coop_bytes = true;
    c.target.subgroup = 32;
    compile_products(&c);
}

/* By NVIDIA's tensor cores. */
static void test_ptx(void **state)
{
    compiler c = {.target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    c.target.nvidia_ptx = true;
    c.target.subgroup = 32;
    c.target.local_bytes = 49152;
    c.target.units = 132;
    compile_products(&c);
}

/* Attention by them, by its own words and in plain ones; with parts, too. */
static void test_glsl_attention(void **state)
{
    compiler c = {.target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    c.target.fp16_storage = c.target.fp16 = true;
    c.target.subgroup = 32;
    c.target.units = 100;
    for (uint32_t i = 0; i < 6; i++) {
        const int64_t n = i < 2 ? 2 : 300, dim = i == 1 || i == 3 ? 40 : 128;
        const uint32_t cache = i < 4 ? CLV_DTYPE_F16 : CLV_DTYPE_Q8_0;
        graph g;
        graph_init(&g);
        c.target.plain_matrix = i == 3 || i == 5;
        c.target.coop_matrix = !c.target.plain_matrix;
        uint32_t q = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, n, 12 * dim);
        uint32_t k = T(cache, CLV_USAGE_STATE, 400, 4 * dim);
        uint32_t v = T(cache, CLV_USAGE_STATE, 400, 4 * dim);
        uint32_t at = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n);
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, 12 * dim);
        clv_node *node =
            graph_node(&g, CLV_OP_ATTENTION, y, INPUTS(q, k, v, at));
        node->attr.attention.head_dim = (uint32_t)dim;
        node->attr.attention.scale = 0.1f;
        compile(&c, &g);
    }
    assert_false(c.failed);
    assert_true(c.kernels >= 6 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glsl),
        cmocka_unit_test(test_glsl_halves),
        cmocka_unit_test(test_glsl_matrices),
        cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_glsl_attention),
        cmocka_unit_test(test_opencl),
    };
    return cmocka_run_group_tests_name("kernels compile", tests, NULL, NULL);
}
