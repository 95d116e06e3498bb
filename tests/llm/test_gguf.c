/* The GGUF reader and writer, against files made byte by byte. */
#include "bytes.h"
#include "files/gguf_kv.h"
#include "files/gguf_write.h"
#include "temp_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A file with every type of setting and two tensors; ends: the
 * boundaries of the header, where a truncated file ends. */
static bytes sample(size_t *header)
{
    bytes b = {0};
    put_gguf_head(&b, 2, 16);
    put_key(&b, "general.architecture", LLM_GGUF_STRING);
    put_string(&b, "llama");
    put_key(&b, "t.u8", LLM_GGUF_U8);
    put(&b, &(uint8_t){200}, 1);
    put_key(&b, "t.i8", LLM_GGUF_I8);
    put(&b, &(int8_t){-5}, 1);
    put_key(&b, "t.u16", LLM_GGUF_U16);
    put(&b, &(uint16_t){60000}, 2);
    put_key(&b, "t.i16", LLM_GGUF_I16);
    put(&b, &(int16_t){-300}, 2);
    put_key(&b, "t.u32", LLM_GGUF_U32);
    put_u32(&b, 4000000000u);
    put_key(&b, "t.i32", LLM_GGUF_I32);
    put(&b, &(int32_t){-70000}, 4);
    put_key(&b, "t.u64", LLM_GGUF_U64);
    put_u64(&b, 7);
    put_key(&b, "t.i64", LLM_GGUF_I64);
    put(&b, &(int64_t){-9}, 8);
    put_key(&b, "t.f32", LLM_GGUF_F32);
    put_f32(&b, 0.25f);
    put_key(&b, "t.f64", LLM_GGUF_F64);
    put(&b, &(double){-2.5}, 8);
    put_key(&b, "t.yes", LLM_GGUF_BOOL);
    put(&b, "\1", 1);
    put_key(&b, "t.huge", LLM_GGUF_U64);
    put_u64(&b, UINT64_MAX);
    put_key(&b, "t.strings", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_STRING);
    put_u64(&b, 3);
    put_string(&b, "one");
    put_string(&b, "");
    put_string(&b, "three");
    put_key(&b, "t.floats", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_F32);
    put_u64(&b, 2);
    put_f32(&b, 1.5f);
    put_f32(&b, -3);
    put_key(&b, "t.ints", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_I32);
    put_u64(&b, 2);
    put(&b, (int32_t[]){-1, 1 << 30}, 8);
    put_tensor(&b, "matrix", 2, (uint64_t[]){32, 3}, 8, 0);
    put_tensor(&b, "vector", 1, (uint64_t[]){5}, 0, 128);
    *header = b.size;
    put_alignment(&b, 32);
    for (int i = 0; i < 102; i++) /* 3 rows of a 34-byte block */
        put(&b, &(uint8_t){(uint8_t)i}, 1);
    put_alignment(&b, 32);
    for (int i = 0; i < 5; i++)
        put_f32(&b, (float)i);
    return b;
}

static void assert_u32(const llm_gguf *g, const char *key, uint32_t expected)
{
    uint32_t value = ~expected;
    assert_int_equal(llm_gguf_get_u32(g, key, &value), CLV_OK);
    assert_int_equal(value, expected);
}

static void assert_i32(const llm_gguf *g, const char *key, int32_t expected)
{
    int32_t value = ~expected;
    assert_int_equal(llm_gguf_get_i32(g, key, &value), CLV_OK);
    assert_int_equal(value, expected);
}

static void scalars(void **state)
{
    (void)state;
    size_t header;
    bytes b = sample(&header);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "s.gguf", &g),
                     CLV_OK);
    assert_int_equal(llm_gguf_kv_count(g), 16);
    assert_u32(g, "t.u8", 200);
    assert_u32(g, "t.u16", 60000);
    assert_u32(g, "t.u32", 4000000000u);
    assert_u32(g, "t.u64", 7);
    assert_i32(g, "t.i8", -5);
    assert_i32(g, "t.i16", -300);
    assert_i32(g, "t.i32", -70000);
    assert_i32(g, "t.i64", -9);
    float f;
    assert_int_equal(llm_gguf_get_f32(g, "t.f32", &f), CLV_OK);
    assert_true(f == 0.25f);
    assert_int_equal(llm_gguf_get_f32(g, "t.f64", &f), CLV_OK);
    assert_true(f == -2.5f);
    bool yes = false;
    assert_int_equal(llm_gguf_get_bool(g, "t.yes", &yes), CLV_OK);
    assert_true(yes);
    llm_str s;
    assert_int_equal(llm_gguf_get_str(g, "general.architecture", &s), CLV_OK);
    assert_true(llm_str_equal(s, llm_str_of("llama")));

    uint32_t u = 11;
    int32_t i = 12;
    assert_int_equal(llm_gguf_get_u32(g, "t.i32", &u), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_u32(g, "t.huge", &u), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_u32(g, "t.f32", &u), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_i32(g, "t.u32", &i), CLV_ERR_FORMAT);
    assert_message("4000000000");
    assert_int_equal(llm_gguf_get_str(g, "t.u8", &s), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_u32(g, "absent", &u), CLV_ERR_NOT_FOUND);
    assert_message("s.gguf");
    assert_message("absent");
    assert_int_equal(llm_gguf_opt(get_u32, g, "absent", &u), CLV_OK);
    assert_int_equal(u, 11);
    assert_int_equal(i, 12);
    llm_gguf_close(g);
    bytes_free(&b);
}

static void arrays(void **state)
{
    (void)state;
    size_t header;
    bytes b = sample(&header);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "s.gguf", &g),
                     CLV_OK);
    llm_str *strings;
    uint64_t n;
    assert_int_equal(llm_gguf_get_strings(g, "t.strings", &strings, &n),
                     CLV_OK);
    assert_int_equal(n, 3);
    assert_true(llm_str_equal(strings[0], llm_str_of("one")));
    assert_int_equal(strings[1].size, 0);
    assert_true(llm_str_equal(strings[2], llm_str_of("three")));
    free(strings);

    llm_gguf_array array;
    assert_int_equal(llm_gguf_get_floats(g, "t.floats", &array), CLV_OK);
    assert_int_equal(array.count, 2);
    assert_true(llm_gguf_item_float(&array, 0) == 1.5f);
    assert_true(llm_gguf_item_float(&array, 1) == -3);
    assert_int_equal(llm_gguf_get_ints(g, "t.ints", &array), CLV_OK);
    assert_int_equal(llm_gguf_item_int(&array, 0), -1);
    assert_int_equal(llm_gguf_item_int(&array, 1), 1 << 30);
    assert_int_equal(llm_gguf_get_ints(g, "t.floats", &array), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_floats(g, "t.u8", &array), CLV_ERR_FORMAT);
    assert_int_equal(llm_gguf_get_strings(g, "t.ints", &strings, &n),
                     CLV_ERR_FORMAT);
    llm_gguf_close(g);
    bytes_free(&b);
}

static void tensors(void **state)
{
    (void)state;
    size_t header;
    bytes b = sample(&header);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "s.gguf", &g),
                     CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), 2);
    const llm_gguf_tensor *t = llm_gguf_find(g, "matrix");
    assert_non_null(t);
    assert_int_equal(t->dtype, CLV_DTYPE_Q8_0);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[0], 3);
    assert_int_equal(t->dims[1], 32);
    assert_int_equal(t->size, 102);
    assert_int_equal(t->data[101], 101);
    t = llm_gguf_find(g, "vector");
    assert_non_null(t);
    assert_int_equal(t->dims[0], 5);
    float last;
    memcpy(&last, t->data + 16, 4);
    assert_true(last == 4);
    assert_null(llm_gguf_find(g, "vecto"));
    assert_null(llm_gguf_find(g, "vectors"));
    assert_null(llm_gguf_tensor_at(g, 2));
    llm_gguf_close(g);
    bytes_free(&b);
}

/* A file that ends anywhere before its last byte is refused, in one line. */
static void truncated(void **state)
{
    (void)state;
    size_t header;
    bytes b = sample(&header);
    for (size_t size = 0; size < b.size; size++) {
        uint8_t *copy = exact_copy(b.data, size);
        llm_gguf *g = NULL;
        clv_status status = llm_gguf_open_memory(copy, size, "t.gguf", &g);
        assert_int_equal(status, CLV_ERR_FORMAT);
        assert_null(g);
        assert_message("t.gguf");
        assert_null(strchr(clv_last_error(), '\n'));
        free(copy);
    }
    bytes_free(&b);
}

/* Reads everything in an open file, so that sanitizers check it. */
static uint64_t read_all(const llm_gguf *g)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < llm_gguf_kv_count(g); i++) {
        const llm_gguf_kv *kv = llm_gguf_kv_at(g, i);
        for (uint64_t j = 0; j < kv->size; j++)
            sum += kv->data[j];
    }
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        for (uint64_t j = 0; j < t->size; j++)
            sum += t->data[j];
    }
    return sum;
}

static void flipped_bytes(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    size_t header;
    bytes b = sample(&header);
    uint8_t *copy = exact_copy(b.data, b.size);
    volatile uint64_t sum = 0;
    for (size_t at = 0; at < header; at++) {
        for (size_t i = 0; i < sizeof flips; i++) {
            llm_gguf *g;
            copy[at] ^= flips[i];
            if (!llm_gguf_open_memory(copy, b.size, "f.gguf", &g)) {
                sum += read_all(g);
                llm_gguf_close(g);
            }
            copy[at] = b.data[at];
        }
    }
    free(copy);
    bytes_free(&b);
}

/* ------------------------------------------------------------------------ */
/* Wrong headers                                                            */

static void assert_refused(bytes *b, clv_status expected, const char *part)
{
    llm_gguf *g = NULL;
    uint8_t *copy = exact_copy(b->data, b->size);
    clv_status status = llm_gguf_open_memory(copy, b->size, "h.gguf", &g);
    free(copy);
    bytes_free(b);
    if (status != expected)
        fail_msg("status %d, expected %d for '%s'", status, expected, part);
    assert_message(part);
    assert_null(g);
}

static void bad_heads(void **state)
{
    (void)state;
    bytes b = {0};
    put_text(&b, "GGML");
    put_zeros(&b, 40);
    assert_refused(&b, CLV_ERR_FORMAT, "not a GGUF file");
    put_text(&b, "GGUF");
    put(&b, "\0\0\0\3", 4);
    put_zeros(&b, 40);
    assert_refused(&b, CLV_ERR_UNSUPPORTED, "big-endian");
    put_text(&b, "GGUF");
    put_u32(&b, 1);
    put_zeros(&b, 40);
    assert_refused(&b, CLV_ERR_VERSION, "version 1");
    put_text(&b, "GGUF");
    put_u32(&b, 4);
    put_zeros(&b, 40);
    assert_refused(&b, CLV_ERR_VERSION, "version 4");
    put_gguf_head(&b, 1000, 0);
    put_zeros(&b, 100);
    assert_refused(&b, CLV_ERR_FORMAT, "1000 tensors");
    put_gguf_head(&b, 0, 60000);
    put_zeros(&b, 100);
    assert_refused(&b, CLV_ERR_FORMAT, "60000 keys");
    put_gguf_head(&b, 0, UINT64_MAX);
    put_zeros(&b, 100);
    assert_refused(&b, CLV_ERR_LIMIT, "keys");
    put_gguf_head(&b, UINT64_MAX, 0);
    put_zeros(&b, 100);
    assert_refused(&b, CLV_ERR_LIMIT, "tensors");
}

static void bad_settings(void **state)
{
    (void)state;
    bytes b = {0};
    put_gguf_head(&b, 0, 1);
    put_u64(&b, UINT64_MAX - 3); /* a key's length */
    put_zeros(&b, 64);
    assert_refused(&b, CLV_ERR_FORMAT, "runs past the end");
    put_gguf_head(&b, 0, 1);
    put_key(&b, "", LLM_GGUF_U8);
    put_zeros(&b, 8);
    assert_refused(&b, CLV_ERR_FORMAT, "no name");
    put_gguf_head(&b, 0, 1);
    put_key(&b, "k", 13);
    put_zeros(&b, 8);
    assert_refused(&b, CLV_ERR_FORMAT, "type 13");
    put_gguf_head(&b, 0, 1);
    put_key(&b, "k\n", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_ARRAY);
    put_zeros(&b, 16);
    assert_refused(&b, CLV_ERR_FORMAT, "key 'k?' has items of type 9");
    put_gguf_head(&b, 0, 1);
    put_key(&b, "k", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_U64);
    put_u64(&b, UINT64_MAX / 8 + 2); /* the product wraps to 8 */
    put_zeros(&b, 16);
    assert_refused(&b, CLV_ERR_FORMAT, "runs past the end");
    put_gguf_head(&b, 0, 1);
    put_key(&b, "k", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_STRING);
    put_u64(&b, UINT64_MAX);
    put_zeros(&b, 64);
    assert_refused(&b, CLV_ERR_FORMAT, "runs past the end");
    put_gguf_head(&b, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_key(&b, "same", LLM_GGUF_U8);
        put_zeros(&b, 1);
    }
    assert_refused(&b, CLV_ERR_FORMAT, "'same' occurs twice");
    for (uint32_t alignment = 0; alignment < 50; alignment += 24) {
        put_gguf_head(&b, 0, 1);
        put_key(&b, "general.alignment", LLM_GGUF_U32);
        put_u32(&b, alignment);
        assert_refused(&b, CLV_ERR_FORMAT, "not a power of two");
    }
}

static bytes one_tensor(uint32_t rank, const uint64_t *dims, uint32_t type,
                        uint64_t offset)
{
    bytes b = {0};
    put_gguf_head(&b, 1, 0);
    put_tensor(&b, "x", rank, dims, type, offset);
    put_alignment(&b, 32);
    put_zeros(&b, 128);
    return b;
}

static void bad_tensors(void **state)
{
    (void)state;
    const struct {
        uint32_t rank;
        uint64_t dims[5];
        uint32_t type;
        uint64_t offset;
        clv_status status;
        const char *part;
    } cases[] = {
        {0, {0}, 0, 0, CLV_ERR_FORMAT, "dimensions"},
        {5, {1, 1, 1, 1, 1}, 0, 0, CLV_ERR_FORMAT, "dimensions"},
        {2, {8, 0}, 0, 0, CLV_ERR_FORMAT, "empty"},
        {1, {1ull << 63}, 0, 0, CLV_ERR_FORMAT, "endless"},
        {2, {1ull << 62, 4}, 0, 0, CLV_ERR_FORMAT, "past 64 bits"},
        {2, {1ull << 40, 1ull << 40}, 0, 0, CLV_ERR_FORMAT, "past 64 bits"},
        {1, {33}, 8, 0, CLV_ERR_FORMAT, "whole blocks"},
        {1,
         {32},
         77,
         0,
         CLV_ERR_UNSUPPORTED,
         "unknown type 77, supported: F32"},
        {1, {33}, 0, 0, CLV_ERR_FORMAT, "ends at byte"},
        {1, {1}, 0, 128, CLV_ERR_FORMAT, "ends at byte"},
        {1, {8}, 0, 16, CLV_ERR_FORMAT, "not aligned"},
        {1, {8}, 0, UINT64_MAX - 31, CLV_ERR_FORMAT, "past 64 bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = one_tensor(cases[i].rank, cases[i].dims, cases[i].type,
                             cases[i].offset);
        assert_refused(&b, cases[i].status, cases[i].part);
    }
    bytes b = {0};
    put_gguf_head(&b, 2, 0);
    put_tensor(&b, "x", 1, (uint64_t[]){1}, 0, 0);
    put_tensor(&b, "x", 1, (uint64_t[]){1}, 0, 32);
    put_alignment(&b, 32);
    put_zeros(&b, 64);
    assert_refused(&b, CLV_ERR_FORMAT, "'x' occurs twice");
}

static void overlaps(void **state)
{
    (void)state;
    bytes b = {0};
    put_gguf_head(&b, 2, 0);
    put_tensor(&b, "x", 1, (uint64_t[]){16}, 0, 0);
    put_tensor(&b, "y", 1, (uint64_t[]){1}, 0, 32);
    put_alignment(&b, 32);
    put_zeros(&b, 64);
    assert_refused(&b, CLV_ERR_FORMAT, "'y' begins inside another tensor");
}

/* The settings of a file can be read even if a tensor has a type that is not
 * supported. */
static void unsupported_type(void **state)
{
    (void)state;
    bytes b = {0};
    put_gguf_head(&b, 1, 0);
    put_tensor(&b, "x", 1, (uint64_t[]){256}, 16, 0);
    put_alignment(&b, 32);
    put_zeros(&b, 66);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "q.gguf", &g),
                     CLV_OK);
    assert_int_equal(llm_gguf_find(g, "x")->dtype, CLV_DTYPE_NONE);
    assert_int_equal(llm_gguf_find(g, "x")->size, 66);
    assert_string_equal(llm_gguf_type_name(16), "IQ2_XXS");
    assert_null(llm_gguf_type_name(77));
    llm_gguf_close(g);
    bytes_free(&b);
}

static void alignment_in_file(void **state)
{
    (void)state;
    bytes b = {0};
    put_gguf_head(&b, 1, 1);
    put_key(&b, "general.alignment", LLM_GGUF_U32);
    put_u32(&b, 256);
    put_tensor(&b, "x", 1, (uint64_t[]){1}, 0, 256);
    put_alignment(&b, 256);
    put_zeros(&b, 256);
    put_f32(&b, 42);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "a.gguf", &g),
                     CLV_OK);
    float x;
    memcpy(&x, llm_gguf_find(g, "x")->data, 4);
    assert_true(x == 42);
    llm_gguf_close(g);
    bytes_free(&b);
}

/* ------------------------------------------------------------------------ */
/* Split models                                                             */

static const char *write_part(const char *file, uint16_t number, uint16_t count,
                              int32_t total)
{
    char name[2] = {(char)('a' + number), 0};
    bytes b = {0};
    put_gguf_head(&b, 1, 3);
    put_key(&b, "split.no", LLM_GGUF_U16);
    put(&b, &number, 2);
    put_key(&b, "split.count", LLM_GGUF_U16);
    put(&b, &count, 2);
    put_key(&b, "split.tensors.count", LLM_GGUF_I32);
    put(&b, &total, 4);
    put_tensor(&b, name, 1, (uint64_t[]){1}, 0, 0);
    put_alignment(&b, 32);
    put_f32(&b, (float)number);
    const char *path = temp_write(&tmp, file, b.data, b.size);
    bytes_free(&b);
    return path;
}

static void split_model(void **state)
{
    (void)state;
    llm_gguf *g;
    write_part("m-00002-of-00003.gguf", 1, 3, 3);
    write_part("m-00003-of-00003.gguf", 2, 3, 3);
    const char *first = write_part("m-00001-of-00003.gguf", 0, 3, 3);
    assert_int_equal(llm_gguf_open(first, &g), CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), 3);
    float x;
    memcpy(&x, llm_gguf_find(g, "c")->data, 4);
    assert_true(x == 2);
    llm_gguf_close(g);

    const char *second = temp_path(&tmp, "m-00002-of-00003.gguf");
    assert_int_equal(llm_gguf_open(second, &g), CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), 3);
    assert_string_equal(llm_gguf_path(g), first);
    llm_gguf_close(g);
    second = write_part("second.gguf", 1, 3, 3);
    assert_int_equal(llm_gguf_open(second, &g), CLV_ERR_INVALID);
    assert_message("part 2 of 3");
    assert_message("-00002-of-00003.gguf");
    write_part("m-00001-of-00003.gguf", 1, 3, 3);
    assert_int_equal(
        llm_gguf_open(temp_path(&tmp, "m-00003-of-00003.gguf"), &g),
        CLV_ERR_FORMAT);
    assert_message("part 2, expected the first");
    first = write_part("m-00001-of-00003.gguf", 0, 3, 4);
    assert_int_equal(llm_gguf_open(first, &g), CLV_ERR_FORMAT);
    assert_message("not 4");
    first = write_part("other.gguf", 0, 3, 3);
    assert_int_equal(llm_gguf_open(first, &g), CLV_ERR_INVALID);
    assert_message("other.gguf");
    first = write_part("m-00001-of-00003.gguf", 0, 3, 3);
    write_part("m-00002-of-00003.gguf", 2, 3, 3);
    assert_int_equal(llm_gguf_open(first, &g), CLV_ERR_FORMAT);
    assert_message("expected part 2 of 3");
    unlink(temp_path(&tmp, "m-00002-of-00003.gguf"));
    assert_int_not_equal(llm_gguf_open(first, &g), CLV_OK);
    assert_message("m-00002-of-00003.gguf");
}

/* ------------------------------------------------------------------------ */
/* Writing                                                                  */

static void write_and_read(void **state)
{
    (void)state;
    size_t header;
    bytes b = sample(&header);
    llm_gguf *in, *g;
    llm_gguf_writer *w;
    assert_int_equal(llm_gguf_open_memory(b.data, b.size, "s.gguf", &in),
                     CLV_OK);
    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    for (uint64_t i = 0; i < llm_gguf_kv_count(in); i++)
        llm_gguf_writer_kv(w, llm_gguf_kv_at(in, i));
    llm_gguf_writer_u32(w, "n.u32", 5);
    llm_gguf_writer_f32(w, "n.f32", 0.5f);
    llm_gguf_writer_bool(w, "n.bool", true);
    llm_gguf_writer_str(w, "n.str", llm_str_of("text"));
    llm_gguf_writer_i32s(w, "n.i32s", (int32_t[]){1, -2}, 2);
    llm_gguf_writer_f32s(w, "n.f32s", (float[]){1, -2}, 2);
    llm_gguf_writer_strings(w, "n.none", NULL, 0);
    llm_gguf_writer_tensor(w, llm_str_of("first"), CLV_DTYPE_F16, 2,
                           (int64_t[]){3, 5});
    llm_gguf_writer_tensor(w, llm_str_of("second"), CLV_DTYPE_F32, 1,
                           (int64_t[]){2});
    const char *path = temp_path(&tmp, "out.gguf");
    uint8_t data[30];
    memset(data, 7, sizeof data);
    assert_int_equal(llm_gguf_writer_open(w, path, NULL), CLV_OK);
    assert_int_equal(llm_gguf_writer_data(w, data, 11), CLV_OK);
    assert_int_equal(llm_gguf_writer_data(w, data, 20), CLV_ERR_INVALID);
    assert_int_equal(llm_gguf_writer_data(w, data, 19), CLV_OK);
    assert_int_equal(llm_gguf_writer_data(w, (float[]){8, 9}, 8), CLV_OK);
    assert_int_equal(llm_gguf_writer_commit(w), CLV_OK);
    llm_gguf_writer_destroy(w);

    assert_int_equal(llm_gguf_open(path, &g), CLV_OK);
    assert_int_equal(llm_gguf_kv_count(g), llm_gguf_kv_count(in) + 7);
    for (uint64_t i = 0; i < llm_gguf_kv_count(in); i++) {
        const llm_gguf_kv *x = llm_gguf_kv_at(in, i);
        const llm_gguf_kv *y = llm_gguf_kv_at(g, i);
        assert_true(llm_str_equal(x->key, y->key));
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->size, y->size);
        assert_memory_equal(x->data, y->data, x->size);
    }
    assert_u32(g, "n.u32", 5);
    llm_gguf_array array;
    assert_int_equal(llm_gguf_get_ints(g, "n.i32s", &array), CLV_OK);
    assert_int_equal(llm_gguf_item_int(&array, 1), -2);
    llm_str *strings;
    uint64_t n;
    assert_int_equal(llm_gguf_get_strings(g, "n.none", &strings, &n), CLV_OK);
    assert_int_equal(n, 0);
    assert_null(strings);
    const llm_gguf_tensor *t = llm_gguf_find(g, "first");
    assert_int_equal(t->dims[0], 3);
    assert_int_equal(t->dims[1], 5);
    assert_memory_equal(t->data, data, 30);
    assert_memory_equal(llm_gguf_find(g, "second")->data, ((float[]){8, 9}), 8);
    llm_gguf_close(g);
    llm_gguf_close(in);
    bytes_free(&b);
}

static void unfinished_write(void **state)
{
    (void)state;
    llm_gguf_writer *w;
    const char *path = temp_path(&tmp, "unfinished.gguf");
    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    llm_gguf_writer_tensor(w, llm_str_of("x"), CLV_DTYPE_F32, 1,
                           (int64_t[]){2});
    assert_int_equal(llm_gguf_writer_open(w, path, NULL), CLV_OK);
    assert_int_equal(llm_gguf_writer_commit(w), CLV_ERR_INVALID);
    llm_gguf_writer_destroy(w);
    assert_int_not_equal(access(path, F_OK), 0);

    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    llm_gguf_writer_tensor(w, llm_str_of("x"), CLV_DTYPE_Q8_0, 1,
                           (int64_t[]){33});
    assert_int_equal(llm_gguf_writer_open(w, path, NULL), CLV_ERR_INVALID);
    llm_gguf_writer_destroy(w);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Three tensors of one float, a file each; number 1 cannot take its name if
 * blocked. */
static clv_status write_split(bool blocked)
{
    const llm_gguf_split split = {.max_tensors = 1};
    llm_gguf_writer *w;
    assert_int_equal(llm_gguf_writer_create(&w), CLV_OK);
    llm_gguf_writer_u32(w, "key", 5);
    for (int i = 0; i < 3; i++)
        llm_gguf_writer_tensor(w, (llm_str){"abc" + i, 1}, CLV_DTYPE_F32, 1,
                               (int64_t[]){1});
    assert_int_equal(llm_gguf_writer_open(w, temp_path(&tmp, "w.gguf"), &split),
                     CLV_OK);
    if (blocked)
        assert_int_equal(mkdir(temp_path(&tmp, "w-00001-of-00003.gguf"), 0700),
                         0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(llm_gguf_writer_data(w, &(float){(float)i}, 4),
                         CLV_OK);
    assert_int_not_equal(access(temp_path(&tmp, "w-00003-of-00003.gguf"), F_OK),
                         0);
    const clv_status status = llm_gguf_writer_commit(w);
    llm_gguf_writer_destroy(w);
    return status;
}

static void split_write(void **state)
{
    (void)state;
    const char *first = temp_path(&tmp, "w-00001-of-00003.gguf");
    const char *last = temp_path(&tmp, "w-00003-of-00003.gguf");
    assert_int_equal(write_split(true), CLV_ERR_IO);
    assert_int_not_equal(access(last, F_OK), 0);
    assert_int_equal(rmdir(first), 0);
    assert_int_equal(write_split(false), CLV_OK);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(last, &g), CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), 3);
    assert_u32(g, "key", 5);
    assert_memory_equal(llm_gguf_find(g, "c")->data, &(float){2}, 4);
    llm_gguf_close(g);
}

static void shared_files(void **state)
{
    (void)state;
    const char *path = shared_path(&tmp, "models/nano-f16.gguf");
    if (!path)
        skip();
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(path, &g), CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), 74);
    assert_u32(g, "llama.block_count", 8);
    const llm_gguf_tensor *t = llm_gguf_find(g, "blk.7.ffn_down.weight");
    assert_non_null(t);
    assert_int_equal(t->dims[0], 256);
    assert_int_equal(t->dims[1], 704);
    llm_str *tokens;
    uint64_t n;
    assert_int_equal(
        llm_gguf_get_strings(g, "tokenizer.ggml.tokens", &tokens, &n), CLV_OK);
    assert_int_equal(n, 8192);
    assert_true(llm_str_equal(tokens[8189], llm_str_of("nfev")));
    free(tokens);
    llm_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),          cmocka_unit_test(arrays),
        cmocka_unit_test(tensors),          cmocka_unit_test(truncated),
        cmocka_unit_test(flipped_bytes),    cmocka_unit_test(bad_heads),
        cmocka_unit_test(bad_settings),     cmocka_unit_test(bad_tensors),
        cmocka_unit_test(unsupported_type), cmocka_unit_test(alignment_in_file),
        cmocka_unit_test(overlaps),         cmocka_unit_test(split_model),
        cmocka_unit_test(write_and_read),   cmocka_unit_test(unfinished_write),
        cmocka_unit_test(split_write),      cmocka_unit_test(shared_files),
    };
    return cmocka_run_group_tests_name("gguf", tests, make_temp, remove_temp);
}
