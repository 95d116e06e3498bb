/* Calls whose text is not made again: whatever differs from a call before gives
 * the same kernel and arguments as if there had been none before. */
#include "graph.h"
#include "lower/lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const gpu_target target = {.language = GPU_OPENCL_C,
                                  .max_group = 256,
                                  .max_group_size = {256, 256, 64},
                                  .local_bytes = 49152,
                                  .max_binding = 128 << 20,
                                  .units = 8};
#define ADDED                                                                  \
    "KERNEL\n{\n"                                                              \
    "    int x = GLOBAL_ID(0);\n"                                              \
    "    if (x < args.dst.Width() && x < args.most)\n"                         \
    "        args.dst.WriteScalar(args.a.ReadScalar(0, x, 0, 0, FIRST)"
static const char text[] = ADDED ", 0, x, 0, 0, 0);\n}\n";
static const char other_text[] = ADDED " + 1.0f, 0, x, 0, 0, 0);\n}\n";

static gpu_call make(void)
{
    const gpu_tensor a = {
        .d = {.dtype = CLV_DTYPE_F32, .rank = 2, .dims = {16, 64}},
        .dense = true};
    gpu_tensor dst = a;
    gpu_call call;
    dst.index = 1;
    gpu_call_init(&call, "one", text, 64);
    gpu_call_use(&call, "#define USED 1\n");
    gpu_call_rows(&call, "a", &a, false);
    gpu_call_rows(&call, "dst", &dst, true);
    gpu_call_param(&call, "most", gpu_constant(16));
    gpu_call_define(&call, "FIRST", 3);
    call.posts[call.n_posts++] = (gpu_post){GPU_POST_SCALE, 0, 2.0f};
    call.groups[0] = gpu_constant(1);
    return call;
}

/* What may differ between two calls. */
static void change_text(gpu_call *c)
{
    c->text = other_text;
}

static void change_name(gpu_call *c)
{
    c->name = "other";
}

static void change_variant(gpu_call *c)
{
    c->variant = "other";
}

static void change_use(gpu_call *c)
{
    c->uses[0] = "#define USED 2\n";
}

static void change_group(gpu_call *c)
{
    c->local[0] = 32;
}

static void change_define(gpu_call *c)
{
    c->defines[0].value = 4;
}

static void change_param(gpu_call *c)
{
    c->params[0].value = gpu_constant(9);
}

static void change_symbol(gpu_call *c)
{
    c->params[0].value.symbol = 1;
}

static void change_post(gpu_call *c)
{
    c->posts[0].value = 3.0f;
}

static void change_op(gpu_call *c)
{
    c->posts[0].op = GPU_POST_SOFTCAP;
}

static void change_no_post(gpu_call *c)
{
    c->n_posts = 0;
}

static void change_dtype(gpu_call *c)
{
    c->operands[0].dtype = CLV_DTYPE_F16;
}

static void change_width(gpu_call *c)
{
    c->operands[1].width.constant = 8;
}

static void change_stride(gpu_call *c)
{
    for (uint32_t i = 0; i < 5; i++)
        c->operands[0].strides[i].constant += 4;
}

static void change_place(gpu_call *c)
{
    c->operands[0].index = 2;
    c->operands[0].offset = 128;
    c->node = 5;
    c->groups[0] = gpu_constant(3);
}

typedef struct change {
    const char *name;
    void (*make)(gpu_call *call);
    bool same_kernel;
} change;

static const change changes[] = {
    {"text", change_text, false},       {"name", change_name, false},
    {"variant", change_variant, false}, {"use", change_use, false},
    {"group", change_group, false},     {"define", change_define, false},
    {"param", change_param, true},      {"symbol", change_symbol, true},
    {"post", change_post, false},       {"op", change_op, false},
    {"no post", change_no_post, false}, {"dtype", change_dtype, false},
    {"width", change_width, true},      {"stride", change_stride, true},
    {"place", change_place, true},
};

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

static void build(gpu_builder *b, const gpu_call *call)
{
    if (gpu_build(b, call, false))
        fail_msg("%s", test_error());
}

/* The last call of both. */
static void compare(const gpu_code *code, const gpu_code *alone)
{
    const gpu_dispatch *d = &code->dispatches[code->n_dispatches - 1];
    const gpu_dispatch *e = &alone->dispatches[0];
    const gpu_kernel *k = &code->kernels[d->kernel], *l = &alone->kernels[0];
    assert_string_equal(k->source, l->source);
    assert_string_equal(k->variant, l->variant);
    assert_memory_equal(k->local, l->local, sizeof k->local);
    assert_int_equal(k->n_params, l->n_params);
    assert_memory_equal(d->params, e->params, sizeof d->params);
    assert_int_equal(k->n_args, l->n_args);
    assert_memory_equal(d->args, e->args, k->n_args * sizeof *d->args);
    assert_memory_equal(d->groups, e->groups, sizeof d->groups);
    assert_int_equal(d->node, e->node);
}

static void test_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        gpu_builder b = begin(), alone = begin();
        const gpu_call first = make();
        gpu_call call = first;
        changes[i].make(&call);
        build(&b, &first);
        build(&b, &call);
        build(&alone, &call);
        print_message("another %s\n", changes[i].name);
        compare(b.code, alone.code);
        /* The name alone makes no other kernel, as it is for people. */
        if (changes[i].make != change_name)
            assert_int_equal(b.code->n_kernels == 1, changes[i].same_kernel);
        end(&b);
        end(&alone);
    }
}

/* Of equal calls one text is made. */
static void test_equal(void **state)
{
    gpu_builder b = begin();
    const gpu_call call = make();
    (void)state;
    for (int i = 0; i < 3; i++)
        build(&b, &call);
    assert_int_equal(b.code->n_kernels, 1);
    assert_int_equal(b.n_known, 1);
    assert_int_equal(b.code->n_dispatches, 3);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
