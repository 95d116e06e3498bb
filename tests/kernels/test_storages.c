/* What a layer of a model computes, wherever its activations lie. */
#include "runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 40, WIDTH = 22, HEADS = 24, DIM = 8, HIDDEN = 30, CACHE = 45 };

static const gpu_target plain = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 128 << 20,
    .units = 2,
    .image = {[CLV_STORAGE_IMAGE_BUFFER] = {1 << 24, 1, 1},
              [CLV_STORAGE_TEXTURE_2D] = {8192, 8192, 1},
              [CLV_STORAGE_TEXTURE_ARRAY] = {8192, 8192, 2048},
              [CLV_STORAGE_TEXTURE_3D] = {2048, 2048, 2048}},
};

typedef struct layer {
    graph g;
    void *data[GRAPH_TENSORS];
    size_t size[GRAPH_TENSORS];
    uint32_t out;
    int64_t rows; /* at most */
} layer;

static uint32_t seed;

static uint32_t add(layer *l, uint32_t usage, int64_t rows, int64_t channels)
{
    uint32_t t = graph_tensor(&l->g, CLV_DTYPE_F32, usage, rows, channels);
    size_t n = (size_t)((rows ? rows : 1) * channels);
    float *x = calloc(n, 4);
    assert_non_null(x);
    for (size_t i = 0; i < n && usage != CLV_USAGE_TRANSIENT; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed / 4294967296.0f;
    }
    l->data[t] = x;
    l->size[t] = n * 4;
    return t;
}

static uint32_t node(layer *l, uint32_t op, int64_t rows, int64_t channels,
                     const uint32_t *inputs, clv_node **out)
{
    uint32_t t = add(l, CLV_USAGE_TRANSIENT, rows, channels);
    clv_node *n = graph_node(&l->g, op, t, inputs);
    if (out)
        *out = n;
    return t;
}

static uint32_t ids(layer *l, int64_t n, int32_t last)
{
    uint32_t t = graph_tensor(&l->g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n);
    int32_t *x = calloc((size_t)n, 4);
    assert_non_null(x);
    for (int32_t i = 0; i < n; i++)
        x[i] = (int32_t)(last - n + 1 + i);
    l->data[t] = x;
    l->size[t] = (size_t)n * 4;
    return t;
}

#define IN(...)                                                                \
    (const uint32_t[])                                                         \
    {                                                                          \
        __VA_ARGS__, CLV_NO_TENSOR                                             \
    }
#define NODE(op, channels, n, ...)                                             \
    node(l, CLV_OP_##op, l->rows, channels, IN(__VA_ARGS__), n)
#define WEIGHT(rows, channels) add(l, CLV_USAGE_WEIGHT, rows, channels)

static uint32_t attend(layer *l, uint32_t x, uint32_t pos, uint32_t mode)
{
    clv_node *n;
    uint32_t freq = WEIGHT(0, DIM / 2);
    uint32_t k = add(l, CLV_USAGE_STATE, CACHE, DIM);
    uint32_t v = add(l, CLV_USAGE_STATE, CACHE, DIM);
    uint32_t norm = NODE(RMS_NORM, WIDTH, &n, x, WEIGHT(0, WIDTH));
    n->attr.norm.eps = 1e-5f;
    uint32_t q = NODE(MATMUL, HEADS, NULL, norm, WEIGHT(HEADS, WIDTH));
    q = NODE(ROPE, HEADS, &n, q, pos, freq);
    n->attr.rope.head_dim = DIM;
    n->attr.rope.mode = mode;
    uint32_t y = NODE(ATTENTION, HEADS, &n, q, k, v, pos);
    n->attr.attention.head_dim = DIM;
    n->attr.attention.scale = 0.4f;
    y = NODE(MATMUL, WIDTH, NULL, y, WEIGHT(WIDTH, HEADS));
    return NODE(ADD, WIDTH, NULL, x, y);
}

static uint32_t feed(layer *l, uint32_t x)
{
    clv_node *n;
    uint32_t norm =
        NODE(LAYER_NORM, WIDTH, &n, x, WEIGHT(0, WIDTH), WEIGHT(0, WIDTH));
    n->attr.norm.eps = 1e-5f;
    uint32_t gate = NODE(MATMUL, HIDDEN, NULL, norm, WEIGHT(HIDDEN, WIDTH));
    uint32_t up = NODE(MATMUL, HIDDEN, NULL, norm, WEIGHT(HIDDEN, WIDTH),
                       WEIGHT(0, HIDDEN));
    uint32_t y = NODE(GLU, HIDDEN, NULL, gate, up);
    y = NODE(MATMUL, WIDTH, NULL, y, WEIGHT(WIDTH, HIDDEN));
    return NODE(ADD, WIDTH, NULL, x, y);
}

/* The last rows of what a layer makes of x, and a row of it in the cache. */
static void make(layer *l, int64_t rows, uint32_t mode)
{
    memset(l, 0, sizeof *l);
    l->rows = rows;
    seed = 7;
    graph_init(&l->g);
    uint32_t x = add(l, CLV_USAGE_INPUT, rows, WIDTH);
    uint32_t pos = ids(l, rows, CACHE - 1);
    uint32_t wanted = ids(l, 2, (int32_t)rows - 1);
    uint32_t y = feed(l, attend(l, x, pos, mode));
    uint32_t last = add(l, CLV_USAGE_TRANSIENT, 2, WIDTH);
    graph_node(&l->g, CLV_OP_GET_ROWS, last, IN(y, wanted));
    l->out = add(l, CLV_USAGE_OUTPUT, 2, WIDTH);
    graph_node(&l->g, CLV_OP_SOFTMAX, l->out, IN(last));
    if (rows > 2)
        graph_symbol(&l->g, rows);
}

static void unmake(layer *l)
{
    for (uint32_t i = 0; i < l->g.sub.n_tensors; i++)
        free(l->data[i]);
}

/* Private memories of the layer's code that are of the storage. */
static uint32_t count(const gpu_target *target, const layer *l)
{
    gpu_code *code = NULL;
    uint32_t n = 0;
    assert_int_equal(gpu_lower(&test_host, target, &l->g.sub, &code), 0);
    for (uint32_t i = 0; i < code->n_privates; i++)
        n += code->privates[i].storage + 1 == target->slices;
    gpu_code_free(&test_host, code);
    return n;
}

static void check(runner *r, int64_t rows, uint32_t mode, uint32_t step)
{
    layer l;
    float right[2 * WIDTH];
    for (uint32_t slices = 0; slices <= CLV_STORAGE_TEXTURE_3D + 1;
         slices += step) {
        gpu_target target = plain;
        target.slices = slices;
        make(&l, rows, mode);
        runner_set(r, &target);
        runner_run(r, &l.g, l.data, l.size, &rows);
        if (!slices)
            memcpy(right, l.data[l.out], sizeof right);
        if (slices)
            assert_true(count(&target, &l) >= 4);
        for (uint32_t i = rows > 1 ? 0 : WIDTH; i < 2 * WIDTH; i++) {
            float y = ((float *)l.data[l.out])[i];
            if (!(fabsf(y - right[i]) <= 1e-5f * fabsf(right[i])))
                fail_msg("storage %d, %d rows: element %d is %g, not %g",
                         (int)slices - 1, (int)rows, (int)i, (double)y,
                         (double)right[i]);
        }
        unmake(&l);
    }
}

static void test_layer(void **state)
{
    gpu_target target = plain;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    check(r, MOST, CLV_ROPE_HALVES, 1);
    check(r, 1, CLV_ROPE_PAIRS, 1 + CLV_STORAGE_TEXTURE_2D);
    runner_close(r);
}

/* What is too large for the images stays in rows. */
static void test_limits(void **state)
{
    gpu_target target = plain;
    layer l;
    (void)state;
    make(&l, MOST, CLV_ROPE_HALVES);
    target.slices = 1 + CLV_STORAGE_TEXTURE_2D;
    target.image[CLV_STORAGE_TEXTURE_2D][0] = MOST - 1;
    assert_true(count(&target, &l) <= 1); /* the wanted rows alone */
    target.image[CLV_STORAGE_TEXTURE_2D][0] = MOST;
    target.image[CLV_STORAGE_TEXTURE_2D][1] = 1;
    assert_int_equal(count(&target, &l), 0);
    unmake(&l);
}

enum { READERS = 3, COPIES = 2 };

/* A tensor that READERS ops read in slices, and so many others cannot. */
static void make_mixed(layer *l, int64_t rows, uint32_t others)
{
    clv_node *n;
    memset(l, 0, sizeof *l);
    l->rows = rows;
    seed = 7;
    graph_init(&l->g);
    uint32_t x = add(l, CLV_USAGE_INPUT, rows, WIDTH);
    uint32_t norm = NODE(RMS_NORM, WIDTH, &n, x, WEIGHT(0, WIDTH));
    n->attr.norm.eps = 1e-5f;
    for (uint32_t i = 0; i < READERS + others; i++) {
        uint32_t w = WEIGHT(HIDDEN, WIDTH);
        const bool converts = i % 2 && i / 2 < others;
        l->out = add(l, CLV_USAGE_OUTPUT, rows, converts ? WIDTH : HIDDEN);
        graph_node(&l->g, converts ? CLV_OP_CONVERT : CLV_OP_MATMUL, l->out,
                   converts ? IN(norm) : IN(norm, w));
    }
    graph_symbol(&l->g, rows);
}

static uint32_t count_conversions(const gpu_target *target, const layer *l)
{
    gpu_code *code = NULL;
    uint32_t n = 0;
    assert_int_equal(gpu_lower(&test_host, target, &l->g.sub, &code), 0);
    for (uint32_t i = 0; i < code->n_dispatches; i++)
        n += !strcmp(code->kernels[code->dispatches[i].kernel].name,
                     "convert_layout");
    gpu_code_free(&test_host, code);
    return n;
}

/* What some read in slices the others read as rows, if they are fewer. */
static void test_mixed(void **state)
{
    gpu_target target = plain;
    runner *r = runner_open(&target);
    int64_t rows = MOST;
    layer right, l;
    (void)state;
    if (!r)
        skip();
    make_mixed(&right, rows, COPIES);
    runner_set(r, &target);
    runner_run(r, &right.g, right.data, right.size, &rows);
    target.slices = 1 + CLV_STORAGE_TEXTURE_2D;
    make_mixed(&l, rows, COPIES);
    assert_int_equal(count(&target, &l), 1);
    assert_int_equal(count_conversions(&target, &l), 1);
    runner_set(r, &target);
    runner_run(r, &l.g, l.data, l.size, &rows);
    for (uint32_t t = 0; t < l.g.sub.n_tensors; t++)
        for (size_t i = 0; i < l.size[t] / 4; i++)
            if (!(fabsf(((float *)l.data[t])[i] -
                        ((float *)right.data[t])[i]) <= 1e-5f))
                fail_msg("tensor %u, element %zu", t, i);
    unmake(&right);
    unmake(&l);
    make_mixed(&l, rows, READERS);
    assert_int_equal(count(&target, &l), 0);
    assert_int_equal(count_conversions(&target, &l), 0);
    unmake(&l);
    runner_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mixed),
    };
    return cmocka_run_group_tests_name("kernels storages", tests, NULL, NULL);
}
