/* The safetensors reader, against files made byte by byte. */
#include "bytes.h"
#include "files/safetensors_convert.h"
#include "temp_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bytes file_of(const char *header, const void *data, size_t size)
{
    bytes b = {0};
    put_u64(&b, strlen(header));
    put_text(&b, header);
    put(&b, data, size);
    return b;
}

static llm_safetensors *open_bytes(const bytes *b)
{
    llm_safetensors *st = NULL;
    clv_status status =
        llm_safetensors_open_memory(b->data, b->size, "m.st", &st);
    if (status)
        fail_msg("%s", clv_last_error());
    return st;
}

static void reads(void **state)
{
    (void)state;
    /* A header of odd length: data begins at an odd address. */
    const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]},"
        "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[30,32]}, "
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[32,32]}"
        "}";
    struct {
        float a[6];
        uint16_t b[3], s;
    } data = {{1, 2, 3, 4, 5, -6.5f}, {0x3c00, 0xc000, 0x0001}, 0x4049};
    bytes b = file_of(header, &data, 32);
    llm_safetensors *st = open_bytes(&b);
    assert_int_equal(llm_safetensors_count(st), 4);
    const llm_safetensors_tensor *t = llm_safetensors_find(st, "a");
    assert_non_null(t);
    assert_int_equal(t->dtype, CLV_DTYPE_F32);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(t->dims[1], 3);
    assert_int_equal(t->count, 6);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    float values[6];
    assert_int_equal(llm_safetensors_to_f32(t, values), CLV_OK);
    assert_memory_equal(values, data.a, sizeof values);
    t = llm_safetensors_find(st, "b");
    assert_int_equal(llm_safetensors_to_f32(t, values), CLV_OK);
    assert_true(values[0] == 1 && values[1] == -2 && values[2] == 0x1p-24f);
    int32_t ids[6];
    assert_int_equal(llm_safetensors_to_i32(t, ids), CLV_ERR_UNSUPPORTED);
    t = llm_safetensors_find(st, "s");
    assert_int_equal(t->rank, 0);
    assert_int_equal(llm_safetensors_to_f32(t, values), CLV_OK);
    assert_true(values[0] == 3.140625f);
    assert_int_equal(llm_safetensors_find(st, "none")->count, 0);
    assert_null(llm_safetensors_find(st, "__metadata__"));
    llm_safetensors_close(st);
    bytes_free(&b);
}

static void integers(void **state)
{
    (void)state;
    const char header[] =
        "{\"i64\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
        "\"i32\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[24,28]},"
        "\"i16\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[28,30]},"
        "\"i8\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[30,31]},"
        "\"u8\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[31,32]}}";
    struct {
        int64_t i64[3];
        int32_t i32;
        int16_t i16;
        int8_t i8;
        uint8_t u8;
    } data = {{1, -2, INT32_MAX}, -3, -4, -5, 250};
    bytes b = file_of(header, &data, 32);
    llm_safetensors *st = open_bytes(&b);
    int32_t ids[3];
    assert_int_equal(
        llm_safetensors_to_i32(llm_safetensors_find(st, "i64"), ids), CLV_OK);
    assert_true(ids[0] == 1 && ids[1] == -2 && ids[2] == INT32_MAX);
    const struct {
        const char *name;
        int32_t value;
    } scalars[] = {{"i32", -3}, {"i16", -4}, {"i8", -5}, {"u8", 250}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(llm_safetensors_to_i32(
                             llm_safetensors_find(st, scalars[i].name), ids),
                         CLV_OK);
        assert_int_equal(ids[0], scalars[i].value);
    }
    llm_safetensors_close(st);
    bytes_free(&b);

    data.i64[1] = INT64_C(1) << 40;
    b = file_of(header, &data, 32);
    st = open_bytes(&b);
    assert_int_equal(
        llm_safetensors_to_i32(llm_safetensors_find(st, "i64"), ids),
        CLV_ERR_FORMAT);
    llm_safetensors_close(st);
    bytes_free(&b);
}

static void hostile(void **state)
{
    (void)state;
    const struct {
        const char *tensor;
        clv_status status;
        const char *part;
    } cases[] = {
        {"7", CLV_ERR_FORMAT, "object"},
        {"{}", CLV_ERR_FORMAT, "no dtype"},
        {"{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}",
         CLV_ERR_UNSUPPORTED, "'F4'"},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,4]}", CLV_ERR_FORMAT,
         "no shape"},
        {"{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}",
         CLV_ERR_FORMAT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}",
         CLV_ERR_FORMAT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,4]}",
         CLV_ERR_FORMAT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
         "\"data_offsets\":[0,0]}",
         CLV_ERR_FORMAT, "past 64 bits"},
        {"{\"dtype\":\"F32\",\"shape\":[2147483648,2147483648],"
         "\"data_offsets\":[0,0]}",
         CLV_ERR_FORMAT, "past 64 bits"},
        {"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],"
         "\"data_offsets\":[0,4]}",
         CLV_ERR_FORMAT, "dimensions"},
        {"{\"dtype\":\"F32\",\"shape\":[1]}", CLV_ERR_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}",
         CLV_ERR_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}",
         CLV_ERR_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}",
         CLV_ERR_FORMAT, "match"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}",
         CLV_ERR_FORMAT, "match"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}",
         CLV_ERR_FORMAT, "ends at byte 12"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}",
         CLV_ERR_FORMAT, "twice"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}",
         CLV_ERR_FORMAT, "4 bytes behind the last tensor"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}",
         CLV_ERR_FORMAT, "begins behind bytes that no tensor has"},
        {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}",
         CLV_ERR_FORMAT, "'y' begins inside another tensor"},
        {"[", CLV_ERR_FORMAT, "JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[512];
        snprintf(header, sizeof header, "{\"x\":%s}", cases[i].tensor);
        bytes b = file_of(header, "12345678", 8);
        uint8_t *copy = exact_copy(b.data, b.size);
        llm_safetensors *st = NULL;
        clv_status status =
            llm_safetensors_open_memory(copy, b.size, "m.st", &st);
        if (status != cases[i].status)
            fail_msg("%s: status %d", cases[i].tensor, status);
        assert_null(st);
        assert_message(cases[i].part);
        assert_message("m.st");
        free(copy);
        bytes_free(&b);
    }
}

static void damaged(void **state)
{
    (void)state;
    const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    bytes b = file_of(header, "12345678", 8);
    for (size_t size = 0; size < b.size; size++) {
        uint8_t *copy = exact_copy(b.data, size);
        llm_safetensors *st = NULL;
        assert_int_equal(llm_safetensors_open_memory(copy, size, "m.st", &st),
                         CLV_ERR_FORMAT);
        free(copy);
    }
    uint8_t *copy = exact_copy(b.data, b.size);
    for (size_t at = 0; at < b.size - 8; at++) {
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            llm_safetensors *st;
            float values[64];
            copy[at] ^= (uint8_t)flip;
            if (!llm_safetensors_open_memory(copy, b.size, "m.st", &st)) {
                for (uint64_t i = 0; i < llm_safetensors_count(st); i++)
                    llm_safetensors_to_f32(llm_safetensors_at(st, i), values);
                llm_safetensors_close(st);
            }
            copy[at] = b.data[at];
        }
    }
    free(copy);
    uint64_t huge = UINT64_MAX;
    memcpy(b.data, &huge, 8);
    llm_safetensors *st;
    assert_int_equal(llm_safetensors_open_memory(b.data, b.size, "m.st", &st),
                     CLV_ERR_FORMAT);
    bytes_free(&b);
}

static void shards(void **state)
{
    (void)state;
    const char one[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    const char two[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    float values[] = {3, 4};
    bytes b = file_of(one, &values[0], 4);
    temp_write(&tmp, "s-1.safetensors", b.data, b.size);
    bytes_free(&b);
    b = file_of(two, &values[1], 4);
    temp_write(&tmp, "s-2.safetensors", b.data, b.size);
    bytes_free(&b);

    llm_safetensors *st = NULL;
    assert_int_equal(llm_safetensors_open_dir(tmp.dir, &st), CLV_ERR_NOT_FOUND);
    assert_message("model.safetensors");
    const char index[] = "model.safetensors.index.json";
    temp_write_text(&tmp, index,
                    "{\"weight_map\":{\"a\":\"s-1.safetensors\","
                    "\"b\":\"s-2.safetensors\"}}");
    assert_int_equal(llm_safetensors_open_dir(tmp.dir, &st), CLV_OK);
    assert_int_equal(llm_safetensors_count(st), 2);
    float x;
    assert_int_equal(llm_safetensors_to_f32(llm_safetensors_find(st, "b"), &x),
                     CLV_OK);
    assert_true(x == 4);
    llm_safetensors_close(st);

    const struct {
        const char *map, *part;
    } bad[] = {
        {"{\"a\":\"../s-1.safetensors\"}", "same directory"},
        {"{\"a\":\"/etc/passwd\"}", "same directory"},
        {"{\"a\":3}", "same directory"},
        {"{}", "weight_map"},
        {"{\"c\":\"s-1.safetensors\"}", "'c' is in none"},
        {"{\"a\":\"absent.safetensors\"}", "absent.safetensors"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"weight_map\":%s}", bad[i].map);
        temp_write_text(&tmp, index, text);
        st = NULL;
        assert_int_not_equal(llm_safetensors_open_dir(tmp.dir, &st), CLV_OK);
        assert_null(st);
        assert_message(bad[i].part);
    }
}

static void shared_files(void **state)
{
    (void)state;
    const char *path = shared_path(&tmp, "goldens/llama/golden.safetensors");
    if (!path)
        skip();
    llm_safetensors *st;
    assert_int_equal(llm_safetensors_open(path, &st), CLV_OK);
    const llm_safetensors_tensor *t = llm_safetensors_find(st, "logits2");
    assert_non_null(t);
    assert_int_equal(t->dims[0], 40);
    assert_int_equal(t->dims[1], 512);
    int32_t ids[55];
    t = llm_safetensors_find(st, "greedy");
    assert_int_equal(t->count, 55);
    assert_int_equal(llm_safetensors_to_i32(t, ids), CLV_OK);
    for (int i = 0; i < 55; i++)
        assert_in_range(ids[i], 0, 511);
    llm_safetensors_close(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),   cmocka_unit_test(integers),
        cmocka_unit_test(hostile), cmocka_unit_test(damaged),
        cmocka_unit_test(shards),  cmocka_unit_test(shared_files),
    };
    return cmocka_run_group_tests_name("safetensors", tests, make_temp,
                                       remove_temp);
}
