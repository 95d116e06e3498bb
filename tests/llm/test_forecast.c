/* Forecasts of errors: noise of the stated size is within the bounds, noise
 * that is much larger is not, and each op counts. */
#include "check.h"
#include "forecast.h"
#include "rig.h"

#include <stdlib.h>

#define N 24
#define SEEDS 40
#define FIRST_SEED 1000 /* not those of the forecast's own noise */
#define LARGER 100      /* in square */

static const uint32_t dense_ops[] = {
    CLV_OP_GET_ROWS,  CLV_OP_RMS_NORM, CLV_OP_MATMUL, CLV_OP_ROPE,
    CLV_OP_ATTENTION, CLV_OP_ADD,      CLV_OP_GLU};

static tiny_errors all_ops(double error)
{
    tiny_errors errors = {.cache = error};
    for (uint32_t op = 0; op < CLV_OP_COUNT; op++)
        errors.ops[op] = error;
    return errors;
}

/* How many rows of such noise are beyond the bounds. */
static uint32_t count_beyond(llm_source *source, const int32_t *ids,
                             const forecast *f, double error)
{
    const uint32_t n_vocab = source->hparams.n_vocab;
    const tiny_errors errors = all_ops(error);
    double *draw = malloc(sizeof *draw * N * n_vocab);
    float *x = malloc(sizeof *x * n_vocab);
    uint32_t count = 0;
    assert_true(draw && x);
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        tiny_forward_disturbed(source, ids, N, &errors, seed, draw);
        for (uint32_t r = 0; r < N; r++) {
            for (uint32_t i = 0; i < n_vocab; i++)
                x[i] = (float)draw[r * n_vocab + i];
            count +=
                rig_error(x, f->logits + r * n_vocab, n_vocab) > f->bounds[r];
        }
    }
    free(draw);
    free(x);
    return count;
}

static void check_sizes(double error)
{
    tiny_params p = tiny_defaults();
    int32_t ids[N];
    p.n_layers = 4;
    p.dtype = CLV_DTYPE_Q8_0;
    llm_source *source = tiny_create(&p);
    const tiny_errors errors = all_ops(error);
    forecast f;
    tiny_ids(source, 3, ids, N);
    forecast_make(&f, source, ids, N, &errors);
    assert_int_equal(count_beyond(source, ids, &f, error), 0);
    assert_true(count_beyond(source, ids, &f, LARGER * error) >
                N * SEEDS * 9 / 10);
    forecast_free(&f);
    llm_source_destroy(source);
}

static void test_sizes(void **state)
{
    (void)state;
    check_sizes(1e-10);
    check_sizes(1e-6);
    check_sizes(1e-5);
}

/* Of errors of one kind; none have no bound but 0. The first row attends to
 * itself alone, whatever its scores. */
static void check_counts(llm_source *source, const tiny_errors *errors,
                         bool counts)
{
    int32_t ids[N];
    forecast f;
    tiny_ids(source, 3, ids, N);
    forecast_make(&f, source, ids, N, errors);
    for (uint32_t r = 1; r < N; r++)
        assert_true(counts ? f.bounds[r] > 0 : f.bounds[r] == 0);
    forecast_free(&f);
}

static void check_op(llm_source *source, uint32_t op)
{
    tiny_errors errors = {.cache = 0};
    errors.ops[op] = 1e-8;
    check_counts(source, &errors, true);
}

static void test_ops(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    const tiny_errors none = {.cache = 0}, cache = {.cache = 1e-8};
    llm_source *source = tiny_create(&p);
    for (size_t i = 0; i < sizeof dense_ops / sizeof *dense_ops; i++)
        check_op(source, dense_ops[i]);
    check_counts(source, &none, false);
    check_counts(source, &cache, true);
    llm_source_destroy(source);
    p.n_experts = 4;
    p.n_experts_used = 2;
    source = tiny_create(&p);
    check_op(source, CLV_OP_MATMUL_EXPERTS);
    llm_source_destroy(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
