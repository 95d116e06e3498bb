/* Every kernel of the ops, in every dtype, compiles in both languages. With
 * LOWER_ONLY they are made, and no compiler is run: sanitizers see nothing of
 * it. With the argument "all", portable products are in every format, and else
 * in one of each kind; PTX is in every format anyway, as the assembler spills
 * where nobody expects it. */
#include "graph.h"
#include "glsl.h"
#include "kernels.h"
#include "ptx.h"
#include "tune/tune.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* For the shell: a macro with the folder's name would be new code in each
 * clone. */
#define NVPTX_H "\"$CLEAVE_TEST_SOURCE/tests/kernels/nvptx.h\""

static bool all; /* the argument */

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
    const char *only; /* the kernel's name; NULL: all */
    bool assembles;   /* kernels without inline assembly, too */
    bool failed;
    char *seen[256]; /* texts that were compiled */
    uint32_t n_seen;
} compiler;

/* Several graphs have the same kernels. */
static bool was_seen(compiler *c, const char *text)
{
    for (uint32_t i = 0; i < c->n_seen; i++)
        if (!strcmp(c->seen[i], text))
            return true;
    assert_true(c->n_seen < sizeof c->seen / sizeof *c->seen);
    c->seen[c->n_seen] = strdup(text);
    assert_non_null(c->seen[c->n_seen++]);
    return false;
}

static void finish(compiler *c)
{
    while (c->n_seen)
        free(c->seen[--c->n_seen]);
    assert_false(c->failed);
}

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
    status = clBuildProgram(program, 1, &c->device, "-Werror -cl-opt-disable",
                            NULL, NULL);
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

/* What ptxas says of the text for the architecture: as it is to run, nothing of
 * a stack, of registers in memory, and of matrix instructions that wait for
 * each other. */
static void assemble(compiler *c, const gpu_kernel *kernel, const char *path,
                     const char *arch)
{
    char command[512], line[512], said[4096] = "";
    bool good = true;
    snprintf(command, sizeof command, PTXAS " -v -arch=%s -o /dev/null %s 2>&1",
             arch, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe)) {
        int stack, stores, loads;
        if (sscanf(line, " %d bytes stack frame, %d bytes spill stores, %d",
                   &stack, &stores, &loads) == 3)
            good = good && !stack && !stores && !loads;
        good = good && !strstr(line, "C75");
        strncat(said, line, sizeof said - strlen(said) - 1);
    }
    if (!pclose(pipe) && good)
        return;
    show(kernel, arch);
    fprintf(stderr, "%s", said);
    c->failed = true;
}

/* The compiler's text, opened if it is to be, over what the file holds. */
static void open_ptx(compiler *c, const gpu_kernel *kernel, const char *path)
{
    static char text[1 << 22];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const char *why = NULL;
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    char *opened = gpu_ptx_open(&test_host, text, n, &why);
    if (!opened) {
        show(kernel, why);
        c->failed = true;
        return;
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(opened, file);
    fclose(file);
    clv_free(&test_host, opened);
}

/* With instructions of sm_80, for a machine that has no such device; and those
 * assembled, where there is an assembler, as PTX of a version that has them
 * all. */
static void compile_ptx(compiler *c, const gpu_kernel *kernel)
{
    static const char *const archs[] = {"sm_90a", "sm_80", "sm_89"};
    const bool closed = gpu_ptx_is_closed(kernel->source);
    const uint32_t n_archs =
        !PTXAS[0] || !(c->assembles || strstr(kernel->source, "asm")) ? 0
        : closed                                                      ? 1
                                                                      : 3;
    char path[] = "/tmp/cleave-ptx-XXXXXX", command[512];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    snprintf(command, sizeof command,
             CLANG " -x cl -cl-std=CL1.2 -Dasm=__asm__ -Wno-everything"
                   " -Werror=pedantic"
                   " --target=nvptx64-nvidia-nvcl -Xclang"
                   " -finclude-default-header -include " NVPTX_H
                   " -Xclang -target-cpu"
                   " -Xclang sm_80 -Xclang -target-feature -Xclang"
                   " +ptx75 -S -o %s - >&2 &&"
                   " sed -i 's/^.version 7.5/.version 7.8/' %s",
             path, path);
    FILE *pipe = popen(command, "w");
    assert_non_null(pipe);
    fputs(kernel->source, pipe);
    if (pclose(pipe)) {
        show(kernel, "clang refuses it");
        c->failed = true;
    } else {
        if (closed)
            open_ptx(c, kernel, path);
        for (uint32_t i = 0; i < n_archs; i++)
            assemble(c, kernel, path, archs[i]);
    }
    unlink(path);
}

static void compile_glsl(compiler *c, const gpu_kernel *kernel)
{
    const char *why = test_glsl_refusal(kernel->source);
    if (!why)
        return;
    show(kernel, why);
    c->failed = true;
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
        if (c->only && strcmp(c->only, k->name) != 0)
            continue;
        if (c->target.language == GPU_GLSL)
            assert_true(k->n_args + k->n_params <= GPU_MAX_PUSHED);
        c->kernels++;
        if (LOWER_ONLY || was_seen(c, k->source))
            continue;
        if (c->target.nvidia_ptx)
            compile_ptx(c, k);
        else if (c->target.language == GPU_OPENCL_C)
            compile_opencl(c, k);
        else
            compile_glsl(c, k);
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
    finish(&c);
    clReleaseContext(c.context);
}

/* Without what devices may lack, and with it: what is then the same compiles
 * once. */
static void test_glsl(void **state)
{
    compiler c = {.target = base};
    (void)state;
    c.target.language = GPU_GLSL;
    compile_all(&c);
    c.target.fp16_storage = true;
    c.target.subgroup = 8;
    compile_all(&c);
    finish(&c);
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
        compile(c, &g);
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
        compile(c, &g);
    }
    finish(c);
    assert_true(c->kernels >= 4 * n + 3 * (n - n_integers));
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
/* known: the scale of x; or 0. */
static void compile_shapes(compiler *c, uint32_t dtype, float known)
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
        snprintf(choice, sizeof choice, "%s=%u", variants.key,
                 (unsigned)variants.id[i]);
        c->target.choices = choice;
        compile(c, &g);
    }
    c->target.choices = NULL;
    assert_int_equal(seen, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8);
    if (integers)
        return;
    init_experts(&g, dtype, 200, true);
    const uint32_t kernels = c->kernels;
    compile(c, &g);
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
    compile(c, &g);
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
    compiler c = {.target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.wgmma_bytes = 232448;
    for (uint32_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        compile_shapes(&c, dtypes[i], 0);
    compile_shapes(&c, CLV_DTYPE_I8, 0.5f);
    compile_shapes(&c, CLV_DTYPE_I4, 0.5f);
    c.target.max_group = c.target.max_group_size[0] = 1024;
    for (int64_t in = 4096; in <= 28672; in *= 7)
        compile_gated(&c, CLV_DTYPE_Q4_K, in);
    finish(&c);
    if (!PTXAS[0])
        print_message("no ptxas: not assembled\n");
}

/* By NVIDIA's tensor cores. */
static void test_ptx(void **state)
{
    compiler c = {.target = base};
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
    uint32_t x, sum, pos, freq;
    uint32_t seen[3], n_seen; /* of which a softmax is made in the end */
} series_inputs;

static uint32_t add_row(graph *g, int64_t channels)
{
    return graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, channels);
}

/* A product and its sum with what was before it; behind the norm of that two
 * products of as many channels as out. */
static void add_products(graph *g, series_inputs *in, uint32_t dtype,
                         int64_t from, int64_t hidden, int64_t out,
                         uint32_t two[2])
{
    uint32_t w = graph_tensor(g, dtype, CLV_USAGE_WEIGHT, hidden, from);
    uint32_t gain = graph_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, hidden);
    uint32_t y = add_row(g, hidden), sum = add_row(g, hidden);
    uint32_t norm = add_row(g, hidden);
    graph_node(g, CLV_OP_MATMUL, y, INPUTS(in->x, w));
    graph_node(g, CLV_OP_ADD, sum, INPUTS(y, in->sum));
    graph_node(g, CLV_OP_RMS_NORM, norm, INPUTS(sum, gain));
    in->sum = sum;
    for (uint32_t k = 0; k < 2; k++) {
        w = graph_tensor(g, dtype, CLV_USAGE_WEIGHT, out, hidden);
        two[k] = add_row(g, out);
        graph_node(g, CLV_OP_MATMUL, two[k], INPUTS(norm, w));
    }
}

/* cache: the layer begins with an attention over one of that kind, or 0. */
static void add_layer(graph *g, series_inputs *in, uint32_t dtype,
                      uint32_t cache, int64_t hidden, int64_t inner)
{
    uint32_t two[2];
    if (cache)
        in->x = add_attention(g, cache, in->x, in->pos, hidden);
    add_products(g, in, dtype, hidden, hidden, inner, two);
    in->x = add_row(g, inner);
    graph_node(g, CLV_OP_GLU, in->x, INPUTS(two[0], two[1]));
    add_products(g, in, dtype, inner, hidden, hidden, two);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t turned = add_row(g, hidden);
        graph_node(g, CLV_OP_ROPE, turned, INPUTS(two[k], in->pos, in->freq))
            ->attr.rope.head_dim = 128;
        two[k] = turned;
    }
    in->x = two[0];
    in->seen[in->n_seen++] = two[1];
}

/* Products that follow one another; cache: two layers of them, each behind an
 * attention over one of that kind, or 0. */
static void compile_series(compiler *c, uint32_t dtype, uint32_t cache,
                           int64_t hidden, int64_t inner)
{
    graph g;
    graph_init(&g);
    series_inputs in = {.x = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, hidden),
                        .sum = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, hidden),
                        .pos = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 1),
                        .freq = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, 64)};
    for (uint32_t i = 0; i < (cache ? 2 : 1); i++)
        add_layer(&g, &in, dtype, cache, hidden, inner);
    in.seen[in.n_seen++] = in.x;
    for (uint32_t k = 0; k < in.n_seen; k++) {
        uint32_t y = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, hidden);
        graph_node(&g, CLV_OP_SOFTMAX, y, INPUTS(in.seen[k]));
    }
    c->only = "gemv_series";
    compile(c, &g);
}

/* By groups that stay, of sm_90a. */
static void test_ptx_series(void **state)
{
    static const uint32_t cases[][2] = {{CLV_DTYPE_Q4_0, 0},
                                        {CLV_DTYPE_Q4_K, 0},
                                        {CLV_DTYPE_F16, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q4_K, CLV_DTYPE_Q8_0},
                                        {CLV_DTYPE_F16, 0},
                                        {CLV_DTYPE_Q8_0, 0},
                                        {CLV_DTYPE_Q4_1, 0},
                                        {CLV_DTYPE_Q3_K, 0},
                                        {CLV_DTYPE_Q2_K, 0},
                                        {CLV_DTYPE_Q5_K, 0},
                                        {CLV_DTYPE_Q6_K, 0},
                                        {CLV_DTYPE_Q8_0, CLV_DTYPE_F16},
                                        {CLV_DTYPE_Q4_0, CLV_DTYPE_F16}};
    const uint32_t n = sizeof cases / sizeof cases[0];
    compiler c = {.target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    c.target.wgmma_bytes = 232448;
    c.target.series = true;
    c.target.repeats = UINT32_MAX;
    c.target.max_group = c.target.max_group_size[0] = 1024;
    for (uint32_t i = 0; i < n; i++)
        compile_series(&c, cases[i][0], cases[i][1], 4096, 14336);
    finish(&c);
    assert_int_equal(c.kernels, n);
    /* Too small for groups of eight warps. */
    c.kernels = 0;
    compile_series(&c, CLV_DTYPE_Q8_0, 0, 256, 512);
    assert_int_equal(c.kernels, 0);
}

/* Products of one row with weights as bound. */
static void test_ptx_scarce(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q6_K};
    compiler c = {.target = base, .assembles = true};
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
            compile(&c, &g);
        }
        c.target.choices = NULL;
        for (uint32_t scored = 0; scored < 2; scored++) {
            init_experts(&g, dtypes[i], 1, scored);
            c.only = scored ? "experts_gemv_sum" : "experts_gemv";
            compile(&c, &g);
        }
    }
    finish(&c);
    assert_int_equal(c.kernels, 5 * (5 + 2));
}

/* Products of experts for one row with weights in the device's layout. */
static void test_ptx_private_experts(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16,  CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    compiler c = {.target = base, .assembles = true};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    for (uint32_t i = 0; i < 12; i++) {
        graph g;
        init_experts(&g, dtypes[i / 2], 1, i % 2);
        g.tensors[1].layout = CLV_LAYOUT_PRIVATE;
        compile(&c, &g);
    }
    finish(&c);
    assert_int_equal(c.kernels, 12);
}

/* Rows out of tables in the device's layout. */
static void test_ptx_private_tables(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F16,  CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K,
                                      CLV_DTYPE_Q5_K, CLV_DTYPE_Q6_K};
    compiler c = {.target = base, .assembles = true};
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
        compile(&c, &g);
    }
    finish(&c);
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
    compile(c, &g);
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
        c.target.plain_matrix = i == 3 || i == 5;
        c.target.coop_matrix = !c.target.plain_matrix;
        compile_attention(&c, i < 2 ? 2 : 300, i == 1 || i == 3 ? 40 : 128,
                          i < 4 ? CLV_DTYPE_F16 : CLV_DTYPE_Q8_0);
    }
    finish(&c);
    assert_true(c.kernels >= 6 + 3);
}

static void test_ptx_attention(void **state)
{
    compiler c = {.target = base};
    (void)state;
    if (!CLANG[0])
        skip();
    set_nvidia(&c.target);
    for (uint32_t i = 0; i < 4; i++)
        compile_attention(&c, i % 2 ? 300 : 2, 128,
                          i < 2 ? CLV_DTYPE_F16 : CLV_DTYPE_Q8_0);
    finish(&c);
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
        cmocka_unit_test(test_ptx_scarce),
        cmocka_unit_test(test_ptx_private_experts),
        cmocka_unit_test(test_ptx_private_tables),
        cmocka_unit_test(test_glsl_attention),
        cmocka_unit_test(test_ptx_attention),
        cmocka_unit_test(test_opencl),
    };
    return cmocka_run_group_tests_name("kernels compile", tests, NULL, NULL);
}
