/*
 * Random mixes of what runs in flight may meet: models, devices, settings, and
 * sessions that take turns or have a thread each, with prompts in chunks of any
 * size. Some are cancelled between two chunks, some lose a device there. Each
 * session's text is that of the processor alone.
 *
 * CLEAVE_TEST_MIXES=N tries N cases, CLEAVE_TEST_SEED begins with another one;
 * a failure names its seed. With the argument "gpu", OpenCL takes part. With
 * "memory", devices have memory of their own for a part of the model: what
 * random plans or the planner hold there, stream there or leave in place
 * changes no text. "memory gpu": there with OpenCL and Vulkan.
 */
#include "cuts.h"
#include "forecast.h"
#include "mixes.h"
#include "temp.h"

#include "../core/drivers.h"

#include "../../core/base/sanitizer.h"
#include "../../core/device/device.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/plan.h"
#include "runtime/runner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define N_CASES 30
#define N_SANITIZED 15
#define N_GPU 12
#define N_SCARCE 6
#define MAX_SESSIONS 3
#define MAX_TEXT 48
#define N_CTX 96
#define HALF 0x1p-22 /* rounding to 11 bits is off by 2^-11 at most */

typedef struct speaker {
    mix *m;
    clv_session *session;
    test_random random;
    clv_device *devices[MIXES_DEVICES];
    uint32_t n_devices;
    int32_t ids[MAX_TEXT];
    uint32_t n_prompt, n_ids, n_done;
    forecast wanted; /* of ids */
    int cancel; /* so many submits until it is cancelled; < 0: not any more */
    bool in_eval;
    uint32_t submits;   /* of the present eval */
    uint32_t n_cancels; /* with chunks in flight */
    bool turned_back;
    bool held, streamed, in_place; /* some weights of its plans */
    char failure[512];             /* "": none */
    pthread_t thread;
} speaker;

static _Thread_local speaker *current;
static atomic_int fuse; /* submits until the victim is lost; < 0: never */
static clv_device *victim;

clv_status __real_llm_runner_submit(llm_runner *runner, uint32_t run,
                                    const llm_input *input);
clv_status __wrap_llm_runner_submit(llm_runner *runner, uint32_t run,
                                    const llm_input *input);
/* Chunks are submitted by another file than runner.c, so each comes by here. */
clv_status __wrap_llm_runner_submit(llm_runner *runner, uint32_t run,
                                    const llm_input *input)
{
    const clv_status status = __real_llm_runner_submit(runner, run, input);
    speaker *s = current;
    if (!s)
        return status;
    s->submits++;
    if (atomic_fetch_sub(&fuse, 1) == 0)
        victim->api->fault_inject(victim->handle, CLV_FAULT_LOST);
    if (s->cancel-- == 0)
        clv_session_cancel(s->session);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Texts                                                                     */

/* The prompt is random, what follows it is what the processor says. */
static void write_text(speaker *s)
{
    mix *m = s->m;
    test_random *r = &s->random;
    const uint32_t n_vocab = m->source->hparams.n_vocab;
    const clv_session_params params = {.n_ctx = N_CTX,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = &m->alone,
                                       .n_devices = 1};
    clv_session *session;
    const float *logits;
    s->n_prompt = 8 + test_below(r, 30);
    s->n_ids = s->n_prompt + 2 + test_below(r, 7);
    tiny_ids(m->source, 1 + test_below(r, 1000), s->ids, s->n_prompt);
    assert_ok(clv_session_create(m->model, &params, &session));
    for (uint32_t done = 0; done < s->n_ids;) {
        const uint32_t n = done ? 1 : s->n_prompt;
        assert_ok(clv_session_eval(session, s->ids + done, n, CLV_LOGITS_LAST,
                                   &logits));
        done += n;
        if (done < s->n_ids)
            s->ids[done] = rig_best(logits, n_vocab);
    }
    clv_session_destroy(session);
}

static bool is_near(const speaker *s, uint32_t position, const float *logits)
{
    const uint32_t n = s->m->source->hparams.n_vocab;
    const float *want = s->wanted.logits + (size_t)position * n;
    const double bound = s->wanted.bounds[position];
    const int32_t a = rig_best(logits, n), b = rig_best(want, n);
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += (double)want[i] * want[i];
    return rig_error(logits, want, n) <= bound &&
           want[b] - want[a] <= 4 * sqrt(bound * total / n);
}

static void compare(speaker *s, uint32_t n, uint32_t which, const float *logits)
{
    const uint32_t n_vocab = s->m->source->hparams.n_vocab;
    const uint32_t n_rows = which == CLV_LOGITS_ALL ? n : 1;
    for (uint32_t i = 0; i < n_rows && !s->failure[0]; i++) {
        const uint32_t position = s->n_done + n - n_rows + i;
        const float *row = logits + (size_t)i * n_vocab;
        if (!is_near(s, position, row))
            snprintf(s->failure, sizeof s->failure,
                     "position %u of %u (prompt %u, %u at once) differs by %g, "
                     "%g is forecast",
                     position, s->n_ids, s->n_prompt, n,
                     rig_error(row,
                               s->wanted.logits + (size_t)position * n_vocab,
                               n_vocab),
                     s->wanted.bounds[position]);
    }
}

/* ------------------------------------------------------------------------ */
/* Sessions                                                                  */

static void fail_with_message(speaker *s, const char *what)
{
    snprintf(s->failure, sizeof s->failure, "%s: %.400s", what,
             clv_last_error());
}

/* Where the latest plan's weights are. */
static void note_weights(speaker *s)
{
    const clv_plan *plan = clv_session_plan(s->session);
    for (uint32_t i = 0; plan && i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        s->streamed |= load->streamed;
        s->in_place |= load->holding == CORE_HOLD_IMPORT;
        s->held |= load->holding == CORE_HOLD_COPY ||
                   load->holding == CORE_HOLD_PRIVATE;
    }
}

/* The next tokens: some of the prompt, one of the text behind it. */
static void go_on(speaker *s)
{
    test_random *r = &s->random;
    const bool prompt = s->n_done < s->n_prompt;
    const uint32_t left = s->n_prompt - s->n_done;
    const uint32_t n = !prompt ? 1 : 1 + test_below(r, left);
    const uint32_t which = test_below(r, 2) ? CLV_LOGITS_ALL : CLV_LOGITS_LAST;
    const float *logits = NULL;
    current = s;
    s->submits = 0;
    const clv_status status =
        clv_session_eval(s->session, s->ids + s->n_done, n, which, &logits);
    current = NULL;
    if (clv_session_position(s->session) != s->n_done + (status ? 0 : n))
        snprintf(s->failure, sizeof s->failure, "at position %u instead of %u",
                 clv_session_position(s->session), s->n_done);
    else if (status == CLV_ERR_CANCELLED && s->cancel < 0)
        s->n_cancels += s->submits > 0;
    else if (status)
        fail_with_message(s, "eval");
    else
        compare(s, n, which, logits);
    s->n_done += status ? 0 : n;
    note_weights(s);
}

/* Once, what is in the cache is overwritten. */
static void turn_back(speaker *s)
{
    const uint32_t to = test_below(&s->random, s->n_done);
    s->turned_back = true;
    if (clv_session_truncate(s->session, to))
        fail_with_message(s, "truncate");
    s->n_done = to;
}

static bool is_over(const speaker *s)
{
    return s->failure[0] || s->n_done == s->n_ids;
}

static void take_turn(speaker *s)
{
    if (!s->turned_back && s->n_done && test_below(&s->random, 6) == 0)
        turn_back(s);
    else
        go_on(s);
}

static void *speak(void *arg)
{
    speaker *s = arg;
    while (!is_over(s))
        take_turn(s);
    return NULL;
}

/* A plan at random for runs of n tokens, as JSON; NULL if a device has no part
 * in it. */
static char *make_plan(speaker *s, clv_session *whole, uint32_t n)
{
    const clv_plan *plan;
    assert_ok(clv_session_prepare(whole, n, &plan));
    cuts c = {.graph = plan->source,
              .devices = s->devices,
              .n_devices =
                  s->n_devices < CUTS_DEVICES ? s->n_devices : CUTS_DEVICES,
              .kind = CUTS_RANDOM,
              .random = &s->random,
              .lanes = s->m->options.scarce ? &s->random : NULL};
    for (uint32_t d = 0; d < c.n_devices; d++)
        for (uint32_t op = 0; op < CLV_OP_COUNT; op++)
            c.takes[d][op] = true;
    char *json = cuts_make(&c);
    cuts_finish(&c);
    return json;
}

/* A device does not take its piece, or its memory is too small for the plan. */
static bool is_refused(const speaker *s, clv_status status)
{
    return status == CLV_ERR_UNSUPPORTED ||
           (s->m->options.scarce &&
            (status == CLV_ERR_LIMIT || status == CLV_ERR_NO_MEMORY));
}

/* Where the plans are refused, without. */
static void open_planned(speaker *s, clv_session_params *params)
{
    const clv_plan *plan;
    char *plans[2] = {make_plan(s, s->session, params->n_batch),
                      make_plan(s, s->session, 1)};
    clv_session *planned;
    params->plans = (const char *const *)plans;
    params->n_plans = 2;
    assert_ok(clv_session_create(s->m->model, params, &planned));
    clv_status status = clv_session_prepare(planned, params->n_batch, &plan);
    if (!status)
        status = clv_session_prepare(planned, 1, &plan);
    if (status && !is_refused(s, status))
        fail_with_message(s, "plan");
    clv_session_destroy(status ? planned : s->session);
    s->session = status ? s->session : planned;
    free(plans[0]);
    free(plans[1]);
}

/* Some devices of the mix in any order, the first of those that take all of the
 * nodes among them, and it is never lost. */
static void choose_devices(speaker *s)
{
    mix *m = s->m;
    for (uint32_t i = 0; i < m->n_devices; i++) {
        if (i && test_below(&s->random, 4) == 0)
            continue;
        /* Without plans, the first one has all the work. */
        const bool first = i && m->options.scarce;
        const uint32_t at =
            first + test_below(&s->random, ++s->n_devices - first);
        s->devices[s->n_devices - 1] = s->devices[at];
        s->devices[at] = m->devices[i];
    }
}

static void open_speaker(speaker *s, mix *m)
{
    test_random *r = &m->random;
    *s = (speaker){.m = m, .random = {test_bits(r)}, .cancel = -1};
    r = &s->random;
    choose_devices(s);
    write_text(s);
    clv_session_params params = {
        .n_ctx = N_CTX,
        .n_batch = MIX_PICK(r, 1, 2, 3, 4, 6, 8),
        .n_flight = MIX_PICK(r, 0, 1, 2, 3, 4, 5, 8),
        .kv_dtype = m->tiny.n_experts
                        ? CLV_DTYPE_F32
                        : MIX_PICK(r, CLV_DTYPE_F32, CLV_DTYPE_F16),
        .devices = s->devices,
        .n_devices = s->n_devices,
    };
    tiny_errors errors = m->errors;
    errors.cache = params.kv_dtype == CLV_DTYPE_F16 ? HALF : 0;
    forecast_make(&s->wanted, m->source, s->ids, s->n_ids, &errors);
    s->cancel = test_below(r, 4) ? -1 : (int)test_below(r, 8);
    assert_ok(clv_session_create(m->model, &params, &s->session));
    const bool able = m->n_able == m->n_devices && s->n_devices > 1;
    const bool only = m->options.scarce && !m->is_virtual && !m->is_measured;
    if (able && (only || test_below(r, 2)))
        open_planned(s, &params);
}

static void close_speaker(speaker *s)
{
    clv_session_destroy(s->session);
    forecast_free(&s->wanted);
}

/* ------------------------------------------------------------------------ */
/* Cases                                                                     */

typedef struct counts {
    uint32_t threaded, lost, cancelled, in_virtual_time;
    uint32_t held, streamed, mixed; /* sessions with weights of this kind, and
                                       with all three */
} counts;

static void take_turns(mix *m, speaker *list, uint32_t n)
{
    uint32_t left = n;
    while (left) {
        speaker *s = &list[test_below(&m->random, n)];
        if (is_over(s))
            continue;
        take_turn(s);
        left -= is_over(s);
    }
}

static void all_at_once(speaker *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&list[i].thread, NULL, speak, &list[i]),
                         0);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_join(list[i].thread, NULL), 0);
}

/* The first device that takes all stays. */
static void choose_victim(mix *m)
{
    const bool loses = m->n_devices > 1 && test_below(&m->random, 3) == 0;
    victim =
        loses ? m->devices[1 + test_below(&m->random, m->n_devices - 1)] : NULL;
    if (victim && (!victim->api->fault_inject || victim == m->alone))
        victim = NULL;
    atomic_store(&fuse, victim ? (int)test_below(&m->random, 24) : -1);
}

static void try_case(uint64_t seed, const mix_options *options, counts *c)
{
    mix m;
    speaker list[MAX_SESSIONS];
    char failure[512] = "";
    mix_open(&m, seed, options);
    /* What a session runs in is not there before its first run, so another
     * one's plans may not leave it room. */
    const uint32_t n =
        options->scarce ? 1 : 1 + test_below(&m.random, MAX_SESSIONS);
    for (uint32_t i = 0; i < n; i++)
        open_speaker(&list[i], &m);
    choose_victim(&m);
    const bool threaded = n > 1 && test_below(&m.random, 3);
    if (threaded)
        all_at_once(list, n);
    else
        take_turns(&m, list, n);
    uint32_t n_cancels = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].failure[0] && !failure[0])
            snprintf(failure, sizeof failure, "session %u: %.480s", i,
                     list[i].failure);
        n_cancels += list[i].n_cancels;
        c->held += list[i].held;
        c->streamed += list[i].streamed;
        c->mixed += list[i].held && list[i].streamed && list[i].in_place;
    }
    c->threaded += threaded;
    c->lost += victim && clv_device_lost(victim);
    c->cancelled += n_cancels > 0;
    c->in_virtual_time += m.is_virtual;
    if (failure[0])
        fail_msg("CLEAVE_TEST_SEED=%llu: %s\n%s", (unsigned long long)seed,
                 failure, m.text);
    for (uint32_t i = 0; i < n; i++)
        close_speaker(&list[i]);
    mix_close(&m);
}

static mix_options options;

static int usual_number(void)
{
    if (options.scarce)
        return N_SCARCE;
    return options.opencl ? N_GPU : core_sanitizers() ? N_SANITIZED : N_CASES;
}

static void test_mixes(void **state)
{
    (void)state;
    const char *wanted = getenv("CLEAVE_TEST_MIXES");
    const char *seed = getenv("CLEAVE_TEST_SEED");
    const uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
    const int n = wanted ? atoi(wanted) : usual_number();
    counts c = {0};
    temp cache;
    temp_init(&cache);
    options.cache = cache.dir;
    for (int i = 0; i < n; i++)
        try_case(first + (uint64_t)i, &options, &c);
    printf("%d mixes: %u in simulated time, %u in threads, %u lost a device, "
           "%u were cancelled\n",
           n, c.in_virtual_time, c.threaded, c.lost, c.cancelled);
    printf("sessions whose devices held weights: %u, to which weights were "
           "streamed: %u, both beside weights in place: %u\n",
           c.held, c.streamed, c.mixed);
    temp_finish(&cache);
    if (n >= N_SANITIZED && !options.scarce)
        assert_true(c.in_virtual_time && c.threaded && c.cancelled);
    if (n >= N_SCARCE && options.scarce)
        assert_true(c.held && c.streamed && c.mixed);
}

static bool has_argument(int argc, char **argv, const char *text)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], text))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixes)};
    static char opencl[TEST_DEVICE_ID], vulkan[TEST_DEVICE_ID];
    options.scarce = has_argument(argc, argv, "memory");
    if (has_argument(argc, argv, "gpu")) {
        test_find_driver("opencl", opencl);
        options.opencl = opencl;
    }
    if (options.scarce && options.opencl) {
        test_find_driver("vulkan", vulkan);
        options.vulkan = vulkan;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
