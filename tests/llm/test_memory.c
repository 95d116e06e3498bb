/* Every allocation of the library fails once: the call returns an error that
 * names memory, leaks nothing and can be repeated. */
#include "rig.h"

/* The linker's names for what it wraps, and for what is called instead. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
CLV_API void *__wrap_malloc(size_t size);
CLV_API void *__wrap_calloc(size_t n, size_t size);
CLV_API void *__wrap_realloc(void *old, size_t size);

/* Allocations until the one that fails; -1: none does. */
static int countdown = -1;

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static clv_context *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = rig_context();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clv_context_destroy(ctx);
    return 0;
}

/* Runs step with its first, second... allocation failing, until none fails. */
static void check(clv_status (*step)(void *arg), void *arg)
{
    int n = 0;
    for (;; n++) {
        countdown = n;
        const clv_status status = step(arg);
        const bool reached = countdown < 0;
        countdown = -1;
        if (!reached) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, CLV_ERR_NO_MEMORY);
        assert_non_null(strstr(clv_last_error(), "memory"));
    }
    assert_true(n > 0);
}

static clv_status load(void *arg)
{
    const tiny_params *p = arg;
    const int left = countdown;
    countdown = -1;
    llm_source *source = tiny_create(p);
    countdown = left;
    clv_model *model;
    clv_status status = llm_model_create(ctx, source, NULL, &model);
    if (!status)
        clv_model_destroy(model);
    return status;
}

static void test_load(void **state)
{
    (void)state;
    tiny_params p = tiny_defaults();
    p.divisors = true;
    check(load, &p);
}

static int on_token(void *arg, int32_t id, const char *text, uint32_t length)
{
    (void)arg;
    (void)id;
    (void)text;
    return length != 0;
}

static clv_status run(void *arg)
{
    static const int32_t prompt[5] = {1, 2, 3, 4, 5};
    const clv_session_params params = {.n_ctx = 16, .n_batch = 2};
    const clv_generate_params generate = {
        .prompt = prompt,
        .n_prompt = 5,
        .n_predict = 2,
        .on_token = on_token,
    };
    clv_sampler_params sampling = clv_sampler_defaults();
    clv_session *session = NULL;
    clv_sampler *sampler = NULL;
    const float *logits;
    sampling.repeat_penalty = 2;
    clv_status status = clv_session_create(arg, &params, &session);
    if (!status)
        status = clv_session_eval(session, prompt, 5, CLV_LOGITS_ALL, &logits);
    if (!status)
        status = clv_sampler_create(&sampling, 160, &sampler);
    if (!status)
        status = clv_generate(session, sampler, &generate, NULL);
    clv_sampler_destroy(sampler);
    clv_session_destroy(session);
    return status;
}

static void test_run(void **state)
{
    (void)state;
    const tiny_params p = tiny_defaults();
    clv_model *model = rig_model(ctx, &p, NULL);
    check(run, model);
    clv_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
