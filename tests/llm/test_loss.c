/* Devices fail in the middle of a text: the text continues as without them.
 * Each time with the two reference devices and the CPU. */
#include "rig.h"

#include "../../core/base/sanitizer.h"
#include "../../core/device/device.h"

#include <stdio.h>

#define N_PROMPT 11
#define N_PREDICT 20
#define N_DEVICES 3
#define NEVER 1000

/* All three are used. */
#define SHARED                                                                 \
    "ref.ops0=matmul,glu ref.ops1=rms_norm,add,attention ref.flag_wait1=on "

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    clv_model *model;
    llm_source *source;
    uint32_t n_warnings;
    char warning[1024];
} world;

static void on_log(void *arg, uint32_t level, const char *line)
{
    world *w = arg;
    if (level != CLV_LOG_ERROR)
        return; /* of the planner */
    w->n_warnings++;
    snprintf(w->warning, sizeof w->warning, "%s", line);
}

static void open_world(world *w, const char *settings)
{
    char text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    tiny_params p = tiny_defaults();
    *w = (world){0};
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins "
             "core.cache_dir=%s/tests/llm core.allow_unsafe_plugins=on "
             "core.plan=first core.plugins=ref,cpu core.devices=ref,cpu " SHARED
             "%s",
             build, build, build, settings);
    assert_ok(clv_config_create(&w->config));
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    clv_context_params params = {.config = w->config,
                                 .log = on_log,
                                 .log_ctx = w,
                                 .log_level = CLV_LOG_WARN};
    assert_ok(clv_context_create(&params, &w->ctx));
    assert_int_equal(clv_context_device_count(w->ctx), N_DEVICES);
    p.seed = 11;
    w->model = rig_model(w->ctx, &p, &w->source);
}

static void close_world(world *w)
{
    clv_model_destroy(w->model);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

/* Sanitizers are slow: losses are at fewer places there. */
static bool few(void)
{
    return core_sanitizers();
}

/* Of sessions: batches of the prompt in flight. */
static uint32_t n_flight = 1;

/* A text, and the failures during it. */
typedef struct story {
    world *w;
    clv_session *session;
    uint32_t devices; /* bit i: may be used */
    uint32_t fault;
    int at[N_DEVICES]; /* the device fails at this token; -1: in the prompt */
    int32_t ids[N_PREDICT];
    int n_ids;
} story;

static void break_devices(story *s, int token)
{
    for (uint32_t i = 0; i < N_DEVICES; i++) {
        clv_device *dev = clv_context_device(s->w->ctx, i);
        if (s->at[i] == token)
            assert_ok(dev->api->fault_inject(dev->handle, s->fault));
    }
}

static int on_token(void *arg, int32_t id, const char *text, uint32_t length)
{
    story *s = arg;
    (void)text;
    (void)length;
    s->ids[s->n_ids] = id;
    break_devices(s, s->n_ids++);
    return 0;
}

/* The session begins with a token, so that there are runners of all kinds. */
static clv_status tell(story *s)
{
    clv_device *list[N_DEVICES];
    clv_session_params params = {.n_ctx = 64,
                                 .n_batch = n_flight > 1 ? 2 : 4,
                                 .n_flight = n_flight,
                                 .devices = list};
    clv_sampler_params greedy = clv_sampler_defaults();
    clv_sampler *sampler;
    int32_t prompt[N_PROMPT];
    const float *logits;
    for (uint32_t i = 0; i < N_DEVICES; i++)
        if (s->devices >> i & 1)
            list[params.n_devices++] = clv_context_device(s->w->ctx, i);
    tiny_ids(s->w->source, 3, prompt, N_PROMPT);
    greedy.temperature = 0;
    assert_ok(clv_session_create(s->w->model, &params, &s->session));
    assert_ok(
        clv_sampler_create(&greedy, s->w->source->hparams.n_vocab, &sampler));
    assert_ok(
        clv_session_eval(s->session, prompt, 1, CLV_LOGITS_LAST, &logits));
    break_devices(s, -1);
    const clv_generate_params generate = {.prompt = prompt,
                                          .n_prompt = N_PROMPT,
                                          .n_predict = N_PREDICT,
                                          .ignore_end = true,
                                          .on_token = on_token,
                                          .on_token_ctx = s};
    clv_status status = clv_generate(s->session, sampler, &generate, NULL);
    if (!status)
        assert_int_equal(clv_session_position(s->session),
                         N_PROMPT + N_PREDICT);
    clv_sampler_destroy(sampler);
    return status;
}

/* A text without failures. */
typedef struct quiet {
    char settings[128];
    uint32_t devices, n_flight;
    int32_t ids[N_PREDICT];
} quiet;

static quiet told[32];
static uint32_t n_told;

/* The text of these devices, which is made once. */
static const int32_t *tell_quiet(const char *settings, uint32_t devices)
{
    world w;
    story s = {.w = &w, .devices = devices, .at = {NEVER, NEVER, NEVER}};
    for (uint32_t i = 0; i < n_told; i++)
        if (!strcmp(told[i].settings, settings) && told[i].devices == devices &&
            told[i].n_flight == n_flight)
            return told[i].ids;
    assert_true(n_told < sizeof told / sizeof *told);
    open_world(&w, settings);
    assert_ok(tell(&s));
    assert_int_equal(w.n_warnings, 0);
    clv_session_destroy(s.session);
    close_world(&w);
    quiet *q = &told[n_told++];
    assert_true(strlen(settings) < sizeof q->settings);
    strcpy(q->settings, settings);
    q->devices = devices;
    q->n_flight = n_flight;
    memcpy(q->ids, s.ids, sizeof q->ids);
    return q->ids;
}

static void check(const char *settings, uint32_t fault, int at0, int at1,
                  int at2)
{
    world w;
    story s = {.w = &w, .devices = 7, .fault = fault, .at = {at0, at1, at2}};
    uint32_t n_lost = 0, left = 0;
    for (uint32_t i = 0; i < N_DEVICES; i++) {
        n_lost += s.at[i] != NEVER;
        left |= (uint32_t)(s.at[i] == NEVER) << i;
    }
    const int32_t *wanted = tell_quiet(settings, left);
    open_world(&w, settings);
    assert_ok(tell(&s));
    assert_int_equal(s.n_ids, N_PREDICT);
    assert_memory_equal(s.ids, wanted, sizeof s.ids);
    assert_true(w.n_warnings >= 1 && w.n_warnings <= n_lost);
    for (uint32_t i = 0; i < N_DEVICES; i++) {
        clv_device *dev = clv_context_device(w.ctx, i);
        assert_int_equal(clv_device_lost(dev), s.at[i] != NEVER);
        if (n_lost == 1 && s.at[i] != NEVER)
            assert_non_null(strstr(w.warning, clv_device_id(dev)));
    }
    clv_session_destroy(s.session);
    close_world(&w);
}

static void test_in_the_prompt(void **state)
{
    (void)state;
    check("", CLV_FAULT_LOST, -1, NEVER, NEVER);
    check("", CLV_FAULT_LOST, NEVER, -1, NEVER);
}

/* The device's n-th submit fails, in whichever run of the prompt it is. */
static void check_submit(int n)
{
    world w;
    char settings[64];
    story s = {.w = &w, .devices = 7, .at = {NEVER, NEVER, NEVER}};
    const int32_t *wanted = tell_quiet("", 5);
    snprintf(settings, sizeof settings, "ref.fail_after1=%d", n);
    open_world(&w, settings);
    assert_ok(tell(&s));
    assert_memory_equal(s.ids, wanted, sizeof s.ids);
    assert_int_equal(w.n_warnings, 1);
    assert_true(clv_device_lost(clv_context_device(w.ctx, 1)));
    clv_session_destroy(s.session);
    close_world(&w);
}

/* Five batches of the prompt, three of them in flight. */
static void test_in_flight(void **state)
{
    (void)state;
    n_flight = 3;
    check("ref.delay_us0=1000", CLV_FAULT_LOST, -1, NEVER, NEVER);
    check("ref.delay_us0=1000", CLV_FAULT_LOST, NEVER, -1, NEVER);
    check("core.wait_timeout=0.2", CLV_FAULT_HANG, NEVER, -1, NEVER);
    check("ref.memory1=local,shadow ref.ops1=attention,set_rows,rope",
          CLV_FAULT_LOST, NEVER, -1, NEVER);
    for (int i = 0; i < 6; i += few() ? 3 : 1)
        check_submit(10 + 9 * i);
    n_flight = 1;
}

static void test_in_the_text(void **state)
{
    (void)state;
    check("", CLV_FAULT_LOST, 7, NEVER, NEVER);
    check("", CLV_FAULT_LOST, NEVER, 7, NEVER);
    if (few())
        return;
    check("", CLV_FAULT_LOST, 0, NEVER, NEVER);
    check("", CLV_FAULT_LOST, NEVER, N_PREDICT - 2, NEVER);
}

/* Devices with own memory lose their part of the cache: its rows are computed
 * again. */
static void test_own_memory(void **state)
{
    (void)state;
    const char *both = "ref.memory0=local,shadow ref.import0=off "
                       "ref.memory1=local,coherent ref.ops0=all";
    const char *one = "ref.memory1=local,shadow "
                      "ref.ops1=attention,set_rows,rope";
    check(both, CLV_FAULT_LOST, 7, NEVER, NEVER);
    check(one, CLV_FAULT_LOST, NEVER, 7, NEVER);
    check(one, CLV_FAULT_LOST, NEVER, -1, NEVER);
    check(one, CLV_FAULT_LOST, 9, 4, NEVER);
}

/* The cache has the layout that the lost device preferred, in its memory or in
 * that of the host. */
#define TRANSPOSED "ref.states1=weights ref.ops1=attention,set_rows,rope "

static void test_laid_out(void **state)
{
    (void)state;
    check(TRANSPOSED, CLV_FAULT_LOST, NEVER, 7, NEVER);
    check(TRANSPOSED "ref.memory1=local,shadow", CLV_FAULT_LOST, NEVER, 7,
          NEVER);
    check(TRANSPOSED "core.wait_timeout=0.2", CLV_FAULT_HANG, NEVER, 7, NEVER);
}

static void test_own_memory_hangs(void **state)
{
    (void)state;
    check("core.wait_timeout=0.2 ref.memory1=local,shadow "
          "ref.ops1=attention,set_rows,rope",
          CLV_FAULT_HANG, NEVER, 7, NEVER);
}

/* One after the other, both at once, and a retry that fails too. */
static void test_twice(void **state)
{
    (void)state;
    check("", CLV_FAULT_LOST, 3, 9, NEVER);
    check("", CLV_FAULT_LOST, 6, 6, NEVER);
    if (few())
        return;
    check("", CLV_FAULT_LOST, 9, 3, NEVER);
    check("", CLV_FAULT_LOST, -1, 5, NEVER);
}

/* A device that stops answering counts as lost; the text continues. */
static void test_hang(void **state)
{
    (void)state;
    const char *limit = "core.wait_timeout=0.2";
    check(limit, CLV_FAULT_HANG, -1, NEVER, NEVER);
    check(limit, CLV_FAULT_HANG, 7, NEVER, NEVER);
    check(limit, CLV_FAULT_HANG, NEVER, 7, NEVER);
    check(limit, CLV_FAULT_HANG, 4, 8, NEVER);
    assert_false(clv_exit_safe());
}

/* The device continues later, and writes to the old memory of the cache. */
static void test_wakes_up(void **state)
{
    (void)state;
    world w;
    story s = {.devices = 7, .at = {NEVER, NEVER, NEVER}};
    open_world(&w, "core.wait_timeout=0.1 ref.ops0=set_rows "
                   "ref.delay_us0=400000");
    s.w = &w;
    assert_ok(tell(&s));
    assert_int_equal(w.n_warnings, 1);
    clv_session_destroy(s.session);
    close_world(&w);
    struct timespec pause = {.tv_nsec = 800000000};
    nanosleep(&pause, NULL);
}

/* Two sessions: a loss that one finds does not disturb the other. */
static void test_two_sessions(void **state)
{
    (void)state;
    world w;
    open_world(&w, "");
    story first = {.w = &w,
                   .devices = 7,
                   .fault = CLV_FAULT_LOST,
                   .at = {5, NEVER, NEVER}};
    const float *logits;
    int32_t id = 1;
    clv_session *other = rig_session(w.model, 64, 4, 0);
    assert_ok(clv_session_eval(other, &id, 1, CLV_LOGITS_LAST, &logits));
    assert_ok(tell(&first));
    assert_ok(clv_session_eval(other, &id, 1, CLV_LOGITS_LAST, &logits));
    assert_int_equal(w.n_warnings, 1);
    clv_session_destroy(other);
    clv_session_destroy(first.session);
    clv_session *named;
    clv_device *lost = clv_context_device(w.ctx, 0);
    const clv_session_params params = {.devices = &lost, .n_devices = 1};
    assert_int_equal(clv_session_create(w.model, &params, &named),
                     CLV_ERR_DEVICE_LOST);
    assert_non_null(strstr(clv_last_error(), "'ref:0' is lost"));
    close_world(&w);
}

/* No device is left: the tokens so far are returned, and an error. */
static void test_none_left(void **state)
{
    (void)state;
    world w;
    open_world(&w, "ref.ops0=all ref.ops1=all");
    story s = {
        .w = &w, .devices = 3, .fault = CLV_FAULT_LOST, .at = {4, 8, NEVER}};
    const float *logits;
    int32_t id = 1;
    assert_int_equal(tell(&s), CLV_ERR_DEVICE_LOST);
    assert_non_null(strstr(clv_last_error(), "ref:1"));
    assert_non_null(strstr(clv_last_error(), "no other device is left"));
    assert_int_equal(s.n_ids, 9);
    assert_int_equal(w.n_warnings, 1);
    assert_int_equal(clv_session_position(s.session), N_PROMPT + 1 + 8);
    assert_int_equal(
        clv_session_eval(s.session, &id, 1, CLV_LOGITS_LAST, &logits),
        CLV_ERR_DEVICE_LOST);
    assert_non_null(strstr(clv_last_error(), "no device"));
    clv_session_destroy(s.session);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_the_prompt),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_in_the_text),
        cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_laid_out),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_two_sessions),
        cmocka_unit_test(test_none_left),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_own_memory_hangs),
        cmocka_unit_test(test_wakes_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
