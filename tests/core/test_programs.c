/*
 * Programs of the device front over a plugin made of knobs: which graphs reach
 * a plugin, what it may answer about them, and how programs are compiled, kept
 * and loaded.
 */
#include "mock_work.h"

#include "../../core/device/caps.h"
#include "../../core/device/subgraph.h"

/* ------------------------------------------------------------------------ */
/* Graphs                                                                   */

static void test_subgraph_check(void **state)
{
    (void)state;
    graph g;
    make_graph(&g);
    assert_ok(core_subgraph_check(&g.sub));
#define REFUSE(change)                                                         \
    do {                                                                       \
        make_graph(&g);                                                        \
        change;                                                                \
        assert_true(core_subgraph_check(&g.sub) != CLV_OK);                    \
    } while (0)
    REFUSE(g.node.inputs[0] = 3);
    REFUSE(g.node.outputs[0] = CLV_NO_TENSOR);
    REFUSE(g.node.n_inputs = CLV_MAX_INPUTS + 1);
    REFUSE(g.node.op = CLV_OP_COUNT);
    REFUSE(g.node.revision = 0);
    REFUSE(g.tensors[0].rank = 0);
    REFUSE(g.tensors[0].rank = CLV_MAX_RANK + 1);
    REFUSE(g.tensors[0].dtype = CLV_DTYPE_COUNT);
    REFUSE(g.tensors[0].usage = 9);
    REFUSE(g.tensors[0].symbols[0] = 2);
    REFUSE(g.tensors[0].dims[0] = 15); /* below the symbol's bound */
    REFUSE(g.tensors[1].dims[1] = -1);
    REFUSE(g.tensors[1].dims[0] = INT64_MAX);
    REFUSE(g.tensors[1].quant_scales = 4);
    REFUSE((g.tensors[1].strides[0] = -16, g.tensors[1].strides[1] = 4));
    REFUSE(g.symbol.max = 0);
    REFUSE(g.symbol.min = -1);
    REFUSE(g.sub.n_symbols = CLV_MAX_SYMBOLS + 1);
    REFUSE(g.sub.tensor_stride = 8);
    REFUSE(g.sub.nodes = NULL);
    REFUSE(g.tensors[2].header.struct_size = 0);
#undef REFUSE
}

static void test_desc_size(void **state)
{
    (void)state;
    uint64_t size;
    clv_tensor_desc d = desc(CLV_USAGE_INPUT, 16, 64, 1);
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 16 * 64 * 4);
    const int64_t three = 3, none = 0;
    assert_ok(core_desc_size(&d, &three, &size));
    assert_int_equal(size, 3 * 64 * 4);
    assert_ok(core_desc_size(&d, &none, &size));
    assert_int_equal(size, 0);
    d.dtype = CLV_DTYPE_Q8_0;
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 16 * 2 * 34);
    d.strides[0] = 100;
    d.strides[1] = 34;
    assert_ok(core_desc_size(&d, NULL, &size));
    assert_int_equal(size, 15 * 100 + 34 + 34);
    d.dims[1] = 48;
    assert_int_equal(core_desc_size(&d, NULL, &size), CLV_ERR_INVALID);
    d.dims[1] = 64;
    d.strides[0] = INT64_MAX;
    assert_int_equal(core_desc_size(&d, NULL, &size), CLV_ERR_INVALID);
}

/* ------------------------------------------------------------------------ */
/* What a plugin says of them                                               */

static void refuse_caps(graph *g, const char *parts)
{
    clv_op_caps caps;
    assert_int_equal(core_device_caps(dev, &g->sub, &caps), CLV_ERR_INTERNAL);
    assert_message("mock:0|op_caps|node 0");
    assert_message(parts);
    memset(&mock.caps, 0, sizeof mock.caps);
    mock.caps.answer = CLV_ANSWER_YES;
}

static void test_caps(void **state)
{
    (void)state;
    graph g;
    make_graph(&g);
    clv_op_caps caps;
    memset(mock.caps.reason, 'r', sizeof mock.caps.reason);
    assert_ok(core_device_caps(dev, &g.sub, &caps));
    assert_int_equal(strlen(caps.reason), sizeof caps.reason - 1);
    assert_int_equal(caps.header.struct_size, sizeof caps);

    mock.caps.answer = 4;
    refuse_caps(&g, "unknown answer");
    mock.caps.error_class = 99;
    refuse_caps(&g, "error class");
    mock.caps.rows.multiple = -1;
    refuse_caps(&g, "range");
    mock.caps.sequence = (clv_axis_limit){8, 4, 0};
    refuse_caps(&g, "range");
    mock.caps.split_granularity[3] = -1;
    refuse_caps(&g, "granularity");
    mock.caps.pointer_align = 48;
    refuse_caps(&g, "power of two");
    mock.caps.answer = CLV_ANSWER_STATIC;
    refuse_caps(&g, "static shapes");
    static const int64_t shapes[] = {16, 0};
    mock.caps.static_shapes = shapes;
    mock.caps.n_static = 2;
    refuse_caps(&g, "not positive");
    mock.caps.private_rows = 3;
    refuse_caps(&g, "CLV_MAX_PRIVATE_ROWS");
    mock.caps.private_rows = 2 * CLV_MAX_PRIVATE_ROWS;
    refuse_caps(&g, "CLV_MAX_PRIVATE_ROWS");
    mock.caps.layouts[1] = CLV_LAYOUT_PRIVATE;
    mock.caps.private_rows = CLV_MAX_PRIVATE_ROWS;
    refuse_caps(&g, "not all of a weight's");
    static const clv_header required = {sizeof required,
                                        CLV_STRUCT_REQUIRED | 99, NULL};
    mock.caps.header.next = &required;
    assert_int_equal(core_device_caps(dev, &g.sub, &caps), CLV_ERR_UNSUPPORTED);
    assert_message("mock:0|op_caps|extension");
    mock.caps.header.next = NULL;

    uint32_t calls = mock.calls;
    g.node.inputs[0] = 7;
    assert_int_equal(core_device_caps(dev, &g.sub, &caps), CLV_ERR_INVALID);
    assert_int_equal(mock.calls, calls);
}

/* ------------------------------------------------------------------------ */
/* Programs                                                                 */

static void test_compile(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    assert_int_equal(k.prog->info.memory_size, 123);
    assert_int_equal(k.prog->n_bound, 2);
    assert_ptr_equal(mock.bindings[0].buffer, k.w->handle);
    assert_int_equal(mock.bindings[0].tensor, 1);

    core_program *none = NULL;
    const core_binding good = k.weight;
    uint32_t calls = mock.calls;
    k.compile.n_weights = 0;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.compile.n_weights = 1;
    k.weight.tensor = 0;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.weight = good;
    k.weight.size = 100;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    assert_message("128 bytes|100");
    k.weight = good;
    k.weight.offset = 4;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INVALID);
    k.weight = good;
    dev->info.flags = CLV_DEVICE_STATIC_SHAPES;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_UNSUPPORTED);
    assert_message("1..16|bucket");
    dev->info.flags = 0;
    assert_int_equal(mock.calls, calls);
    mock.no_handle = true;
    assert_int_equal(core_program_compile(dev, &k.compile, &none),
                     CLV_ERR_INTERNAL);
    assert_null(none);
    core_program_destroy(NULL);
    work_finish(&k);
}

static clv_status collect(void *ctx, const void *data, uint64_t size)
{
    strncat(ctx, data, size);
    return CLV_OK;
}

static void test_keeping(void **state)
{
    (void)state;
    work k;
    work_init(&k);
    char bytes[32] = "";
    assert_ok(core_program_serialize(k.prog, collect, bytes));
    assert_string_equal(bytes, "program");
    clv_blob blob = CLV_INIT(clv_blob, CLV_STRUCT_BLOB);
    blob.fd = -1;
    blob.data = bytes;
    blob.size = 7;
    core_program *loaded = k.prog;
    mock.verdict = CLV_VERDICT_STALE;
    assert_ok(core_program_load(dev, &k.compile, &blob, &loaded));
    assert_null(loaded);
    mock.verdict = 4;
    assert_int_equal(core_program_load(dev, &k.compile, &blob, &loaded),
                     CLV_ERR_INTERNAL);
    assert_message("verdict 4");
    mock.verdict = CLV_VERDICT_GOOD;
    assert_ok(core_program_load(dev, &k.compile, &blob, &loaded));
    assert_non_null(loaded);
    core_program_destroy(loaded);
    uint8_t key[32] = {0};
    assert_ok(core_program_key(dev, &k.compile, key));
    assert_int_equal(key[31], 7);

    /* All four slots or none. */
    assert_true(core_device_serialises(dev));
    plugin.api.program_load = NULL;
    assert_false(core_device_serialises(dev));
    work_finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_subgraph_check), TEST(test_desc_size), TEST(test_caps),
        TEST(test_compile),        TEST(test_keeping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
