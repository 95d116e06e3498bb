/* Weights in objects of every kind, and conversions between layouts. */
#include "sample.h"
#include "lower/objects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static gpu_target with_images(void)
{
    static const uint32_t sizes[5][3] = {
        [CLV_STORAGE_IMAGE_BUFFER] = {1 << 20, 1, 1},
        [CLV_STORAGE_TEXTURE_2D] = {8192, 8192, 1},
        [CLV_STORAGE_TEXTURE_ARRAY] = {8192, 8192, 2048},
        [CLV_STORAGE_TEXTURE_3D] = {2048, 2048, 2048}};
    gpu_target target = sample_target;
    memcpy(target.image, sizes, sizeof sizes);
    for (uint32_t i = CLV_STORAGE_IMAGE_BUFFER; i < 5; i++)
        target.image_halves[i] = true;
    return target;
}

/* ------------------------------------------------------------------------ */
/* Round trips                                                               */

/* A tensor of F32 or F16, there and back. */
typedef struct trip {
    int64_t rows, channels, group;
    uint32_t dtype, layout, storage;
} trip;

static gpu_code *make_trip(const gpu_target *target, const trip *t,
                           const graph *g)
{
    gpu_builder b = {.host = &test_host, .target = target};
    const bool weights = t->layout == CLV_LAYOUT_WEIGHTS;
    const int64_t pad = 4 * t->group, rows = t->rows;
    const int64_t dims[] = {weights ? rows : 1, 1, weights ? 1 : rows, 1,
                            t->channels};
    const gpu_tensor from = {.d = g->tensors[0], .index = 0, .dense = true};
    gpu_call call;
    gpu_operand bound, middle;
    b.code = calloc(1, sizeof *b.code);
    assert_non_null(b.code);
    gpu_call_init(&call, "none", "", 1);
    bound = middle = *gpu_call_rows(&call, "w", &from, false);
    middle.memory = GPU_MEMORY_PRIVATE;
    middle.sliced = true;
    middle.storage = t->storage;
    assert_true(
        clv_layout_init(&middle.map, t->layout, t->storage, dims, t->group));
    assert_int_equal(gpu_build_objects(&b, &middle.map, t->storage, t->dtype,
                                       weights, &middle.index),
                     0);
    assert_int_equal(gpu_objects(&middle), b.code->n_privates);
    assert_int_equal(
        gpu_convert(&b, &bound, &middle,
                    gpu_constant(weights ? (rows + pad - 1) / pad * pad : rows),
                    weights),
        0);
    bound.index = 1;
    assert_int_equal(
        gpu_convert(&b, &middle, &bound, gpu_constant(rows), false), 0);
    gpu_builder_finish(&b);
    return b.code;
}

static void check_trip(runner *r, const trip *t)
{
    gpu_target target = with_images();
    sample s = {.size = {0}};
    graph_init(&s.g);
    sample_add(&s, t->dtype, CLV_USAGE_WEIGHT, t->rows, t->channels, 0);
    sample_add(&s, t->dtype, CLV_USAGE_OUTPUT, t->rows, t->channels, 0);
    sample_fill(&s, 0);
    gpu_code *code;
    target.language = GPU_GLSL;
    if (t->layout == CLV_LAYOUT_WEIGHTS) {
        code = make_trip(&target, t, &s.g);
        runner_glsl(r, code);
        gpu_code_free(&test_host, code);
    }
    target.language = GPU_OPENCL_C;
    code = make_trip(&target, t, &s.g);
    runner_code(r, &s.g, code, s.data, s.size, NULL);
    gpu_code_free(&test_host, code);
    assert_memory_equal(s.data[0], s.data[1], s.size[0]);
    sample_free(&s);
}

static int64_t below(int64_t most)
{
    return 1 + (int64_t)((sample_random() + 1) / 2 * (float)most) % most;
}

static void test_round_trips(void **state)
{
    gpu_target target = with_images();
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t storage = 0; storage < 5; storage++)
        for (uint32_t i = 0; i < 3; i++) {
            trip t = {.rows = below(70),
                      .channels = below(90),
                      .layout = i ? CLV_LAYOUT_WEIGHTS : CLV_LAYOUT_SLICES4,
                      .dtype = i < 2 ? CLV_DTYPE_F32 : CLV_DTYPE_F16,
                      .group = i ? below(3) : 0,
                      .storage = storage};
            check_trip(r, &t);
        }
    runner_close(r);
}

/* ------------------------------------------------------------------------ */
/* Products                                                                  */

enum { X, W, SCALES, BIAS, Y };

typedef struct product {
    uint32_t dtype, quant, group;
    int64_t rows, in, out;
    uint32_t parts;
} product;

static void make_product(sample *s, const product *p)
{
    memset(s, 0, sizeof *s);
    graph_init(&s->g);
    sample_add(s, CLV_DTYPE_F32, CLV_USAGE_INPUT, p->rows, p->in, 0);
    sample_add(s, p->dtype, CLV_USAGE_WEIGHT, p->out, p->in, 0);
    if (p->quant == CLV_QUANT_PER_GROUP)
        sample_add(s, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, p->out, p->in / p->group,
                   0);
    else
        sample_add(s, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, p->out, 0);
    s->g.tensors[W].quant = p->quant;
    s->g.tensors[W].quant_group = p->group;
    s->g.tensors[W].quant_scales = p->quant ? SCALES + 1 : 0;
    sample_add(s, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, p->out, 0);
    sample_add(s, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, p->rows, p->out, 0);
    for (uint32_t t = X; t < Y; t++)
        sample_fill(s, t);
    graph_node(&s->g, CLV_OP_MATMUL, Y,
               (const uint32_t[]){X, W, BIAS, CLV_NO_TENSOR});
}

static double scale_of(const sample *s, const product *p, int64_t o, int64_t k)
{
    if (!p->quant)
        return 1;
    return p->quant == CLV_QUANT_PER_GROUP
               ? sample_value(s, SCALES, o, k / p->group)
               : sample_value(s, SCALES, 0, o);
}

/* Dispatches of the setup; *objects: what they fill. */
static uint32_t count_setups(const gpu_target *target, const graph *g,
                             uint32_t *objects)
{
    gpu_code *code = NULL;
    *objects = 0;
    if (gpu_lower(&test_host, target, &g->sub, &code))
        fail_msg("gpu_lower: %s", test_error());
    for (uint32_t i = 0; i < code->n_privates; i++)
        if (code->privates[i].weights) {
            assert_true(code->privates[i].storage + 1 == target->weights ||
                        !code->privates[i].storage);
            ++*objects;
        }
    uint32_t n = code->n_setup;
    gpu_code_free(&test_host, code);
    return n;
}

static void check_objects(const sample *s, const product *p,
                          const gpu_target *target)
{
    const bool flat = target->weights == 1 + CLV_STORAGE_TEXTURE_2D;
    const bool apart = p->dtype == CLV_DTYPE_Q8_0 || p->dtype == CLV_DTYPE_Q4_0;
    uint32_t objects;
    assert_int_equal(count_setups(target, &s->g, &objects),
                     p->parts * (apart ? 2 : 1));
    assert_int_equal(objects, p->parts * ((flat ? 4 : 1) + apart));
}

static void check_product(runner *r, const product *p, gpu_target *target)
{
    judge j = {0};
    sample s;
    char what[80];
    make_product(&s, p);
    check_objects(&s, p, target);
    memset(s.data[Y], 0xff, s.size[Y]);
    runner_set(r, target);
    runner_run(r, &s.g, s.data, s.size, NULL);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t o = 0; o < p->out; o++) {
            double sum = sample_value(&s, BIAS, 0, o);
            for (int64_t k = 0; k < p->in; k++)
                sum += sample_value(&s, X, i, k) * sample_value(&s, W, o, k) *
                       scale_of(&s, p, o, k);
            judge_expect(&j, sample_value(&s, Y, i, o), sum);
        }
    snprintf(what, sizeof what, "dtype %u, weights %u, %d x %d x %d", p->dtype,
             target->weights, (int)p->rows, (int)p->in, (int)p->out);
    judge_conclude(&j, target->int_dot ? 1e-4 : 1e-11, what);
    sample_free(&s);
}

/* Each format in each kind of storage, by the kernels for few rows and for
 * many, by angles; sizes fill neither slices nor groups. */
static void test_products(void **state)
{
    static const product all[] = {
        {CLV_DTYPE_F32, 0, 0, 3, 70, 41, 1},
        {CLV_DTYPE_F16, 0, 0, 37, 71, 38, 1},
        {CLV_DTYPE_BF16, 0, 0, 6, 69, 41, 1},
        {CLV_DTYPE_Q8_0, 0, 0, 3, 96, 39, 1},
        {CLV_DTYPE_Q4_0, 0, 0, 7, 64, 41, 1},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 2, 75, 37, 1},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32, 13, 96, 38, 1},
        {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0, 1, 78, 41, 1},
    };
    gpu_target target = with_images();
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t k = 0; k < 2; k++) {
            product p = all[i];
            target.weights = 1 + (2 * i + k) % 5;
            p.rows = k ? 38 - p.rows : p.rows;
            check_product(r, &p, &target);
        }
    target.weights = 1 + CLV_STORAGE_TEXTURE_2D;
    check_product(r, &all[1], &target);
    check_product(r, &all[3], &target);
    runner_close(r);
}

/* By products of bytes, as integers. */
static void test_bytes(void **state)
{
    static const product all[] = {
        {CLV_DTYPE_Q8_0, 0, 0, 37, 96, 39, 1},
        {CLV_DTYPE_Q4_0, 0, 0, 37, 64, 41, 1},
        {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0, 37, 64, 37, 1},
        {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32, 37, 96, 38, 1},
    };
    gpu_target target = with_images();
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    target.int_dot = true;
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        target.weights = 1 + i;
        check_product(r, &all[i], &target);
    }
    runner_close(r);
}

/* Images that hold too little at a time hold the weights in parts; those whose
 * rows are too short for them do not hold them at all. */
static void test_limits(void **state)
{
    static const product f16 = {CLV_DTYPE_F16, 0, 0, 2, 66, 75, 2};
    product one = f16,
            groups = {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 8, 2, 64, 8, 1};
    gpu_target target = with_images();
    uint32_t objects;
    sample s;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    target.weights = 1 + CLV_STORAGE_TEXTURE_2D;
    target.image[CLV_STORAGE_TEXTURE_2D][1] = 10;
    check_product(r, &f16, &target);
    target.image[CLV_STORAGE_TEXTURE_2D][1] = 8192;
    make_product(&s, &f16);
    target.max_binding = 4096 + 66 * 2 * 40; /* what the setup reads from */
    check_objects(&s, &f16, &target);
    target.max_binding = sample_target.max_binding;
    target.image[CLV_STORAGE_TEXTURE_2D][0] = 16;
    assert_int_equal(count_setups(&target, &s.g, &objects), 0);
    assert_int_equal(objects, 0);
    target.weights = 1 + CLV_STORAGE_TEXTURE_ARRAY;
    target.image_halves[CLV_STORAGE_TEXTURE_ARRAY] = false;
    one.parts = 1;
    check_product(r, &one, &target);
    target.disabled = GPU_WEIGHT_OBJECTS;
    assert_int_equal(count_setups(&target, &s.g, &objects), 0);
    target.disabled = NULL;
    s.g.tensors[W].usage = CLV_USAGE_INPUT; /* may change */
    assert_int_equal(count_setups(&target, &s.g, &objects), 0);
    sample_free(&s);
    make_product(&s, &groups); /* of less than a texel */
    assert_int_equal(count_setups(&target, &s.g, &objects), 0);
    sample_free(&s);
    runner_close(r);
}

/* The stride of one row says nothing. */
static void test_one_row(void **state)
{
    static const product one = {CLV_DTYPE_F32, 0, 0, 2, 24, 1, 1};
    static const int64_t strides[] = {0, 4};
    gpu_target target = with_images();
    sample s;
    (void)state;
    make_product(&s, &one);
    s.g.tensors[W].strides[1] = 4;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t objects;
        s.g.tensors[W].strides[0] = strides[i / 2];
        target.weights = i % 2;
        assert_int_equal(count_setups(&target, &s.g, &objects), i % 2);
    }
    sample_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_products),
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_limits),
        cmocka_unit_test(test_one_row),
    };
    return cmocka_run_group_tests_name("kernels objects", tests, NULL, NULL);
}
