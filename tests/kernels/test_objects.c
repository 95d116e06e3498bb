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
    gpu_call_init(&call, "none", "", 0, 1);
    bound = middle = *gpu_call_rows(&call, "w", &from, false);
    middle.memory = GPU_MEMORY_PRIVATE;
    middle.sliced = true;
    middle.storage = t->storage;
    assert_true(clv_layout_init(&middle.map, t->layout, t->storage, dims,
                                t->group));
    assert_int_equal(gpu_build_objects(&b, &middle.map, t->storage, t->dtype,
                                       weights, &middle.index), 0);
    assert_int_equal(gpu_objects(&middle), b.code->n_privates);
    assert_int_equal(
        gpu_convert(&b, 0, &bound, &middle,
                    gpu_constant(weights ? (rows + pad - 1) / pad * pad : rows),
                    weights), 0);
    bound.index = 1;
    assert_int_equal(gpu_convert(&b, 0, &middle, &bound, gpu_constant(rows),
                                 false), 0);
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
            trip t = {.rows = below(70), .channels = below(90),
                      .layout = i ? CLV_LAYOUT_WEIGHTS : CLV_LAYOUT_SLICES4,
                      .dtype = i < 2 ? CLV_DTYPE_F32 : CLV_DTYPE_F16,
                      .group = i ? below(3) : 0, .storage = storage};
            check_trip(r, &t);
        }
    runner_close(r);
}

/* ------------------------------------------------------------------------ */
/* Products                                                                  */

static void make_product(sample *s, int64_t rows, int64_t in, int64_t out,
                         uint32_t dtype)
{
    memset(s, 0, sizeof *s);
    graph_init(&s->g);
    uint32_t x = sample_add(s, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, in, 0);
    uint32_t w = sample_add(s, dtype, CLV_USAGE_WEIGHT, out, in, 0);
    uint32_t bias = sample_add(s, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, out, 0);
    uint32_t y = sample_add(s, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows, out, 0);
    sample_fill(s, x);
    sample_fill(s, w);
    sample_fill(s, bias);
    graph_node(&s->g, CLV_OP_MATMUL, y,
               (const uint32_t[]){x, w, bias, CLV_NO_TENSOR});
}

/* Private memories that the setup fills, or 0. */
static uint32_t count_objects(const gpu_target *target, const graph *g,
                              uint32_t *setups)
{
    gpu_code *code = NULL;
    uint32_t n = 0;
    assert_int_equal(gpu_lower(&test_host, target, &g->sub, &code), 0);
    for (uint32_t i = 0; i < code->n_privates; i++) {
        assert_true(code->privates[i].weights);
        n += code->privates[i].storage + 1 == target->weights;
    }
    *setups = code->n_setup;
    gpu_code_free(&test_host, code);
    return n;
}

static void check_product(runner *r, const sample *s, gpu_target *target,
                          uint32_t parts)
{
    judge j = {0};
    uint32_t setups;
    const uint32_t objects =
        target->weights == 1 + CLV_STORAGE_TEXTURE_2D ? 4 : 1;
    assert_int_equal(count_objects(target, &s->g, &setups), parts * objects);
    assert_int_equal(setups, parts);
    memset(s->data[3], 0xff, s->size[3]);
    runner_set(r, target);
    runner_run(r, &s->g, s->data, s->size, NULL);
    for (int64_t i = 0; i < s->g.tensors[0].dims[0]; i++)
        for (int64_t o = 0; o < s->g.tensors[1].dims[0]; o++) {
            double sum = sample_value(s, 2, 0, o);
            for (int64_t k = 0; k < s->g.tensors[0].dims[1]; k++)
                sum += sample_value(s, 0, i, k) * sample_value(s, 1, o, k);
            judge_expect(&j, sample_value(s, 3, i, o), sum);
        }
    judge_conclude(&j, 1e-11, "a product");
}

/* Of all kinds of storage, of weights of every float, by the kernels for few
 * rows and for many; sizes fill neither slices nor groups. */
static void test_products(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_BF16};
    gpu_target target = with_images();
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    for (uint32_t d = 0; d < 3; d++)
        for (target.weights = 1; target.weights <= 5; target.weights++) {
            sample s;
            if (d == 2 && target.weights != 1 + CLV_STORAGE_TEXTURE_2D)
                continue;
            make_product(&s, d == 2 ? 6 : (d + target.weights) % 2 ? 3 : 37,
                         70 + d, 41 - d, dtypes[d]);
            check_product(r, &s, &target, 1);
            sample_free(&s);
        }
    runner_close(r);
}

/* Images that hold too little at a time hold the weights in parts; those whose
 * rows are too short for them do not hold them at all. */
static void test_limits(void **state)
{
    gpu_target target = with_images();
    uint32_t setups;
    sample s;
    runner *r = runner_open(&target);
    (void)state;
    if (!r)
        skip();
    make_product(&s, 2, 66, 75, CLV_DTYPE_F16);
    target.weights = 1 + CLV_STORAGE_TEXTURE_2D;
    target.image[CLV_STORAGE_TEXTURE_2D][1] = 10;
    check_product(r, &s, &target, 2);
    target.image[CLV_STORAGE_TEXTURE_2D][0] = 16;
    assert_int_equal(count_objects(&target, &s.g, &setups), 0);
    assert_int_equal(setups, 0);
    target.weights = 1 + CLV_STORAGE_TEXTURE_ARRAY;
    target.image_halves[CLV_STORAGE_TEXTURE_ARRAY] = false;
    check_product(r, &s, &target, 1);
    target.disabled = "convert_layout";
    assert_int_equal(count_objects(&target, &s.g, &setups), 0);
    target.disabled = NULL;
    s.g.tensors[1].usage = CLV_USAGE_INPUT; /* may change */
    assert_int_equal(count_objects(&target, &s.g, &setups), 0);
    sample_free(&s);
    runner_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("kernels objects", tests, NULL, NULL);
}
