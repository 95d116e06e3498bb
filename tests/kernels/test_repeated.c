/* Calls that say the same become one dispatch, which has arguments for each. */
#include "code/code.h"
#include "graph.h"
#include "lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const gpu_target target = {.max_group = 256,
                                  .max_group_size = {256, 256, 64},
                                  .local_bytes = 32768,
                                  .repeats = UINT32_MAX};

static const char text[] = "KERNEL\n{\n"
                           "    for (int r = 0; r < REPEATS; r++) {\n"
                           "        REPEAT_PLACES(r)\n"
                           "        args.dst.WriteScalar(args.a.ReadScalar(0, "
                           "0, 0, 0, LOCAL_ID(0)), 0,"
                           " 0, 0, 0, LOCAL_ID(0));\n"
                           "    }\n}\n";

/* Reads a, which all have, and writes rows of their own. */
static gpu_call make(const char *its_text, uint32_t dst)
{
    gpu_call call;
    gpu_call_init(&call, "one", its_text, 64);
    call.wide = true;
    gpu_add_private_rows(&call, "a", 0, CLV_DTYPE_F32, gpu_constant(1), 64, 256,
                         false);
    gpu_add_private_rows(&call, "dst", dst, CLV_DTYPE_F32, gpu_constant(1), 64,
                         256, true);
    return call;
}

static void add(gpu_builder *b, const char *its_text, uint32_t dst)
{
    /* The text lasts no longer than the call. */
    char *own = strdup(its_text);
    assert_non_null(own);
    const gpu_call call = make(own, dst);
    b->node = dst;
    if (gpu_build_repeated(b, &call))
        fail_msg("%s", test_error());
    free(own);
}

static gpu_builder begin(void)
{
    gpu_builder b = {.host = &test_host, .target = &target};
    b.code = calloc(1, sizeof *b.code);
    assert_non_null(b.code);
    return b;
}

static void end(gpu_builder *b)
{
    gpu_builder_finish(b);
    gpu_code_free(&test_host, b->code);
}

/* Dispatch d is of n calls, of which the first writes to private buffer dst. */
static void expect(const gpu_builder *b, uint32_t d, uint32_t n, uint32_t dst)
{
    char repeats[32];
    assert_true(d < b->code->n_dispatches);
    const gpu_dispatch *dispatch = &b->code->dispatches[d];
    const gpu_kernel *kernel = &b->code->kernels[dispatch->kernel];
    snprintf(repeats, sizeof repeats, "#define REPEATS %u\n", (unsigned)n);
    assert_non_null(strstr(kernel->source, repeats));
    assert_int_equal(kernel->n_args, 1 + n);
    assert_int_equal(dispatch->node, dst);
    assert_int_equal(dispatch->args[0].index, 0);
    assert_false(dispatch->args[0].written || kernel->written[0]);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(dispatch->args[1 + i].index, dst + i);
        assert_true(dispatch->args[1 + i].written && kernel->written[1 + i]);
    }
}

static void test_repeated(void **state)
{
    gpu_target without = target;
    gpu_builder b = begin();
    (void)state;
    for (uint32_t i = 0; i < 32; i++)
        add(&b, text, 1 + i);
    assert_int_equal(b.code->n_dispatches, 0);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 1);
    expect(&b, 0, 32, 1);
    add(&b, text, 1);
    add(&b, text, 2);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_kernels, 2);
    expect(&b, 1, 2, 1);
    without.repeats = 0;
    b.target = &without;
    add(&b, text, 1);
    add(&b, text, 2);
    assert_int_equal(b.code->n_dispatches, 4);
    expect(&b, 2, 1, 1);
    expect(&b, 3, 1, 2);
    end(&b);
}

/* Some are kernels of their own, and then so many are one at the most. */
static void test_apart(void **state)
{
    gpu_target some = target;
    gpu_builder b = begin();
    (void)state;
    some.repeats = 3;
    some.apart = 2;
    b.target = &some;
    for (uint32_t i = 0; i < 10; i++)
        add(&b, text, 1 + i);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 5);
    expect(&b, 0, 1, 1);
    expect(&b, 1, 1, 2);
    expect(&b, 2, 3, 3);
    expect(&b, 3, 3, 6);
    expect(&b, 4, 2, 9);
    end(&b);
}

/* The same memory for all is one argument, and no reason for another kernel. */
static void test_same(void **state)
{
    gpu_builder b = begin();
    (void)state;
    add(&b, text, 1);
    add(&b, text, 1);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 1);
    assert_int_equal(b.code->kernels[0].n_args, 2);
    assert_non_null(strstr(b.code->kernels[0].source, "#define REPEATS 2\n"));
    end(&b);
}

/* Whatever else is run comes where it was asked for. */
static void test_others(void **state)
{
    static const char other[] = "KERNEL\n{\n"
                                "    args.dst.WriteScalar(0.0f, 0, 0, 0, 0, "
                                "LOCAL_ID(0));\n}\n";
    gpu_builder b = begin();
    (void)state;
    add(&b, text, 1);
    add(&b, other, 2);
    add(&b, text, 3);
    add(&b, text, 4);
    gpu_call call = make(other, 5);
    call.wide = false;
    assert_int_equal(gpu_build(&b, &call, true), CLV_OK); /* the setup's */
    assert_int_equal(b.code->n_dispatches, 2);
    assert_int_equal(gpu_build(&b, &call, false), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 4);
    expect(&b, 0, 1, 1);
    assert_int_equal(b.code->dispatches[1].args[1].index, 2);
    expect(&b, 2, 2, 3);
    assert_int_equal(b.code->dispatches[3].args[1].index, 5);
    gpu_build_undo(&b, 2, 0);
    assert_int_equal(b.code->n_dispatches, 2);
    assert_int_equal(b.code->n_setup, 0);
    add(&b, text, 6); /* and is not built: nothing is lost by that */
    end(&b);
}

/* Of calls whose text is the same, but not the number of their groups. */
static void test_groups(void **state)
{
    gpu_builder b = begin();
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        gpu_call call = make(text, 1 + i);
        call.groups[0] = gpu_constant(i ? 7 : 5);
        b.node = 1 + i;
        assert_int_equal(gpu_build_repeated(&b, &call), CLV_OK);
    }
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 2);
    expect(&b, 0, 1, 1);
    expect(&b, 1, 2, 2);
    assert_int_equal(b.code->dispatches[0].groups[0].constant, 5);
    assert_int_equal(b.code->dispatches[1].groups[0].constant, 7);
    end(&b);
}

/* No more than a kernel may have. */
static void test_space(void **state)
{
    static char names[GPU_MAX_OPERANDS][8];
    gpu_builder b = begin();
    uint32_t calls = 0;
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        gpu_call call = make(text, 1);
        for (uint32_t k = 2; k < GPU_MAX_OPERANDS; k++) {
            snprintf(names[k], sizeof names[k], "b%u", (unsigned)k);
            gpu_add_private_rows(&call, names[k], 1000 + i, CLV_DTYPE_F32,
                                 gpu_constant(1), 64, 256, false);
        }
        assert_int_equal(gpu_build_repeated(&b, &call), CLV_OK);
    }
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    for (uint32_t i = 0; i < b.code->n_dispatches; i++) {
        const uint32_t n = b.code->kernels[b.code->dispatches[i].kernel].n_args;
        assert_true(n <= GPU_MAX_ARGS);
        calls += (n - 2) / (GPU_MAX_OPERANDS - 2);
    }
    assert_int_equal(calls, 60);
    end(&b);
}

static void add_exchanging(gpu_builder *b, uint32_t dst)
{
    static const char its_text[] =
        "KERNEL\n{\n"
        "    args.dst.WriteScalar(args.a.ReadScalar(0, 0, 0, 0, args.low), 0, "
        "0, 0, 0, REPEATS);\n}\n";
    gpu_call call = make(its_text, dst);
    gpu_expr low = gpu_constant(0);
    low.given = 2 * GPU_SEND_WORD + 2;
    gpu_call_param(&call, "low", low);
    call.exchanges = true;
    call.sent = "dst";
    assert_int_equal(gpu_build_repeated(b, &call), CLV_OK);
}

/* What a kernel can send is known where it is for one call. */
static void test_exchange(void **state)
{
    gpu_builder b = begin();
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        add_exchanging(&b, 1);
        assert_int_equal(gpu_build_kept(&b), CLV_OK);
    }
    add_exchanging(&b, 1);
    add_exchanging(&b, 2);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    add(&b, text, 1);
    assert_int_equal(gpu_build_kept(&b), CLV_OK);
    assert_int_equal(b.code->n_dispatches, 4);
    const gpu_dispatch *d = b.code->dispatches;
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(d[i].exchanges);
        assert_int_equal(d[i].sent, 2);
        assert_int_equal(d[i].sent_bytes, 256);
        assert_int_equal(d[i].params[0].given, 2 * GPU_SEND_WORD + 2);
    }
    assert_true(d[2].exchanges);
    assert_int_equal(d[2].sent, 0);
    assert_false(d[3].exchanges);
    assert_int_equal(d[3].sent, 0);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeated), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_same),     cmocka_unit_test(test_others),
        cmocka_unit_test(test_groups),   cmocka_unit_test(test_space),
        cmocka_unit_test(test_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
