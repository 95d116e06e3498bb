/* What the code of small graphs computes on an OpenCL device. */
#include "graph.h"
#include "kernels.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define T(...) graph_tensor(&g, __VA_ARGS__)
#define INPUTS(...)                                                            \
    (const uint32_t[])                                                         \
    {                                                                          \
        __VA_ARGS__, CLV_NO_TENSOR                                             \
    }
#define SHIFT 12 /* bytes of a buffer before the tensor begins */
#define MAX_PRIVATES 8

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;

static gpu_target target = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
};

static int setup(void **state)
{
    cl_platform_id platform;
    cl_uint n = 0;
    (void)state;
    if (clGetPlatformIDs(1, &platform, &n) || !n ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, &n) || !n)
        return 0;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    queue = clCreateCommandQueue(context, device, 0, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (queue)
        clReleaseCommandQueue(queue);
    if (context)
        clReleaseContext(context);
    return 0;
}

static void dispatch(const gpu_code *code, const gpu_dispatch *d,
                     const int64_t *symbols, const cl_mem *tensors,
                     const cl_mem *privates)
{
    const gpu_kernel *k = &code->kernels[d->kernel];
    const char *source = k->source;
    size_t global[3], local[3];
    cl_int status;
    cl_program program =
        clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    assert_int_equal(clBuildProgram(program, 1, &device, "", NULL, NULL), 0);
    cl_kernel kernel = clCreateKernel(program, k->name, &status);
    assert_int_equal(status, 0);
    for (uint32_t i = 0; i < k->n_args; i++) {
        const bool own = d->args[i].memory == GPU_MEMORY_PRIVATE;
        cl_mem memory = (own ? privates : tensors)[d->args[i].index];
        cl_int offset = (own ? 0 : SHIFT) + (cl_int)d->args[i].offset;
        clSetKernelArg(kernel, i, sizeof memory, &memory);
        clSetKernelArg(kernel, k->n_args + i, sizeof offset, &offset);
    }
    for (uint32_t i = 0; i < k->n_params; i++) {
        cl_int value = (cl_int)gpu_expr_value(&d->params[i], symbols);
        clSetKernelArg(kernel, 2 * k->n_args + i, sizeof value, &value);
    }
    for (uint32_t i = 0; i < 3; i++) {
        local[i] = k->local[i];
        global[i] = local[i] * (size_t)gpu_expr_value(&d->groups[i], symbols);
    }
    status = clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0,
                                    NULL, NULL);
    assert_int_equal(status, 0);
    clFinish(queue);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

/* data: by tensor, read and written. The number of dispatches. */
static uint32_t run(const graph *g, const int64_t *symbols, void *const *data)
{
    gpu_code *code = NULL;
    cl_mem tensors[GRAPH_TENSORS], privates[MAX_PRIVATES];
    size_t sizes[GRAPH_TENSORS];
    if (!context)
        skip();
    if (gpu_lower(&test_host, &target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    for (uint32_t i = 0; i < g->sub.n_tensors; i++) {
        const clv_tensor_desc *t = &g->tensors[i];
        int64_t elements, bytes;
        clv_block(t->dtype, &elements, &bytes);
        sizes[i] = (size_t)(t->dims[0] * (t->rank > 1 ? t->dims[1] : 1) /
                            elements * bytes);
        tensors[i] = clCreateBuffer(context, CL_MEM_READ_WRITE,
                                    sizes[i] + SHIFT, NULL, NULL);
        if (data[i])
            clEnqueueWriteBuffer(queue, tensors[i], CL_TRUE, SHIFT, sizes[i],
                                 data[i], 0, NULL, NULL);
    }
    assert_true(code->n_privates <= MAX_PRIVATES);
    for (uint32_t i = 0; i < code->n_privates; i++)
        privates[i] = clCreateBuffer(context, CL_MEM_READ_WRITE,
                                     code->privates[i].size, NULL, NULL);
    for (uint32_t i = 0; i < code->n_dispatches; i++)
        dispatch(code, &code->dispatches[i], symbols, tensors, privates);
    for (uint32_t i = 0; i < g->sub.n_tensors; i++) {
        if (data[i])
            clEnqueueReadBuffer(queue, tensors[i], CL_TRUE, SHIFT, sizes[i],
                                data[i], 0, NULL, NULL);
        clReleaseMemObject(tensors[i]);
    }
    for (uint32_t i = 0; i < code->n_privates; i++)
        clReleaseMemObject(privates[i]);
    uint32_t n = code->n_dispatches;
    gpu_code_free(&test_host, code);
    return n;
}

static void fill(float *x, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(int32_t)seed / 1073741824.0f;
    }
}

static void check_near(const float *y, const double *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs(y[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))))
            fail_msg("element %u is %g, not %g", (unsigned)i, (double)y[i],
                     want[i]);
}

/* ------------------------------------------------------------------------ */

#define ROWS 5
#define CHANNELS 77
#define N (ROWS * CHANNELS)

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void test_add_vector(void **state)
{
    static float a[N], b[CHANNELS], y[N];
    double want[N];
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t ta = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, CHANNELS);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
    graph_node(&g, CLV_OP_ADD, ty, INPUTS(ta, tb));
    graph_symbol(&g, ROWS);
    fill(a, N, 1);
    fill(b, CHANNELS, 2);
    for (uint32_t i = 0; i < N; i++)
        want[i] = i < 4 * CHANNELS ? a[i] + b[i % CHANNELS] : 0;
    run(&g, (const int64_t[]){4}, (void *[]){a, b, y});
    check_near(y, want, N);
}

static void test_glu(void **state)
{
    (void)state;
    for (uint32_t activation = 0; activation < 2; activation++) {
        static float a[N], b[N], y[N];
        double want[N];
        graph g;
        graph_init(&g);
        uint32_t ta = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
        uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
        uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
        graph_node(&g, CLV_OP_GLU, ty, INPUTS(ta, tb))->attr.glu.activation =
            activation;
        fill(a, N, 3);
        fill(b, N, 4);
        for (uint32_t i = 0; i < N; i++)
            want[i] = (activation ? gelu(a[i]) : silu(a[i])) * b[i];
        run(&g, NULL, (void *[]){a, b, y});
        check_near(y, want, N);
    }
}

static void normalise(const float *x, const float *w, const float *b,
                      bool centre, double *y)
{
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < CHANNELS && centre; i++)
        mean += x[i] / (double)CHANNELS;
    for (uint32_t i = 0; i < CHANNELS; i++)
        square += (x[i] - mean) * (x[i] - mean) / CHANNELS;
    for (uint32_t i = 0; i < CHANNELS; i++)
        y[i] = (x[i] - mean) / sqrt(square + 1e-5) * w[i] + (b ? b[i] : 0);
}

static void test_norms(void **state)
{
    (void)state;
    for (uint32_t layer = 0; layer < 2; layer++) {
        static float x[N], w[CHANNELS], b[CHANNELS], y[N];
        double want[N];
        graph g;
        graph_init(&g);
        uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
        uint32_t tw = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, CHANNELS);
        uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, CHANNELS);
        uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
        clv_node *n =
            layer ? graph_node(&g, CLV_OP_LAYER_NORM, ty, INPUTS(tx, tw, tb))
                  : graph_node(&g, CLV_OP_RMS_NORM, ty, INPUTS(tx, tw));
        n->attr.norm.eps = 1e-5f;
        fill(x, N, 5);
        fill(w, CHANNELS, 6);
        fill(b, CHANNELS, 7);
        for (uint32_t i = 0; i < ROWS; i++)
            normalise(x + i * CHANNELS, w, layer ? b : NULL, layer,
                      want + i * CHANNELS);
        run(&g, NULL, (void *[]){x, w, b, y});
        check_near(y, want, N);
    }
}

static void test_softmax(void **state)
{
    static float x[N], y[N];
    double want[N];
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
    graph_node(&g, CLV_OP_SOFTMAX, ty, INPUTS(tx));
    fill(x, N, 8);
    for (uint32_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (uint32_t j = 0; j < CHANNELS; j++)
            sum += exp(x[i * CHANNELS + j]);
        for (uint32_t j = 0; j < CHANNELS; j++)
            want[i * CHANNELS + j] = exp(x[i * CHANNELS + j]) / sum;
    }
    run(&g, NULL, (void *[]){x, y});
    check_near(y, want, N);
}

#define HEAD 12
#define PAIRS 4

static void test_rope(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 2; mode++) {
        static float x[3 * 2 * HEAD], y[3 * 2 * HEAD];
        float freq[PAIRS] = {1, 0.3f, 0.1f, 0.01f};
        int32_t pos[3] = {0, 7, 5000};
        double want[3 * 2 * HEAD];
        graph g;
        graph_init(&g);
        uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 3, 2 * HEAD);
        uint32_t tp = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 3);
        uint32_t tf = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, PAIRS);
        uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 3, 2 * HEAD);
        clv_node *n = graph_node(&g, CLV_OP_ROPE, ty, INPUTS(tx, tp, tf));
        n->attr.rope.head_dim = HEAD;
        n->attr.rope.mode = mode;
        n->attr.rope.scale = 1.5f;
        fill(x, 3 * 2 * HEAD, 9);
        for (uint32_t i = 0; i < 3 * 2 * HEAD; i++)
            want[i] = x[i];
        for (uint32_t i = 0; i < 3 * 2 * PAIRS; i++) {
            uint32_t row = i / (2 * PAIRS), head = i / PAIRS % 2, j = i % PAIRS;
            uint32_t a = (row * 2 + head) * HEAD + (mode ? 2 * j : j);
            uint32_t b = a + (mode ? 1 : PAIRS);
            double angle = (float)pos[row] * freq[j];
            want[a] = 1.5 * (x[a] * cos(angle) - x[b] * sin(angle));
            want[b] = 1.5 * (x[a] * sin(angle) + x[b] * cos(angle));
        }
        run(&g, NULL, (void *[]){x, pos, freq, y});
        check_near(y, want, 3 * 2 * HEAD);
    }
}

/* Rows to halves and back; of equal ids the last counts. */
static void test_rows(void **state)
{
    float src[4 * 6], y[3 * 6];
    uint16_t cache[5 * 6] = {0};
    int32_t to[4] = {2, 9, 0, 2}, from[3] = {2, -1, 1};
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t tc = T(CLV_DTYPE_F16, CLV_USAGE_STATE, 5, 6);
    uint32_t ts = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 4, 6);
    uint32_t tt = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 4);
    uint32_t tf = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 3);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 3, 6);
    graph_node(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(tc, ts, tt));
    graph_node(&g, CLV_OP_GET_ROWS, ty, INPUTS(tc, tf));
    fill(src, 24, 10);
    run(&g, NULL, (void *[]){cache, src, to, from, y});
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(fabsf(y[i] - src[18 + i]) <= 5e-4f * fabsf(src[18 + i]));
        assert_true(isnan(y[6 + i]));
        assert_true(y[12 + i] == 0);
        assert_true(fabsf(clv_f16_to_f32(cache[i]) - src[12 + i]) <=
                    5e-4f * fabsf(src[12 + i]));
    }
}

/* One row of as many as the run has: ids past those are NaN, not memory. */
static void test_rows_of_few(void **state)
{
    float src[4 * 6], y[2 * 6];
    int32_t from[2] = {1, 2};
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t ts = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 4, 6);
    uint32_t tf = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 2);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 2, 6);
    graph_node(&g, CLV_OP_GET_ROWS, ty, INPUTS(ts, tf));
    graph_symbol(&g, 4);
    fill(src, 24, 17);
    run(&g, (const int64_t[]){2}, (void *[]){src, from, y});
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(y[i] == src[6 + i]);
        assert_true(isnan(y[6 + i]));
    }
}

/* A norm, a product, a sum: one kernel; what ends the graph is its own. */
static void test_fused(void **state)
{
    static float x[N], w[CHANNELS], r[N], y[N];
    double want[N];
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t tw = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, CHANNELS);
    uint32_t tr = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
    uint32_t t[3];
    for (uint32_t i = 0; i < 3; i++)
        t[i] = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, ROWS, CHANNELS);
    graph_node(&g, CLV_OP_RMS_NORM, t[0], INPUTS(tx, tw))->attr.norm.eps =
        1e-5f;
    graph_node(&g, CLV_OP_GLU, t[1], INPUTS(tr, t[0]));
    graph_node(&g, CLV_OP_ADD, t[2], INPUTS(t[1], tx));
    graph_node(&g, CLV_OP_MUL, ty, INPUTS(t[2], tr));
    graph_symbol(&g, ROWS);
    fill(x, N, 11);
    fill(w, CHANNELS, 12);
    fill(r, N, 13);
    for (uint32_t i = 0; i < ROWS; i++)
        normalise(x + i * CHANNELS, w, NULL, false, want + i * CHANNELS);
    for (uint32_t i = 0; i < N; i++)
        want[i] = (want[i] * silu(r[i]) + x[i]) * r[i];
    uint32_t n = run(&g, (const int64_t[]){ROWS},
                     (void *[]){x, w, r, y, NULL, NULL, NULL});
    check_near(y, want, N);
    assert_int_equal(n, 2);
}

/* One row, which is added to many: what makes the row cannot write the sum. */
static void test_fused_row(void **state)
{
    static float a[CHANNELS], b[CHANNELS], x[N], y[N];
    double want[N];
    graph g;
    (void)state;
    graph_init(&g);
    uint32_t ta = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, CHANNELS);
    uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, CHANNELS);
    uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
    uint32_t row = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 0, CHANNELS);
    uint32_t sum = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, ROWS, CHANNELS);
    graph_node(&g, CLV_OP_MUL, row, INPUTS(ta, tb));
    graph_node(&g, CLV_OP_ADD, sum, INPUTS(tx, row));
    graph_node(&g, CLV_OP_MUL, ty, INPUTS(sum, tx));
    fill(a, CHANNELS, 41);
    fill(b, CHANNELS, 42);
    fill(x, N, 43);
    for (uint32_t i = 0; i < N; i++)
        want[i] =
            ((double)x[i] + (double)a[i % CHANNELS] * b[i % CHANNELS]) * x[i];
    uint32_t n = run(&g, NULL, (void *[]){a, b, x, y, NULL, NULL});
    check_near(y, want, N);
    assert_int_equal(n, 3);
}

/* A product and the sum behind it: one kernel, for few rows and for many. */
static void test_fused_product(void **state)
{
    enum { I = 40, O = 9, MOST = 40 };
    static float x[MOST * I], w[O * I], r[MOST * O], y[MOST * O];
    (void)state;
    for (int64_t n = 1; n <= MOST; n += 39) {
        double want[MOST * O];
        graph g;
        graph_init(&g);
        uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, n, I);
        uint32_t tw = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, O, I);
        uint32_t tr = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, n, O);
        uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, O);
        uint32_t product = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, O);
        uint32_t sum = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, O);
        graph_node(&g, CLV_OP_MATMUL, product, INPUTS(tx, tw));
        graph_node(&g, CLV_OP_ADD, sum, INPUTS(tr, product));
        graph_node(&g, CLV_OP_MUL, ty, INPUTS(sum, tr));
        fill(x, MOST * I, 14);
        fill(w, O * I, 15);
        fill(r, MOST * O, 16);
        for (uint32_t i = 0; i < n * O; i++) {
            want[i] = r[i];
            for (uint32_t k = 0; k < I; k++)
                want[i] += (double)x[i / O * I + k] * w[i % O * I + k];
            want[i] *= r[i];
        }
        uint32_t dispatches = run(&g, NULL, (void *[]){x, w, r, y, NULL, NULL});
        check_near(y, want, (uint32_t)n * O);
        assert_int_equal(dispatches, 2);
    }
}

/* Keys and values straight into the cache: twice the same id, one that is past
 * it, fewer rows than there could be. */
static uint32_t fill_cache(const char *disabled, uint16_t *k, float *v)
{
    enum { TOKENS = 5, I = 24 };
    static float x[TOKENS * I], w[HEAD * I], w2[HEAD * I], b[HEAD];
    float freq[PAIRS] = {1, 0.3f, 0.1f, 0.01f};
    int32_t ids[TOKENS] = {2, 9, 0, 2, 1};
    graph g;
    graph_init(&g);
    uint32_t tx = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, TOKENS, I);
    uint32_t ti = T(CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, TOKENS);
    uint32_t tw = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, HEAD, I);
    uint32_t tw2 = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, HEAD, I);
    uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, HEAD);
    uint32_t tf = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, PAIRS);
    uint32_t tk = T(CLV_DTYPE_F16, CLV_USAGE_STATE, 7, HEAD);
    uint32_t tv = T(CLV_DTYPE_F32, CLV_USAGE_STATE, 7, HEAD);
    uint32_t t[3];
    for (uint32_t i = 0; i < 3; i++)
        t[i] = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, TOKENS, HEAD);
    graph_node(&g, CLV_OP_MATMUL, t[0], INPUTS(tx, tw));
    graph_node(&g, CLV_OP_MATMUL, t[1], INPUTS(tx, tw2, tb));
    graph_node(&g, CLV_OP_ROPE, t[2], INPUTS(t[0], ti, tf))
        ->attr.rope.head_dim = HEAD;
    graph_node(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(tk, t[2], ti));
    graph_node(&g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, INPUTS(tv, t[1], ti));
    graph_symbol(&g, TOKENS);
    fill(x, TOKENS * I, 21);
    fill(w, HEAD * I, 22);
    fill(w2, HEAD * I, 23);
    fill(b, HEAD, 24);
    target.disabled = disabled;
    uint32_t n =
        run(&g, (const int64_t[]){4},
            (void *[]){x, ids, w, w2, b, freq, k, v, NULL, NULL, NULL});
    target.disabled = NULL;
    return n;
}

static void test_fused_cache(void **state)
{
    uint16_t k[2][7 * HEAD] = {{0}};
    float v[2][7 * HEAD] = {{0}};
    (void)state;
    assert_int_equal(fill_cache("fuse_set_rows", k[0], v[0]), 5);
    assert_int_equal(fill_cache(NULL, k[1], v[1]), 4);
    assert_memory_equal(k[0], k[1], sizeof k[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    assert_true(k[0][0] && k[0][2 * HEAD] && v[0][0] != 0);
    for (uint32_t i = HEAD; i < 2 * HEAD; i++)
        assert_true(!k[1][i] && v[1][i] == 0); /* past the run's rows */
}

/* A sum that others read, too, and its norm: one kernel. */
static uint32_t add_and_norm(const char *disabled, float *y)
{
    static float a[N], b[N], w[CHANNELS];
    graph g;
    graph_init(&g);
    uint32_t ta = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t tb = T(CLV_DTYPE_F32, CLV_USAGE_INPUT, ROWS, CHANNELS);
    uint32_t tw = T(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, CHANNELS);
    uint32_t ty = T(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, ROWS, CHANNELS);
    uint32_t sum = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, ROWS, CHANNELS);
    uint32_t norm = T(CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, ROWS, CHANNELS);
    graph_node(&g, CLV_OP_ADD, sum, INPUTS(ta, tb));
    graph_node(&g, CLV_OP_RMS_NORM, norm, INPUTS(sum, tw))->attr.norm.eps =
        1e-5f;
    graph_node(&g, CLV_OP_MUL, ty, INPUTS(sum, norm));
    graph_symbol(&g, ROWS);
    fill(a, N, 31);
    fill(b, N, 32);
    fill(w, CHANNELS, 33);
    target.disabled = disabled;
    uint32_t n =
        run(&g, (const int64_t[]){ROWS}, (void *[]){a, b, w, y, NULL, NULL});
    target.disabled = NULL;
    return n;
}

static void test_fused_norm(void **state)
{
    float y[2][N];
    double want[N];
    (void)state;
    memset(y, 0, sizeof y);
    assert_int_equal(add_and_norm("x,fuse_add_norm", y[0]), 3);
    assert_int_equal(add_and_norm(NULL, y[1]), 2);
    for (uint32_t i = 0; i < N; i++)
        want[i] = y[0][i];
    check_near(y[1], want, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_vector),    cmocka_unit_test(test_glu),
        cmocka_unit_test(test_norms),         cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_rope),          cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_of_few),   cmocka_unit_test(test_fused),
        cmocka_unit_test(test_fused_product), cmocka_unit_test(test_fused_row),
        cmocka_unit_test(test_fused_cache),   cmocka_unit_test(test_fused_norm),
    };
    return cmocka_run_group_tests_name("kernels run", tests, setup, teardown);
}
