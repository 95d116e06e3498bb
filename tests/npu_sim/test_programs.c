/* Static graphs: what they are compiled for, what that costs, and how they are
 * kept. */
#include "rig.h"

#include <stdlib.h>

#define STATIC                                                                 \
    "npu.static=on\nnpu.lengths=1,32,64\nnpu.fp16=1\n"                         \
    "npu.compile_base_us=1000\nnpu.compile_repeat_us=10\n"                     \
    "npu.compile_node_us=5\nnpu.compile_element_ns=2\n"                        \
    "npu.compile_byte_ns=0.5\n"

static void make(product *p, rig *r, int64_t n)
{
    product_make(p, r, 0, n, 64, 48, CLV_DTYPE_F16, CLV_QUANT_NONE, 0);
}

static void test_lengths(void **state)
{
    (void)state;
    rig r;
    product p;
    rig_open(&r, STATIC);
    make(&p, &r, 33);
    clv_op_caps caps = product_caps(&p);
    assert_int_equal(caps.answer, CLV_ANSWER_STATIC);
    assert_int_equal(caps.n_static, 3);
    assert_int_equal(caps.static_shapes[1], 32);
    assert_int_equal(product_compile(&p), CLV_ERR_UNSUPPORTED);
    assert_says(&r, "33 rows");
    assert_says(&r, "lengths");
    product_free(&p);
    make(&p, &r, 64);
    p.symbol = (clv_symbol_range){32, 64};
    p.tensors[0].symbols[0] = p.tensors[2].symbols[0] = 1;
    assert_int_equal(product_compile(&p), CLV_ERR_UNSUPPORTED);
    assert_says(&r, "one length");
    p.symbol.min = 64;
    assert_int_equal(product_compile(&p), CLV_OK);
    product_free(&p);
    rig_close(&r);
}

static clv_program_info info_of(product *p)
{
    clv_program_info info = CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    assert_int_equal(p->r->api->program_info(p->program, &info), CLV_OK);
    return info;
}

/* 5 us a node, 0.5 ns a byte of 64 x 48 x 2, and what is not known yet: 1 ms
 * and 2 ns an element of 32 x (64 + 48). */
static void test_compile_time(void **state)
{
    (void)state;
    const uint64_t always = 5000 + 64 * 48, first = 1000000 + 2 * 32 * 112;
    rig r;
    product p, q;
    rig_open(&r, STATIC);
    make(&p, &r, 32);
    make(&q, &r, 32);
    assert_int_equal(product_compile(&p), CLV_OK);
    assert_int_equal(info_of(&p).compile_ns, always + first);
    assert_int_equal(rig_now(&r), always + first);
    assert_int_equal(product_compile(&q), CLV_OK);
    assert_int_equal(info_of(&q).compile_ns, always + 10000);
    assert_int_equal(rig_now(&r), 2 * always + first + 10000);
    assert_true(info_of(&p).memory_size >= 64 * 48 * 2 + 32 * 112 * 4);
    product_free(&p);
    product_free(&q);
    make(&q, &r, 64);
    assert_int_equal(product_compile(&q), CLV_OK);
    assert_int_equal(info_of(&q).compile_ns, always + 1000000 + 2 * 64 * 112);
    product_free(&q);
    rig_close(&r);
}

static void test_limits(void **state)
{
    (void)state;
    rig r;
    product p[3], large;
    rig_open(&r, STATIC "npu.max_programs=2\nnpu.window=1\n");
    for (int i = 0; i < 3; i++)
        make(&p[i], &r, 32);
    assert_int_equal(product_compile(&p[0]), CLV_OK);
    assert_int_equal(product_compile(&p[1]), CLV_OK);
    assert_int_equal(product_compile(&p[2]), CLV_ERR_LIMIT);
    assert_says(&r, "2 programs are resident");
    r.api->program_destroy(p[0].program);
    p[0].program = NULL;
    assert_int_equal(product_compile(&p[2]), CLV_OK);
    for (int i = 0; i < 3; i++)
        product_free(&p[i]);
    product_make(&large, &r, 0, 32, 1024, 1024, CLV_DTYPE_F16, CLV_QUANT_NONE,
                 0);
    assert_int_equal(product_compile(&large), CLV_ERR_LIMIT);
    assert_says(&r, "address window of 1048576");
    product_free(&large);
    rig_close(&r);
}

typedef struct bytes {
    unsigned char data[65536];
    uint64_t size;
} bytes;

static clv_status keep(void *ctx, const void *data, uint64_t size)
{
    bytes *b = ctx;
    assert_true(size <= sizeof b->data - b->size);
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return CLV_OK;
}

static uint32_t verdict_on(product *p, const bytes *b)
{
    clv_subgraph graph;
    clv_binding weights[2];
    clv_compile c = product_compilation(p, &graph, weights);
    clv_blob blob = CLV_INIT(clv_blob, CLV_STRUCT_BLOB);
    uint32_t verdict = 99;
    blob.data = b->data;
    blob.size = b->size;
    assert_int_equal(p->r->api->program_validate(p->r->devices[p->device], &c,
                                                 &blob, &verdict),
                     CLV_OK);
    return verdict;
}

static clv_status load(product *p, const bytes *b)
{
    clv_subgraph graph;
    clv_binding weights[2];
    clv_compile c = product_compilation(p, &graph, weights);
    clv_blob blob = CLV_INIT(clv_blob, CLV_STRUCT_BLOB);
    blob.data = b->data;
    blob.size = b->size;
    return p->r->api->program_load(p->r->devices[p->device], &c, &blob,
                                   &p->program);
}

static void test_kept(void **state)
{
    (void)state;
    static bytes kept;
    rig r;
    product p, other;
    kept.size = 0;
    rig_open(&r, STATIC);
    make(&p, &r, 32);
    make(&other, &r, 64);
    assert_int_equal(product_compile(&p), CLV_OK);
    assert_int_equal(r.api->program_serialize(p.program, keep, &kept), CLV_OK);
    assert_int_equal(verdict_on(&p, &kept), CLV_VERDICT_GOOD);
    assert_int_equal(verdict_on(&other, &kept), CLV_VERDICT_STALE);
    assert_int_equal(load(&other, &kept), CLV_ERR_VERSION);
    for (uint64_t i = 0; i < kept.size; i += 3) {
        kept.data[i] ^= 0x10;
        assert_int_not_equal(verdict_on(&p, &kept), CLV_VERDICT_GOOD);
        kept.data[i] ^= 0x10;
    }
    for (uint64_t size = kept.size; kept.size;) {
        kept.size = kept.size > 40 ? kept.size - 40 : 0;
        assert_int_not_equal(verdict_on(&p, &kept), CLV_VERDICT_GOOD);
        if (!kept.size) {
            kept.size = size;
            break;
        }
    }
    product_free(&p);
    product_free(&other);
    rig_close(&r);
    /* In another life, quickly; but not if the device is another one. */
    rig_open(&r, STATIC);
    make(&p, &r, 32);
    assert_int_equal(load(&p, &kept), CLV_OK);
    assert_true(info_of(&p).compile_ns < 50000);
    product_run(&p);
    product_free(&p);
    rig_close(&r);
    rig_open(&r, STATIC "npu.rows=64\n");
    make(&p, &r, 32);
    assert_int_equal(verdict_on(&p, &kept), CLV_VERDICT_STALE);
    product_free(&p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_compile_time),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
