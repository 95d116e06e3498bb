/* Memory of programs, shared by those whose setups fill it alike, unless a run
 * changes it. */
#include "graph.h"
#include "cached.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void place_of(const void *ctx, uint32_t tensor, uint64_t *buffer,
                     uint64_t *offset)
{
    (void)ctx, (void)tensor;
    *buffer = 1;
    *offset = 0;
}

/* Attention of few queries, whose groups count in memory of the program. */
static gpu_code *lower(void)
{
    const gpu_target target = {.language = GPU_OPENCL_C,
                               .max_group = 256,
                               .max_group_size = {256, 256, 64},
                               .local_bytes = 49152,
                               .max_binding = 128 << 20,
                               .plain_matrix = true,
                               .units = 64};
    gpu_code *code = NULL;
    graph g;
    graph_init(&g);
    graph_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, 8 * 64);
    graph_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_STATE, 1024, 2 * 64);
    graph_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_STATE, 1024, 2 * 64);
    graph_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, 1);
    graph_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, 8 * 64);
    graph_node(&g, CLV_OP_ATTENTION, 4,
               (const uint32_t[]){0, 1, 2, 3, CLV_NO_TENSOR})
        ->attr.attention.head_dim = 64;
    assert_int_equal(gpu_lower(&test_host, &target, &g.sub, &code), CLV_OK);
    return code;
}

static uint32_t find_own(const gpu_code *code)
{
    for (uint32_t i = 0; i < code->n_privates; i++)
        if (code->privates[i].own)
            return i;
    fail_msg("nothing of the program's own");
    return 0;
}

static void test_cached(void **state)
{
    gpu_cached *list = NULL, *one, *two;
    gpu_code *code = lower();
    const uint32_t i = find_own(code);
    (void)state;
    assert_true(code->privates[i].weights);
    assert_int_equal(code->n_setup, 1);
    assert_true(gpu_cached_filled_by(code, code->setup, i));
    for (int own = 0; own < 2; own++) {
        code->privates[i].own = own;
        assert_int_equal(
            gpu_cached_find(&test_host, &list, code, i, place_of, NULL, &one),
            CLV_OK);
        assert_int_equal(
            gpu_cached_find(&test_host, &list, code, i, place_of, NULL, &two),
            CLV_OK);
        assert_int_equal(own ? one != two : one == two, true);
        one->memory = &list;
        assert_ptr_equal(gpu_cached_drop(&test_host, &list, two), NULL);
        assert_ptr_equal(gpu_cached_drop(&test_host, &list, one), &list);
        assert_null(list);
    }
    gpu_code_free(&test_host, code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cached)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
