/* The builder: what every op makes of good operands, and that it refuses bad
 * ones. */
#include "test.h"

#include <math.h>
#include <stdio.h>

/* Operands of many kinds, by name. n and m are symbols. */
typedef struct operands {
    clv_graph *g;
    clv_dim n, m;
    clv_value x64, x64b, x96, m64, x64_f16, x64_3d, fixed64;
    clv_value v64, v64_f16, v64_i32, v64_q8, v96, v32, v33;
    clv_value ids_n, ids_m, ids_f32;
    clv_value w96x64, w64x64_q8, w96x64_f16, w96x32, w_rows, w_i32;
    clv_value e6x16x64, e6x16x32_q8, ids_nx2, ids_mx2, scores6, scores7;
    clv_value state, state_f16, state32, cache, cache_f16, cache_bf16, cache96;
} operands;

static clv_value input(clv_graph *g, uint32_t dtype, clv_dim a, int64_t b)
{
    clv_dim dims[] = {a, clv_dim_fixed(b)};
    return clv_graph_input(g, "in", dtype, b ? 2 : 1, dims);
}

static clv_value state(clv_graph *g, uint32_t dtype, int64_t a, int64_t b)
{
    return clv_graph_state(g, "state", dtype, 2, (const int64_t[]){a, b});
}

static operands begin(void)
{
    operands o;
    assert_ok(clv_graph_create(&o.g));
    clv_graph *g = o.g;
    o.n = clv_graph_symbol(g, "n", 1, 8);
    o.m = clv_graph_symbol(g, "m", 1, 8);
    o.x64 = input(g, CLV_DTYPE_F32, o.n, 64);
    o.x64b = input(g, CLV_DTYPE_F32, o.n, 64);
    o.x96 = input(g, CLV_DTYPE_F32, o.n, 96);
    o.m64 = input(g, CLV_DTYPE_F32, o.m, 64);
    o.x64_f16 = input(g, CLV_DTYPE_F16, o.n, 64);
    o.x64_3d =
        clv_graph_input(g, "in", CLV_DTYPE_F32, 3,
                        (clv_dim[]){o.n, clv_dim_fixed(2), clv_dim_fixed(64)});
    o.fixed64 = input(g, CLV_DTYPE_F32, clv_dim_fixed(8), 64);
    o.v64 = input(g, CLV_DTYPE_F32, clv_dim_fixed(64), 0);
    o.v64_f16 = input(g, CLV_DTYPE_F16, clv_dim_fixed(64), 0);
    o.v64_i32 = input(g, CLV_DTYPE_I32, clv_dim_fixed(64), 0);
    o.v64_q8 = input(g, CLV_DTYPE_Q8_0, clv_dim_fixed(64), 0);
    o.v96 = input(g, CLV_DTYPE_F32, clv_dim_fixed(96), 0);
    o.v32 = input(g, CLV_DTYPE_F32, clv_dim_fixed(32), 0);
    o.v33 = input(g, CLV_DTYPE_F32, clv_dim_fixed(33), 0);
    o.ids_n = input(g, CLV_DTYPE_I32, o.n, 0);
    o.ids_m = input(g, CLV_DTYPE_I32, o.m, 0);
    o.ids_f32 = input(g, CLV_DTYPE_F32, o.n, 0);
    o.w96x64 = input(g, CLV_DTYPE_F32, clv_dim_fixed(96), 64);
    o.w64x64_q8 = input(g, CLV_DTYPE_Q8_0, clv_dim_fixed(64), 64);
    o.w96x64_f16 = input(g, CLV_DTYPE_F16, clv_dim_fixed(96), 64);
    o.w96x32 = input(g, CLV_DTYPE_F32, clv_dim_fixed(96), 32);
    o.w_rows = input(g, CLV_DTYPE_F32, o.n, 64);
    o.w_i32 = input(g, CLV_DTYPE_I32, clv_dim_fixed(96), 64);
    o.e6x16x64 = clv_graph_input(
        g, "in", CLV_DTYPE_F16, 3,
        (clv_dim[]){clv_dim_fixed(6), clv_dim_fixed(16), clv_dim_fixed(64)});
    o.e6x16x32_q8 = clv_graph_input(
        g, "in", CLV_DTYPE_Q8_0, 3,
        (clv_dim[]){clv_dim_fixed(6), clv_dim_fixed(16), clv_dim_fixed(32)});
    o.ids_nx2 = input(g, CLV_DTYPE_I32, o.n, 2);
    o.ids_mx2 = input(g, CLV_DTYPE_I32, o.m, 2);
    o.scores6 = input(g, CLV_DTYPE_F32, o.n, 6);
    o.scores7 = input(g, CLV_DTYPE_F32, o.n, 7);
    o.state = state(g, CLV_DTYPE_F32, 20, 64);
    o.state_f16 = state(g, CLV_DTYPE_F16, 20, 64);
    o.state32 = state(g, CLV_DTYPE_F32, 20, 32);
    o.cache = state(g, CLV_DTYPE_F32, 20, 32);
    o.cache_f16 = state(g, CLV_DTYPE_F16, 20, 32);
    o.cache_bf16 = state(g, CLV_DTYPE_BF16, 20, 32);
    o.cache96 = state(g, CLV_DTYPE_F32, 20, 48);
    assert_ok(clv_graph_check(g));
    return o;
}

/* The op was accepted, with this output; ends the graph. */
static void good(operands *o, clv_value y, uint32_t dtype, uint32_t rank,
                 uint32_t symbol, int64_t first, int64_t last)
{
    assert_ok(clv_graph_check(o->g));
    const clv_tensor_desc *desc = clv_graph_value_desc(o->g, y);
    assert_non_null(desc);
    assert_int_equal(desc->dtype, dtype);
    assert_int_equal(desc->rank, rank);
    assert_int_equal(desc->usage, CLV_USAGE_TRANSIENT);
    assert_int_equal(desc->symbols[0], symbol);
    assert_int_equal(desc->dims[0], first);
    assert_int_equal(desc->dims[rank - 1], last);
    clv_graph_destroy(o->g);
}

/* The op was refused, naming itself and what is wrong; ends the graph. */
static void bad(operands *o, clv_value y, const char *says)
{
    assert_int_equal(y, CLV_NO_TENSOR);
    assert_int_equal(clv_graph_check(o->g), CLV_ERR_INVALID);
    assert_error_says(says);
    clv_graph_destroy(o->g);
}

/* One op on fresh operands. */
#define GOOD(expr, dtype, rank, symbol, first, last)                           \
    do {                                                                       \
        operands o = begin();                                                  \
        good(&o, expr, dtype, rank, symbol, first, last);                      \
    } while (0)
#define GOOD_ROWS(expr, columns) GOOD(expr, CLV_DTYPE_F32, 2, 1, 8, columns)
#define BAD(expr, says)                                                        \
    do {                                                                       \
        operands o = begin();                                                  \
        bad(&o, expr, says);                                                   \
    } while (0)

static void test_rows(void **unused)
{
    (void)unused;
    GOOD_ROWS(clv_graph_get_rows(o.g, o.w96x64, o.ids_n), 64);
    GOOD_ROWS(clv_graph_get_rows(o.g, o.w64x64_q8, o.ids_n), 64);
    GOOD(clv_graph_get_rows(o.g, o.w96x64, o.v64_i32), CLV_DTYPE_F32, 2, 0, 64,
         64);
    GOOD_ROWS(clv_graph_get_rows(o.g, o.w_rows, o.ids_n), 64);
    BAD(clv_graph_get_rows(o.g, o.v64, o.ids_n), "table");
    BAD(clv_graph_get_rows(o.g, o.w_i32, o.ids_n), "table");
    BAD(clv_graph_get_rows(o.g, o.w96x64, o.ids_f32), "ids");
    BAD(clv_graph_get_rows(o.g, o.w96x64, o.x64), "ids");
    BAD(clv_graph_get_rows(o.g, CLV_NO_TENSOR, o.ids_n), "table is missing");
    BAD(clv_graph_get_rows(o.g, 9999, o.ids_n), "no value");
}

static clv_value set_rows(clv_graph *g, clv_value a, clv_value b, clv_value c)
{
    clv_graph_set_rows(g, a, b, c);
    return CLV_NO_TENSOR;
}

static void test_set_rows(void **unused)
{
    (void)unused;
    operands p = begin();
    clv_graph_set_rows(p.g, p.state, p.x64, p.ids_n);
    clv_graph_set_rows(p.g, p.state_f16, p.x64, p.ids_n);
    assert_ok(clv_graph_check(p.g));
    clv_graph_destroy(p.g);
    BAD(set_rows(o.g, o.w96x64, o.x64, o.ids_n), "state");
    BAD(set_rows(o.g, o.state32, o.x64, o.ids_n), "columns");
    BAD(set_rows(o.g, o.state, o.x64, o.ids_m), "rows");
    BAD(set_rows(o.g, o.state, o.x64_f16, o.ids_n), "src");
    BAD(set_rows(o.g, o.state, o.x64, o.ids_f32), "ids");
}

static void test_matmul(void **unused)
{
    (void)unused;
    const clv_value no = CLV_NO_TENSOR;
    GOOD_ROWS(clv_graph_matmul(o.g, o.x64, o.w96x64, no), 96);
    GOOD_ROWS(clv_graph_matmul(o.g, o.x64, o.w96x64_f16, o.v96), 96);
    GOOD_ROWS(clv_graph_matmul(o.g, o.x64, o.w64x64_q8, o.v64_f16), 64);
    GOOD(clv_graph_matmul(o.g, o.fixed64, o.w96x64, no), CLV_DTYPE_F32, 2, 0, 8,
         96);
    BAD(clv_graph_matmul(o.g, o.x64, o.w96x32, no), "last dimensions");
    BAD(clv_graph_matmul(o.g, o.x64, o.w96x64, o.v64), "channels");
    BAD(clv_graph_matmul(o.g, o.x64, o.w64x64_q8, o.v64_i32), "bias");
    BAD(clv_graph_matmul(o.g, o.x64_f16, o.w96x64, no), "x is");
    BAD(clv_graph_matmul(o.g, o.x64_3d, o.w96x64, no), "x is");
    BAD(clv_graph_matmul(o.g, o.x64, o.w_rows, no), "w is");
    BAD(clv_graph_matmul(o.g, o.x64, o.w_i32, no), "w is");
    BAD(clv_graph_matmul(o.g, o.x64, no, no), "w is missing");
}

static void test_elementwise(void **unused)
{
    (void)unused;
    GOOD_ROWS(clv_graph_add(o.g, o.x64, o.x64b), 64);
    GOOD_ROWS(clv_graph_add(o.g, o.x64, o.x64), 64);
    GOOD_ROWS(clv_graph_mul(o.g, o.x64, o.v64), 64);
    GOOD_ROWS(clv_graph_mul(o.g, o.x64, o.v64_f16), 64);
    GOOD(clv_graph_add(o.g, o.x64_3d, o.v64), CLV_DTYPE_F32, 3, 1, 8, 64);
    BAD(clv_graph_add(o.g, o.x64, o.x96), "b is");
    BAD(clv_graph_add(o.g, o.x64, o.m64), "b is");
    BAD(clv_graph_add(o.g, o.x64, o.fixed64), "b is");
    BAD(clv_graph_add(o.g, o.x64, o.v96), "channels");
    BAD(clv_graph_add(o.g, o.x64, o.v64_q8), "b is");
    BAD(clv_graph_mul(o.g, o.x64_f16, o.x64_f16), "a is");
    GOOD_ROWS(clv_graph_silu(o.g, o.x64), 64);
    GOOD(clv_graph_gelu(o.g, o.x64_3d), CLV_DTYPE_F32, 3, 1, 8, 64);
    BAD(clv_graph_silu(o.g, o.x64_f16), "silu: x");
    BAD(clv_graph_gelu(o.g, o.ids_n), "gelu: x");
    GOOD_ROWS(clv_graph_glu(o.g, o.x64, o.x64b, CLV_ACT_GELU_TANH), 64);
    BAD(clv_graph_glu(o.g, o.x64, o.x96, CLV_ACT_SILU), "shapes");
    BAD(clv_graph_glu(o.g, o.x64, o.m64, CLV_ACT_SILU), "shapes");
    BAD(clv_graph_glu(o.g, o.x64, o.x64b, 2), "activation");
}

static void test_norms(void **unused)
{
    (void)unused;
    const clv_value no = CLV_NO_TENSOR;
    GOOD_ROWS(clv_graph_rms_norm(o.g, o.x64, o.v64, 1e-5f), 64);
    GOOD_ROWS(clv_graph_rms_norm(o.g, o.x64, o.v64_f16, 0), 64);
    BAD(clv_graph_rms_norm(o.g, o.x64, o.v96, 1e-5f), "channels");
    BAD(clv_graph_rms_norm(o.g, o.x64, no, 1e-5f), "weight is missing");
    BAD(clv_graph_rms_norm(o.g, o.x64, o.v64, -1), "eps");
    BAD(clv_graph_rms_norm(o.g, o.x64, o.v64, NAN), "eps");
    BAD(clv_graph_rms_norm(o.g, o.x64_3d, o.v64, 0), "x is");
    GOOD_ROWS(clv_graph_layer_norm(o.g, o.x64, o.v64, no, 1e-5f), 64);
    GOOD_ROWS(clv_graph_layer_norm(o.g, o.x64, o.v64, o.v64, 1e-5f), 64);
    BAD(clv_graph_layer_norm(o.g, o.x64, o.v64, o.v96, 1e-5f), "channels");
    GOOD_ROWS(clv_graph_softmax(o.g, o.x96), 96);
    BAD(clv_graph_softmax(o.g, o.v64), "softmax: x");
}

static void test_rope(void **unused)
{
    (void)unused;
    GOOD_ROWS(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 0, 64, 0), 64);
    GOOD_ROWS(clv_graph_rope(o.g, o.x96, o.ids_n, o.v33, 1, 96, 1), 96);
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 0, 32, 0), "half a head");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 0, 48, 0), "whole heads");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 0, 0, 0), "whole heads");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_m, o.v32, 0, 64, 0), "rows");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v64_f16, 0, 64, 0), "inv_freq");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 2, 64, 0), "mode");
    BAD(clv_graph_rope(o.g, o.x64, o.ids_n, o.v32, 0, 64, INFINITY), "scale");
}

static clv_value attend(operands *o, clv_value k, clv_value v, clv_value pos,
                        clv_attention_params p)
{
    return clv_graph_attention(o->g, o->x64, k, v, pos, CLV_NO_TENSOR, &p);
}

#define HEADS(...) ((clv_attention_params){.head_dim = 16, __VA_ARGS__})

static void test_attention(void **unused)
{
    (void)unused;
    GOOD_ROWS(attend(&o, o.cache, o.cache, o.ids_n, HEADS(.rows = o.m)), 64);
    GOOD_ROWS(attend(&o, o.cache_f16, o.cache_f16, o.ids_n, HEADS()), 64);
    GOOD_ROWS(attend(&o, o.x64, o.x64b, o.ids_n, HEADS(.window = 4)), 64);
    BAD(attend(&o, o.cache, o.cache_f16, o.ids_n, HEADS()), "types and shapes");
    BAD(attend(&o, o.cache, o.state, o.ids_n, HEADS()), "types and shapes");
    BAD(attend(&o, o.cache96, o.cache96, o.ids_n, HEADS()), "4 heads");
    BAD(attend(&o, o.cache_bf16, o.cache_bf16, o.ids_n, HEADS()), "k is");
    BAD(attend(&o, o.cache, o.cache, o.ids_m, HEADS()), "rows");
    BAD(attend(&o, o.cache, o.cache, o.ids_n, HEADS(.window = -1)), "window");
    BAD(attend(&o, o.cache, o.cache, o.ids_n, HEADS(.softcap = -1)), "softcap");
    BAD(attend(&o, o.cache, o.cache, o.ids_n, HEADS(.scale = NAN)), "scale");
    BAD(attend(&o, o.cache, o.cache, o.ids_n,
               ((clv_attention_params){.head_dim = 0})),
        "whole heads");
    BAD(attend(&o, o.cache, o.cache, o.ids_n,
               HEADS(.rows = ((clv_dim){.value = 8, .symbol = 7}))),
        "symbol");
}

static void test_convert(void **unused)
{
    (void)unused;
    GOOD(clv_graph_convert(o.g, o.x64, CLV_DTYPE_F16), CLV_DTYPE_F16, 2, 1, 8,
         64);
    GOOD(clv_graph_convert(o.g, o.x64_f16, CLV_DTYPE_F32), CLV_DTYPE_F32, 2, 1,
         8, 64);
    GOOD(clv_graph_convert(o.g, o.x64, CLV_DTYPE_Q8_0), CLV_DTYPE_Q8_0, 2, 1, 8,
         64);
    BAD(clv_graph_convert(o.g, o.x64, CLV_DTYPE_I32), "type asked for");
    BAD(clv_graph_convert(o.g, o.ids_n, CLV_DTYPE_F32), "convert: x");
    BAD(clv_graph_convert(o.g, o.v33, CLV_DTYPE_Q4_0), "whole blocks");
}

/* ------------------------------------------------------------------------ */

static void test_top_k(void **unused)
{
    (void)unused;
    GOOD(clv_graph_top_k(o.g, o.x64, 8), CLV_DTYPE_I32, 2, 1, 8, 8);
    GOOD(clv_graph_top_k(o.g, o.fixed64, 64), CLV_DTYPE_I32, 2, 0, 8, 64);
    BAD(clv_graph_top_k(o.g, o.x64, 0), "top_k: 0 of 64");
    BAD(clv_graph_top_k(o.g, o.x64, 65), "65 of 64");
    BAD(clv_graph_top_k(o.g, o.x64_f16, 2), "x");
    BAD(clv_graph_top_k(o.g, o.v64, 2), "x");
}

static void test_experts(void **unused)
{
#define EXPERTS(x, w, ids, scores, normalised)                                 \
    clv_graph_matmul_experts(o.g, x, w, ids, scores, normalised)
    const clv_value none = CLV_NO_TENSOR;
    (void)unused;
    GOOD_ROWS(EXPERTS(o.x64, o.e6x16x64, o.ids_nx2, none, false), 32);
    GOOD_ROWS(EXPERTS(o.x64, o.e6x16x32_q8, o.ids_nx2, none, false), 32);
    GOOD_ROWS(EXPERTS(o.x64, o.e6x16x64, o.ids_nx2, o.scores6, false), 16);
    GOOD_ROWS(EXPERTS(o.x64, o.e6x16x32_q8, o.ids_nx2, o.scores6, true), 16);
    BAD(EXPERTS(o.x96, o.e6x16x64, o.ids_nx2, none, false), "a part of x");
    BAD(EXPERTS(o.x64_f16, o.e6x16x64, o.ids_nx2, none, false), "x is f16");
    BAD(EXPERTS(o.x64, o.w96x64, o.ids_nx2, none, false), "rank 3");
    BAD(EXPERTS(o.x64, o.x64_3d, o.ids_nx2, none, false), "fixed size");
    BAD(EXPERTS(o.x64, o.e6x16x64, o.ids_n, none, false), "ids");
    BAD(EXPERTS(o.x64, o.e6x16x64, o.ids_mx2, none, false), "their rows");
    BAD(EXPERTS(o.x64, o.e6x16x64, o.scores6, none, false), "an i32 matrix");
    BAD(EXPERTS(o.x64, o.e6x16x64, o.ids_nx2, o.scores7, false),
        "number of experts");
    BAD(EXPERTS(o.fixed64, o.e6x16x64, o.ids_nx2, o.scores6, false), "rows");
    BAD(EXPERTS(o.x64, o.e6x16x64, o.ids_nx2, none, true), "with scores");
    BAD(EXPERTS(o.x64, none, o.ids_nx2, none, false), "w is missing");
#undef EXPERTS
}

static void test_attributes_reach_nodes(void **unused)
{
    (void)unused;
    operands o = begin();
    clv_value y = attend(&o, o.cache, o.cache, o.ids_n, HEADS(.rows = o.m));
    clv_graph_output(o.g, y, "y");
    assert_ok(clv_graph_check(o.g));
    assert_int_equal(clv_graph_value_desc(o.g, y)->usage, CLV_USAGE_OUTPUT);
    assert_int_equal(clv_graph_value_desc(o.g, o.cache)->usage,
                     CLV_USAGE_STATE);
    assert_null(clv_graph_value_desc(o.g, CLV_NO_TENSOR));
    clv_graph_output(o.g, y, "again");
    assert_int_equal(clv_graph_check(o.g), CLV_ERR_INVALID);
    clv_graph_destroy(o.g);
}

static void test_first_error_sticks(void **unused)
{
    (void)unused;
    operands o = begin();
    clv_value y = clv_graph_matmul(o.g, o.x64, o.w96x32, CLV_NO_TENSOR);
    y = clv_graph_silu(o.g, y);
    y = clv_graph_add(o.g, y, o.x64);
    clv_graph_output(o.g, y, "y");
    clv_error(CLV_ERR_IO, "something else");
    assert_int_equal(clv_graph_check(o.g), CLV_ERR_INVALID);
    assert_error_says("matmul");
    assert_error_says("[96,32]");
    clv_graph_destroy(o.g);
    assert_int_equal(clv_graph_silu(NULL, 0), CLV_NO_TENSOR);
    assert_int_equal(clv_graph_check(NULL), CLV_ERR_INVALID);
}

static void test_bad_inputs(void **unused)
{
    (void)unused;
    clv_dim six[6] = {{1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}};
    clv_dim foreign = {.value = 8, .symbol = 5};
    clv_dim huge[] = {{INT64_MAX, 0}, {INT64_MAX, 0}};
#define BAD_INPUT(dtype, rank, dims, says)                                     \
    BAD(clv_graph_input(o.g, "tokens", dtype, rank, dims), says)
    BAD_INPUT(CLV_DTYPE_F32, 0, six, "tokens");
    BAD_INPUT(CLV_DTYPE_F32, 6, six, "rank 6");
    BAD_INPUT(CLV_DTYPE_NONE, 1, six, "element type 0");
    BAD_INPUT(CLV_DTYPE_COUNT, 1, six, "element type");
    BAD_INPUT(CLV_DTYPE_Q8_0, 1, six, "whole blocks");
    BAD_INPUT(CLV_DTYPE_F32, 1, &foreign, "symbol");
    BAD_INPUT(CLV_DTYPE_F32, 1, (&(clv_dim){0, 0}), "below 1");
    BAD_INPUT(CLV_DTYPE_F32, 2, huge, "2^64");
    BAD_INPUT(CLV_DTYPE_F32, 2, ((clv_dim[]){{4, 0}, o.n}), "outermost");
    BAD(clv_graph_state(o.g, "kv", CLV_DTYPE_F16, 1, (const int64_t[]){-1}),
        "kv");
    BAD(clv_graph_weight(o.g, "w", NULL), "'w'");
}

static void test_symbols(void **unused)
{
    (void)unused;
    clv_graph *g;
    assert_ok(clv_graph_create(&g));
    for (int i = 0; i < CLV_MAX_SYMBOLS; i++)
        clv_graph_symbol(g, "s", 1, 2);
    assert_ok(clv_graph_check(g));
    clv_graph_symbol(g, "one more", 1, 2);
    assert_int_equal(clv_graph_check(g), CLV_ERR_LIMIT);
    assert_error_says("one more");
    clv_graph_destroy(g);
    for (int i = 0; i < 2; i++) {
        assert_ok(clv_graph_create(&g));
        clv_graph_symbol(g, "n", i ? 0 : 5, 4);
        assert_int_equal(clv_graph_check(g), CLV_ERR_INVALID);
        clv_graph_destroy(g);
    }
}

/* The inputs' and outputs' memory is the caller's. */
static void test_live(void **state)
{
    (void)state;
    clv_graph *g;
    uint64_t bytes;
    const clv_dim dims[] = {clv_dim_fixed(4), clv_dim_fixed(8)};
    const uint64_t one = 4 * 8 * sizeof(float);
    assert_ok(clv_graph_create(&g));
    const clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, dims);
    const clv_value a = clv_graph_silu(g, x);
    assert_ok(clv_graph_live(g, &bytes));
    assert_int_equal(bytes, one);
    const clv_value b = clv_graph_silu(g, a);
    const clv_value c = clv_graph_add(g, clv_graph_add(g, a, b), b);
    assert_ok(clv_graph_live(g, &bytes));
    assert_int_equal(bytes, 3 * one); /* a, b, and their sum */
    clv_graph_output(g, clv_graph_silu(g, c), "y");
    assert_ok(clv_graph_live(g, &bytes));
    assert_int_equal(bytes, 3 * one);
    clv_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_set_rows),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_attributes_reach_nodes),
        cmocka_unit_test(test_first_error_sticks),
        cmocka_unit_test(test_bad_inputs),
        cmocka_unit_test(test_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
