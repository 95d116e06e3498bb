/* The rows and the reference conversions of cleave/plugin_format.h, against
 * values written down from the formats' definitions. */
#include <cleave/plugin_format.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void test_rows(void **state)
{
    static const struct {
        uint32_t dtype;
        const char *name;
        uint32_t format_class, elements, bytes, gguf_type;
        const char *gguf_name;
    } expected[] = {
        {CLV_DTYPE_F32, "f32", CLV_FORMAT_FLOAT, 1, 4, 0, "F32"},
        {CLV_DTYPE_F16, "f16", CLV_FORMAT_FLOAT, 1, 2, 1, "F16"},
        {CLV_DTYPE_BF16, "bf16", CLV_FORMAT_FLOAT, 1, 2, 30, "BF16"},
        {CLV_DTYPE_I32, "i32", CLV_FORMAT_INDEX, 1, 4, 26, "I32"},
        {CLV_DTYPE_I8, "i8", CLV_FORMAT_INTEGER, 1, 1, 24, "I8"},
        {CLV_DTYPE_I4, "i4", CLV_FORMAT_INTEGER, 2, 1, CLV_NO_ID, NULL},
        {CLV_DTYPE_Q8_0, "q8_0", CLV_FORMAT_BLOCK, 32, 34, 8, "Q8_0"},
        {CLV_DTYPE_Q4_0, "q4_0", CLV_FORMAT_BLOCK, 32, 18, 2, "Q4_0"},
        {CLV_DTYPE_Q4_1, "q4_1", CLV_FORMAT_BLOCK, 32, 20, 3, "Q4_1"},
        {CLV_DTYPE_Q5_0, "q5_0", CLV_FORMAT_BLOCK, 32, 22, 6, "Q5_0"},
        {CLV_DTYPE_Q5_1, "q5_1", CLV_FORMAT_BLOCK, 32, 24, 7, "Q5_1"},
        {CLV_DTYPE_Q2_K, "q2_k", CLV_FORMAT_BLOCK, 256, 84, 10, "Q2_K"},
        {CLV_DTYPE_Q3_K, "q3_k", CLV_FORMAT_BLOCK, 256, 110, 11, "Q3_K"},
        {CLV_DTYPE_Q4_K, "q4_k", CLV_FORMAT_BLOCK, 256, 144, 12, "Q4_K"},
        {CLV_DTYPE_Q5_K, "q5_k", CLV_FORMAT_BLOCK, 256, 176, 13, "Q5_K"},
        {CLV_DTYPE_Q6_K, "q6_k", CLV_FORMAT_BLOCK, 256, 210, 14, "Q6_K"},
        {CLV_DTYPE_IQ4_NL, "iq4_nl", CLV_FORMAT_BLOCK, 32, 18, 20, "IQ4_NL"},
        {CLV_DTYPE_IQ4_XS, "iq4_xs", CLV_FORMAT_BLOCK, 256, 136, 23, "IQ4_XS"},
    };
    (void)state;
    assert_int_equal(sizeof expected / sizeof expected[0], CLV_DTYPE_COUNT - 1);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const clv_format *f = clv_format_of(expected[i].dtype);
        assert_string_equal(f->name, expected[i].name);
        assert_int_equal(f->format_class, expected[i].format_class);
        assert_int_equal(f->elements, expected[i].elements);
        assert_int_equal(f->bytes, expected[i].bytes);
        assert_int_equal(f->gguf_type, expected[i].gguf_type);
        assert_int_equal(!f->gguf_name, !expected[i].gguf_name);
        if (f->gguf_name)
            assert_string_equal(f->gguf_name, expected[i].gguf_name);
    }
    assert_null(clv_format_of(CLV_DTYPE_NONE));
    assert_null(clv_format_of(CLV_DTYPE_COUNT));
}

/* What holds for every row. */
static void test_consistent(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++) {
        const clv_format *f = clv_format_of(i);
        const int block = f->format_class == CLV_FORMAT_BLOCK;
        assert_true(f->bytes % f->align == 0);
        assert_true(block == (f->group > 0) && block == (f->scale_at >= 0));
        assert_true(!block || f->elements % f->group == 0);
        assert_true(f->scale_at < (int32_t)f->bytes - 1);
        assert_true(f->minimum_at < (int32_t)f->bytes - 1);
        assert_true(f->elements * f->bits <= f->bytes * 8);
        assert_true(f->decode || f->format_class == CLV_FORMAT_INDEX);
        assert_true(f->decode || !f->encode);
        assert_true(!f->encode || f->gguf_file_type != CLV_NO_ID);
        assert_true(!f->gguf_name == (f->gguf_type == CLV_NO_ID));
    }
}

static void check(uint32_t dtype, const uint8_t *block, const float *values,
                  int64_t n)
{
    const clv_format *f = clv_format_of(dtype);
    /* Aligned, and with a guard behind it. */
    union {
        uint8_t bytes[68];
        uint32_t align;
    } in, out;
    float x[65];
    const size_t size = (size_t)n / f->elements * f->bytes;
    memcpy(in.bytes, block, size);
    x[n] = 77;
    f->decode(in.bytes, x, n);
    assert_memory_equal(x, values, (size_t)n * sizeof *x);
    assert_true(x[n] == 77);
    if (!f->encode)
        return;
    out.bytes[size] = 0x77;
    f->encode(x, out.bytes, n);
    assert_memory_equal(out.bytes, block, size);
    assert_int_equal(out.bytes[size], 0x77);
}

static void test_floats(void **state)
{
    static const uint8_t f32[] = {0, 0, 0xc0, 0x3f, 0xcd, 0xcc, 0xcc, 0xbd};
    /* 1.5, -2, the smallest subnormal, the largest */
    static const uint8_t f16[] = {0, 0x3e, 0, 0xc0, 1, 0, 0xff, 0x7b};
    static const uint8_t bf16[] = {0xc0, 0x3f, 0x80, 0xbf};
    (void)state;
    check(CLV_DTYPE_F32, f32, (const float[]){1.5f, -0.1f}, 2);
    check(CLV_DTYPE_F16, f16, (const float[]){1.5f, -2, 0x1p-24f, 65504}, 4);
    check(CLV_DTYPE_BF16, bf16, (const float[]){1.5f, -1}, 2);
}

static void test_integers(void **state)
{
    static const uint8_t i8[] = {0, 1, 0x7f, 0x81, 0xff};
    static const uint8_t i4[] = {0x10, 0x87, 0xf9};
    (void)state;
    check(CLV_DTYPE_I8, i8, (const float[]){0, 1, 127, -127, -1}, 5);
    check(CLV_DTYPE_I4, i4, (const float[]){0, 1, 7, -8, -7, -1}, 6);
}

/* Two blocks of scale 0.5 and -0.25. */
static void test_q8_0(void **state)
{
    uint8_t blocks[68] = {0, 0x38};
    float values[64];
    (void)state;
    blocks[35] = 0x34; /* 0.25 */
    for (int i = 0; i < 32; i++) {
        blocks[2 + i] = (uint8_t)(127 - 8 * i);
        values[i] = 0.5f * (float)(127 - 8 * i);
        blocks[36 + i] = (uint8_t)(3 * i - 127);
        values[32 + i] = 0.25f * (float)(3 * i - 127);
    }
    check(CLV_DTYPE_Q8_0, blocks, values, 64);
}

static void test_q4_0(void **state)
{
    /* Element j in the low half of byte j, element j + 16 in the high half. */
    static const uint8_t blocks[36] = {
        0,    0x38, 0x70, 0x61, 0x52, 0x43, 0x34, 0x25, 0x16, 0x07, 0xf8, 0xe9,
        0xda, 0xcb, 0xbc, 0xad, 0x9e, 0x8f, 0,    0xb4, 0x80, 0x88, 0x88, 0x88,
        0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0xf8};
    static const int q[32] = {-8, -7, -6, -5, -4, -3, -2, -1, 0,  1,  2,
                              3,  4,  5,  6,  7,  -1, -2, -3, -4, -5, -6,
                              -7, -8, 7,  6,  5,  4,  3,  2,  1,  0};
    float values[64] = {0};
    (void)state;
    for (int i = 0; i < 32; i++)
        values[i] = 0.5f * (float)q[i];
    values[32] = 2;               /* -0.25 * -8 */
    values[63] = -1.75f;          /* -0.25 * 7 */
    for (int i = 33; i < 63; i++) /* -0.25 * 0 */
        values[i] = -0.0f;
    check(CLV_DTYPE_Q4_0, blocks, values, 64);
}

/* Of blocks whose byte i is 73 i + 19, with 0.5 and 0.25 for their factors:
 * some values and the sums of all and of all magnitudes, by another
 * implementation. */
typedef struct sample {
    uint32_t dtype;
    float values[12], sum, magnitudes;
} sample;

static void check_sample(const sample *s)
{
    static const int at[2][12] = {
        {0, 1, 15, 16, 22, 31},
        {0, 17, 33, 70, 97, 128, 143, 166, 200, 223, 240, 255}};
    const clv_format *f = clv_format_of(s->dtype);
    const int *index = at[f->elements == 256];
    union {
        uint8_t bytes[256];
        uint32_t align;
    } in;
    float x[257], sum = 0, magnitudes = 0;
    for (uint32_t i = 0; i < f->bytes; i++)
        in.bytes[i] = (uint8_t)(73 * i + 19);
    in.bytes[f->scale_at] = 0;
    in.bytes[f->scale_at + 1] = 0x38;
    if (f->minimum_at >= 0) {
        in.bytes[f->minimum_at] = 0;
        in.bytes[f->minimum_at + 1] = 0x34;
    }
    x[f->elements] = 77;
    f->decode(in.bytes, x, f->elements);
    assert_true(x[f->elements] == 77);
    for (uint32_t i = 0; i < f->elements; i++) {
        sum += x[i];
        magnitudes += x[i] < 0 ? -x[i] : x[i];
    }
    for (int i = 0; i < (f->elements == 256 ? 12 : 6); i++)
        assert_true(x[index[i]] == s->values[i]);
    assert_true(sum == s->sum && magnitudes == s->magnitudes);
}

static void test_samples(void **state)
{
    static const sample samples[] = {
        {CLV_DTYPE_Q4_1,
         {3.75f, 0.25f, 7.25f, 1.75f, 7.25f, 3.75f},
         125.5f,
         125.5f},
        {CLV_DTYPE_Q5_0, {4.5f, -7, 0, 6, -4.5f, 0.5f}, -9.5f, 125.5f},
        {CLV_DTYPE_Q5_1,
         {13.75f, 10.25f, 9.25f, 10.75f, 8.75f, 5.25f},
         223.5f,
         223.5f},
        {CLV_DTYPE_Q2_K,
         {4.25f, -1.25f, 5, 2.75f, 10.5f, 15.25f, 9.75f, 9.5f, -1.75f, 1, 3.75f,
          8.75f},
         956,
         1230.5f},
        {CLV_DTYPE_Q3_K,
         {28.5f, 40, 5.5f, -7, 12.5f, 34.5f, 23, 32, 4.5f, -18, 10.5f, 0},
         304,
         4282},
        {CLV_DTYPE_Q4_K,
         {75.75f, 323.25f, -9, 29.25f, -13.5f, 16.75f, 69.25f, 169, 257.25f,
          232.75f, 43.75f, 63.75f},
         20644,
         21633},
        {CLV_DTYPE_Q5_K,
         {515.75f, 323.25f, -9, 29.25f, 148.5f, 16.75f, 69.25f, 209, 649.25f,
          624.75f, 53.75f, 73.75f},
         47556,
         48408.5f},
        {CLV_DTYPE_Q6_K,
         {-427.5f, -280, 1414, 90, -1368.5f, 256.5f, 135, -373.5f, 787.5f, 1800,
          -208, 52},
         6150,
         131145},
        {CLV_DTYPE_IQ4_NL,
         {-17.5f, 44.5f, 26.5f, 12.5f, -17.5f, 44.5f},
         -31.5f,
         881.5f},
        {CLV_DTYPE_IQ4_XS,
         {-171, -112.5f, 318.5f, 0, -196, 171, -373.5f, -1456, -65, -127,
          -416.5f, 110.5f},
         -11120,
         77463},
    };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        check_sample(&samples[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_consistent),
        cmocka_unit_test(test_floats),  cmocka_unit_test(test_integers),
        cmocka_unit_test(test_q8_0),    cmocka_unit_test(test_q4_0),
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
