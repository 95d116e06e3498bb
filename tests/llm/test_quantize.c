/* clv_quantize(); the test has its own decoder. */
#include "bytes.h"
#include "files/gguf_kv.h"
#include "temp_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------ */
/* Formats, by their definition                                             */

static float half(const uint8_t *at)
{
    uint16_t h;
    memcpy(&h, at, 2);
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(1024 + fraction), exponent - 25);
}

static float brain(const uint8_t *at)
{
    uint32_t bits = (uint32_t)(at[0] | at[1] << 8) << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* Element i, and in *step the distance of neighbouring values there. */
static float decode(const llm_gguf_tensor *t, uint64_t i, float *step)
{
    const uint8_t *at = t->data;
    float x;
    *step = 0;
    switch (t->type) {
    case 0: /* F32 */
        memcpy(&x, at + i * 4, 4);
        return x;
    case 1: /* F16 */
        x = half(at + i * 2);
        *step = fmaxf(fabsf(x) / 1024, 0x1p-24f);
        return x;
    case 30: /* BF16 */
        x = brain(at + i * 2);
        *step = fabsf(x) / 128;
        return x;
    case 8: /* Q8_0 */
        at += i / 32 * 34;
        *step = half(at);
        return half(at) * (int8_t)at[2 + i % 32];
    case 2: /* Q4_0: low nibbles first, then the high ones */
        at += i / 32 * 18;
        *step = 2 * fabsf(half(at));
        return half(at) *
               ((i % 32 < 16 ? at[2 + i % 16] & 15 : at[2 + i % 16] >> 4) - 8);
    }
    fail_msg("type %u", t->type);
    return 0;
}

/* ------------------------------------------------------------------------ */
/* Models                                                                   */

typedef struct shape {
    const char *name;
    uint32_t rank;
    uint64_t dims[3]; /* innermost first */
    uint32_t type;    /* F32, F16 or BF16 */
} shape;

static uint64_t count(const shape *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

/* Values with outliers and blocks of zeroes, exact in F16 and, rounded, BF16.
 */
static float value(uint64_t tensor, uint64_t i)
{
    uint64_t h = (tensor * 1000003 + i) * 0x9e3779b97f4a7c15u;
    float x = (float)((int)(h >> 50 & 255) - 128) / 64;
    if (i / 32 % 11 == 3)
        return 0;
    return h >> 40 % 97 == 5 ? x * 32 : x;
}

static void put_value(bytes *b, uint32_t type, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (type == 0) {
        put_u32(b, bits);
    } else if (type == 30) {
        put(b, (uint8_t[]){(uint8_t)(bits >> 16), (uint8_t)(bits >> 24)}, 2);
    } else {
        uint16_t h = 0; /* x is 0 or normal, with a short fraction */
        if (x != 0)
            h = (uint16_t)((bits >> 16 & 0x8000) |
                           ((bits >> 23 & 255) - 112) << 10 |
                           (bits >> 13 & 1023));
        put(b, &h, 2);
    }
}

static const char *write_model(const char *file, const shape *shapes,
                               uint64_t n)
{
    bytes b = {0}, data = {0};
    put_gguf_head(&b, n, 4);
    put_key(&b, "general.architecture", LLM_GGUF_STRING);
    put_string(&b, "llama");
    put_key(&b, "general.file_type", LLM_GGUF_U32);
    put_u32(&b, 0);
    put_key(&b, "tokenizer.ggml.tokens", LLM_GGUF_ARRAY);
    put_u32(&b, LLM_GGUF_STRING);
    put_u64(&b, 2);
    put_string(&b, "a");
    put_string(&b, "\xc4\xa0"
                   "b");
    put_key(&b, "general.alignment", LLM_GGUF_U32);
    put_u32(&b, 64);
    for (uint64_t i = 0; i < n; i++) {
        put_alignment(&data, 64);
        put_tensor(&b, shapes[i].name, shapes[i].rank, shapes[i].dims,
                   shapes[i].type, data.size);
        for (uint64_t j = 0; j < count(&shapes[i]); j++)
            put_value(&data, shapes[i].type, value(i, j));
    }
    put_alignment(&b, 64);
    put(&b, data.data, data.size);
    const char *path = temp_write(&tmp, file, b.data, b.size);
    bytes_free(&b);
    bytes_free(&data);
    return path;
}

static const shape model[] = {
    {"token_embd.weight", 2, {96, 70}, 1},
    {"output_norm.weight", 1, {96}, 0},
    {"blk.0.attn_norm.weight", 1, {96}, 1},
    {"blk.0.attn_q.weight", 2, {96, 33}, 0},
    {"blk.0.attn_q.bias", 1, {33}, 1},
    {"blk.0.ffn_down.weight", 2, {4096, 96}, 30},
    {"blk.0.odd.weight", 2, {33, 5}, 0},
    {"blk.0.ffn_gate_exps.weight", 3, {32, 4, 3}, 1},
    {"blk.0.ffn_gate_inp.weight", 2, {96, 3}, 1},
};
enum { N_MODEL = sizeof model / sizeof model[0] };

/* Every value is exact to half a step, or to a whole step for the opposite
 * extreme of a Q4_0 block. */
static void check_values(const llm_gguf *g, const shape *shapes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const llm_gguf_tensor *t = llm_gguf_find(g, shapes[i].name);
        assert_non_null(t);
        assert_int_equal(t->rank, shapes[i].rank);
        for (uint32_t d = 0; d < t->rank; d++)
            assert_int_equal(t->dims[d], shapes[i].dims[t->rank - 1 - d]);
        for (uint64_t j = 0; j < count(&shapes[i]); j++) {
            float step, x = value(i, j), y = decode(t, j, &step);
            float most = step * 0.502f + fabsf(x) * 0.002f;
            if (shapes[i].type == 30)
                most += fabsf(x) / 128;
            if (fabsf(x - y) > most)
                fail_msg("%s[%d]: %g is %g", shapes[i].name, (int)j, x, y);
        }
    }
}

static clv_status quantize(const char *in, const char *out, const char *type)
{
    const clv_quantize_params params = {.type = type};
    return clv_quantize(in, out, &params);
}

static void check_types(const char *type, const uint32_t types[N_MODEL],
                        uint32_t file_type)
{
    const char *in = write_model("in.gguf", model, N_MODEL);
    const char *out = temp_path(&tmp, "out.gguf");
    assert_int_equal(quantize(in, out, type), CLV_OK);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(out, &g), CLV_OK);
    assert_int_equal(llm_gguf_tensor_count(g), N_MODEL);
    for (uint64_t i = 0; i < N_MODEL; i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        assert_true(llm_str_equal(t->name, llm_str_of(model[i].name)));
        if (t->type != types[i])
            fail_msg("%s: type %u", model[i].name, t->type);
    }
    check_values(g, model, N_MODEL);
    uint32_t u = 99;
    assert_int_equal(llm_gguf_get_u32(g, "general.file_type", &u), CLV_OK);
    assert_int_equal(u, file_type);
    assert_int_equal(llm_gguf_get_u32(g, "general.quantization_version", &u),
                     CLV_OK);
    assert_int_equal(u, 2);
    assert_false(llm_gguf_has(g, "general.alignment"));
    llm_str *tokens;
    uint64_t n;
    assert_int_equal(
        llm_gguf_get_strings(g, "tokenizer.ggml.tokens", &tokens, &n), CLV_OK);
    assert_int_equal(n, 2);
    assert_true(llm_str_equal(tokens[1], llm_str_of("\xc4\xa0"
                                                    "b")));
    free(tokens);
    llm_gguf_close(g);
}

static void to_q8_0(void **state)
{
    (void)state;
    const uint32_t types[N_MODEL] = {8, 0, 0, 8, 0, 8, 1, 8, 0};
    check_types("q8_0", types, 7);
}

/* Tied: the embedding is the output matrix too, and has more bits. */
static void to_q4_0(void **state)
{
    (void)state;
    const uint32_t types[N_MODEL] = {8, 0, 0, 2, 0, 2, 1, 2, 0};
    check_types("Q4_0", types, 2);
}

static void to_f16(void **state)
{
    (void)state;
    const uint32_t types[N_MODEL] = {1, 0, 0, 1, 0, 1, 1, 1, 0};
    check_types("f16", types, 1);
}

static void untied_q4_0(void **state)
{
    (void)state;
    const shape shapes[] = {
        {"token_embd.weight", 2, {64, 10}, 1},
        {"output.weight", 2, {64, 10}, 1},
    };
    const char *in = write_model("untied.gguf", shapes, 2);
    const char *out = temp_path(&tmp, "out.gguf");
    assert_int_equal(quantize(in, out, "q4_0"), CLV_OK);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(out, &g), CLV_OK);
    assert_int_equal(llm_gguf_find(g, "token_embd.weight")->type, 2);
    assert_int_equal(llm_gguf_find(g, "output.weight")->type, 8);
    llm_gguf_close(g);
}

/* From a quantised file, and over itself. */
static void again_in_place(void **state)
{
    (void)state;
    const char *path = write_model("same.gguf", model, N_MODEL);
    assert_int_equal(quantize(path, path, "q8_0"), CLV_OK);
    assert_int_equal(quantize(path, path, "f16"), CLV_OK);
    llm_gguf *g;
    assert_int_equal(llm_gguf_open(path, &g), CLV_OK);
    const llm_gguf_tensor *t = llm_gguf_find(g, "blk.0.ffn_down.weight");
    assert_int_equal(t->type, 1);
    float step, error = 0, power = 0;
    for (uint64_t j = 0; j < 4096 * 96; j++) {
        float x = value(5, j), d = decode(t, j, &step) - x;
        error += d * d;
        power += x * x;
    }
    assert_true(sqrtf(error / power) < 0.01f);
    llm_gguf_close(g);
}

/* ------------------------------------------------------------------------ */

typedef struct progress {
    unsigned calls, cancel_at;
    double last;
    bool backwards;
} progress;

static int on_progress(void *ctx, const char *what, double fraction)
{
    progress *p = ctx;
    assert_non_null(what);
    p->backwards |= fraction < p->last;
    p->last = fraction;
    return ++p->calls == p->cancel_at;
}

static void reports_and_cancels(void **state)
{
    (void)state;
    const char *in = write_model("in.gguf", model, N_MODEL);
    const char *out = temp_path(&tmp, "cancelled.gguf");
    progress p = {0};
    const clv_quantize_params params = {
        .type = "q8_0", .progress = on_progress, .progress_ctx = &p};
    assert_int_equal(clv_quantize(in, out, &params), CLV_OK);
    assert_true(p.calls >= N_MODEL);
    assert_true(p.last == 1);
    assert_false(p.backwards);
    unlink(out);
    p = (progress){.cancel_at = 4};
    assert_int_equal(clv_quantize(in, out, &params), CLV_ERR_CANCELLED);
    assert_int_equal(p.calls, 4);
    assert_int_not_equal(access(out, F_OK), 0);
}

static void refuses(void **state)
{
    (void)state;
    const char *in = write_model("in.gguf", model, N_MODEL);
    const char *out = temp_path(&tmp, "never.gguf");
    assert_int_equal(quantize(in, out, "i8"), CLV_ERR_UNSUPPORTED);
    assert_message("i8");
    assert_int_equal(clv_quantize(in, out, NULL), CLV_ERR_INVALID);
    assert_int_equal(quantize(NULL, out, "f16"), CLV_ERR_INVALID);
    assert_int_not_equal(quantize(temp_path(&tmp, "absent.gguf"), out, "f16"),
                         CLV_OK);
    assert_message("absent.gguf");
    in = write_model("empty.gguf", NULL, 0);
    assert_int_equal(quantize(in, out, "f16"), CLV_ERR_FORMAT);
    assert_message("no tensors");

    bytes b = {0};
    put_gguf_head(&b, 1, 0);
    put_tensor(&b, "x", 2, (uint64_t[]){256, 1}, 16, 0);
    put_alignment(&b, 32);
    put_zeros(&b, 66);
    in = temp_write(&tmp, "iq2.gguf", b.data, b.size);
    bytes_free(&b);
    assert_int_equal(quantize(in, out, "f16"), CLV_ERR_UNSUPPORTED);
    assert_message("IQ2_XXS");
    assert_int_not_equal(access(out, F_OK), 0);
}

static void bad_values(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, 1e5f};
    const char *const parts[] = {"finite", "finite", "100000"};
    const char *out = temp_path(&tmp, "never.gguf");
    for (int i = 0; i < 3; i++) {
        bytes b = {0};
        put_gguf_head(&b, 1, 0);
        put_tensor(&b, "x", 2, (uint64_t[]){32, 1}, 0, 0);
        put_alignment(&b, 32);
        put_zeros(&b, 124);
        put_f32(&b, bad[i]);
        const char *in = temp_write(&tmp, "bad.gguf", b.data, b.size);
        bytes_free(&b);
        assert_int_equal(quantize(in, out, "f16"), CLV_ERR_FORMAT);
        assert_message(parts[i]);
        assert_message("'x'");
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_q8_0),        cmocka_unit_test(to_q4_0),
        cmocka_unit_test(to_f16),         cmocka_unit_test(untied_q4_0),
        cmocka_unit_test(again_in_place), cmocka_unit_test(reports_and_cancels),
        cmocka_unit_test(refuses),        cmocka_unit_test(bad_values),
    };
    return cmocka_run_group_tests_name("quantize", tests, make_temp,
                                       remove_temp);
}
