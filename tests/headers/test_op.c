/* The table of ops: whole, in order, and its rules as a plugin uses them. */
#include <cleave/plugin_op.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_rows(void **state)
{
    (void)state;
    assert_null(clv_op_find(CLV_OP_NONE));
    assert_null(clv_op_find(CLV_OP_COUNT));
    assert_string_equal(clv_op_name(CLV_OP_COUNT), "unknown op");
    for (uint32_t op = 1; op < CLV_OP_COUNT; op++) {
        const clv_op_info *info = clv_op_find(op);
        assert_non_null(info);
        assert_int_equal(info->op, op);
        assert_true(info->n_required <= info->n_inputs);
        for (uint32_t i = 0; i < CLV_OP_OPERANDS; i++)
            assert_int_equal(info->inputs[i].name != NULL, i < info->n_inputs);
        for (uint32_t i = 0; i < CLV_OP_FIELDS; i++)
            assert_true(!info->fields[i].name ||
                        info->fields[i].offset + 4 <= sizeof(clv_op_attr));
    }
}

static void test_choices(void **state)
{
    const clv_attr_field *field = clv_op_field(clv_op_find(CLV_OP_ROPE), 0);
    char text[32];
    (void)state;
    assert_true(clv_attr_choice(field, CLV_ROPE_HALVES, text));
    assert_string_equal(text, "halves");
    assert_true(clv_attr_choice(field, CLV_ROPE_PAIRS, text));
    assert_string_equal(text, "pairs");
    assert_false(clv_attr_choice(field, 2, text));
}

static clv_tensor_desc matrix(int64_t rows, int64_t columns)
{
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = CLV_DTYPE_F32;
    desc.rank = 2;
    desc.dims[0] = rows;
    desc.dims[1] = columns;
    return desc;
}

static void test_check(void **state)
{
    const clv_op_attr attr = {.raw = {0}};
    const clv_tensor_desc x = matrix(3, 8), w = matrix(5, 8);
    clv_op_shape s = {.op = CLV_OP_MATMUL,
                      .attr = &attr,
                      .n_inputs = 2,
                      .in = {&x, &w},
                      .out = matrix(3, 5)};
    (void)state;
    assert_int_equal(clv_op_check(&s), CLV_OK);
    s.out = matrix(3, 6);
    assert_int_equal(clv_op_check(&s), CLV_ERR_INVALID);
    assert_string_equal(
        s.text, "matmul: the output is f32 [3,6], it must be f32 [3,5]");
    s.in[1] = NULL;
    assert_int_equal(clv_op_check(&s), CLV_ERR_INVALID);
    assert_string_equal(s.text, "matmul: w is missing");
    s.op = CLV_OP_COUNT;
    assert_int_equal(clv_op_check(&s), CLV_ERR_UNSUPPORTED);
}

static void test_attributes(void **state)
{
    clv_op_attr attr = {.glu = {7}};
    const clv_tensor_desc x = matrix(3, 8);
    clv_op_shape s = {
        .op = CLV_OP_GLU, .attr = &attr, .n_inputs = 2, .in = {&x, &x}};
    (void)state;
    assert_int_equal(clv_op_infer(&s), CLV_ERR_INVALID);
    assert_string_equal(s.text,
                        "glu: activation 7 is unknown; it is one of silu|gelu");
    attr.glu.activation = CLV_ACT_GELU_TANH;
    assert_int_equal(clv_op_infer(&s), CLV_OK);
    assert_true(clv_same_shape(&s.out, &x));
}

/* The types that ops write, and any type that only changes its layout. */
static void test_convert(void **state)
{
    const clv_op_attr attr = {.raw = {0}};
    clv_tensor_desc x = matrix(16, 256);
    clv_op_shape s = {
        .op = CLV_OP_CONVERT, .attr = &attr, .n_inputs = 1, .in = {&x}};
    (void)state;
    x.dtype = s.out.dtype = CLV_DTYPE_Q4_K;
    assert_int_equal(clv_op_infer(&s), CLV_ERR_INVALID);
    assert_non_null(strstr(s.text, "the type asked for is not"));
    s.out.dtype = CLV_DTYPE_Q4_K;
    s.out.layout = CLV_LAYOUT_PRIVATE;
    assert_int_equal(clv_op_infer(&s), CLV_OK);
    assert_int_equal(s.out.layout, CLV_LAYOUT_PRIVATE);
    assert_int_equal(clv_op_check(&s), CLV_OK);
    x.dtype = CLV_DTYPE_F16;
    assert_int_equal(clv_op_infer(&s), CLV_ERR_INVALID);
    s.op = CLV_OP_SILU;
    x.dtype = CLV_DTYPE_F32;
    assert_int_equal(clv_op_infer(&s), CLV_OK);
    assert_int_equal(s.out.layout, CLV_LAYOUT_LINEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_choices),
        cmocka_unit_test(test_check),   cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
