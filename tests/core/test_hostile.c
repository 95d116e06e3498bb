/*
 * The host and the hostile plugin, with the CPU's beside it. Whatever the one
 * does, the host says so, with its name and the slot's; and a graph still runs
 * on the other in the same context.
 */
#include "test.h"

#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N 5
#define C 8

/* Where the host notices. */
typedef enum noticed {
    REFUSED, /* when the plugin or its devices are opened */
    PLAN,    /* when a plan is made */
    EXEC,    /* when its programs are */
    RUN,     /* in a run */
    NEVER,   /* it does no harm: results are right */
    WRONG,   /* it cannot: results may be wrong. The kit is for these */
} noticed;

typedef struct hostility {
    const char *mode;
    noticed at;
    const char *says; /* parts of the message, "a|b" */
} hostility;

typedef struct fixture {
    clv_config *config;
    clv_context *ctx;
    clv_tensor *w;
    float weights[C * C];
} fixture;

static fixture begin(const char *mode, const char *settings)
{
    fixture f;
    char text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    snprintf(
        text, sizeof text,
        "core.plugin_dirs=%s/tests/plugins/hostile:%s/plugins "
        "core.cache_dir= core.allow_unsafe_plugins=on core.log_level=error "
        "core.plugins=hostile,cpu core.plan=first core.wait_timeout=1 "
        "hostile.mode=%s %s",
        build, build, mode, settings);
    assert_ok(clv_config_create(&f.config));
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(f.config, word, "test"));
    clv_context_params params = {.config = f.config};
    assert_ok(clv_context_create(&params, &f.ctx));
    assert_ok(clv_tensor_create(f.ctx, CLV_DTYPE_F32, 2,
                                (const int64_t[]){C, C}, &f.w));
    test_random r = {1};
    for (int i = 0; i < C * C; i++)
        f.weights[i] = test_float(&r);
    memcpy(clv_tensor_data(f.w), f.weights, sizeof f.weights);
    return f;
}

static void finish(fixture *f)
{
    clv_tensor_destroy(f->w);
    clv_context_destroy(f->ctx);
    clv_config_destroy(f->config);
}

/* ------------------------------------------------------------------------ */
/* silu(x w^T) + x                                                            */

static bool result_is_right(const fixture *f, const float *x, const float *y)
{
    for (int i = 0; i < N; i++) {
        for (int o = 0; o < C; o++) {
            double sum = 0;
            for (int c = 0; c < C; c++)
                sum += (double)x[i * C + c] * (double)f->weights[o * C + c];
            sum = sum / (1 + exp(-sum)) + (double)x[i * C + o];
            if (!(fabs((double)y[i * C + o] - sum) < 1e-5))
                return false;
        }
    }
    return true;
}

static clv_status run_thrice(const fixture *f, clv_exec *exec, clv_value in,
                             clv_value out, bool *right)
{
    const int64_t n = N;
    test_random r = {2};
    clv_status status = CLV_OK;
    *right = true;
    for (int run = 0; run < 3 && !status; run++) {
        float *x = clv_tensor_data(clv_exec_tensor(exec, in));
        for (int i = 0; i < N * C; i++)
            x[i] = test_float(&r);
        status = clv_exec_run(exec, &n, 1);
        if (!status)
            *right &= result_is_right(
                f, x, clv_tensor_data(clv_exec_tensor(exec, out)));
    }
    return status;
}

/* On these devices, NULL: all. How far it went, with status and message. */
static noticed try_graph(const fixture *f, clv_device *only, clv_status *status)
{
    clv_graph *g;
    clv_plan *plan = NULL;
    clv_exec *exec = NULL;
    bool right = false;
    assert_ok(clv_graph_create(&g));
    clv_dim rows = clv_graph_symbol(g, "n", 1, N);
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2,
                                  (clv_dim[]){rows, clv_dim_fixed(C)});
    clv_value h =
        clv_graph_matmul(g, x, clv_graph_weight(g, "w", f->w), CLV_NO_TENSOR);
    clv_value y = clv_graph_add(g, clv_graph_silu(g, h), x);
    clv_graph_output(g, y, "y");
    clv_plan_params params = {.devices = &only, .n_devices = 1};
    noticed at = PLAN;
    *status = clv_plan_create(f->ctx, g, only ? &params : NULL, &plan);
    if (!*status) {
        at = EXEC;
        *status = clv_exec_create(plan, &exec);
    }
    if (!*status) {
        at = RUN;
        *status = run_thrice(f, exec, x, y, &right);
    }
    if (!*status)
        at = right ? NEVER : WRONG;
    char message[1024];
    snprintf(message, sizeof message, "%s", clv_last_error());
    clv_exec_destroy(exec);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    if (*status)
        clv_error(*status, "%s", message);
    return at;
}

/* ------------------------------------------------------------------------ */

static const clv_candidate *candidate(const fixture *f)
{
    for (uint32_t i = 0; i < clv_context_candidate_count(f->ctx); i++) {
        const clv_candidate *c = clv_context_candidate(f->ctx, i);
        if (strstr(c->path, "cleave_hostile.so"))
            return c;
    }
    fail_msg("the hostile plugin was not found");
    return NULL;
}

static bool is_open(const fixture *f)
{
    for (uint32_t i = 0; i < clv_context_device_count(f->ctx); i++)
        if (!strcmp(clv_device_plugin(clv_context_device(f->ctx, i)),
                    "hostile"))
            return true;
    return false;
}

static void cpu_goes_on(const fixture *f, const char *mode)
{
    clv_device *cpu;
    clv_status status;
    assert_ok(clv_context_find_device(f->ctx, "cpu", &cpu));
    if (try_graph(f, cpu, &status) != NEVER)
        fail_msg("%s: the CPU does not go on: %s", mode, clv_last_error());
}

static void check(const hostility *h, const char *settings)
{
    static const char *const names[] = {"refused", "plan",  "exec",
                                        "run",     "never", "wrong"};
    fixture f = begin(h->mode, settings);
    const clv_candidate *c = candidate(&f);
    clv_status status = c->status;
    noticed at = REFUSED;
    if (is_open(&f))
        at = try_graph(&f, NULL, &status);
    else
        clv_error(status, "%s", c->reason);
    if (at != h->at && !(h->at == WRONG && at == NEVER))
        fail_msg("%s: noticed %s, not %s: %s", h->mode, names[at], names[h->at],
                 status ? clv_last_error() : "all went well");
    if (at < NEVER) {
        assert_int_not_equal(status, CLV_OK);
        assert_message(h->says);
    }
    cpu_goes_on(&f, h->mode);
    finish(&f);
}

/* Modes in which memory is overwritten or lost, or the process ends, are left
 * to the trial below and to the kit. */
static const hostility lies[] = {
    {"none", NEVER, ""},
    {"count_huge", REFUSED, "enumerate answered 1000000000 devices"},
    {"count_grows", NEVER, ""},
    {"id_endless", REFUSED,
     "plugin 'hostile'|the id of device 0 has characters other than"},
    {"id_odd", REFUSED,
     "plugin 'hostile'|the id of device 0 has characters other than"},
    {"id_same", REFUSED, "enumerate answered one id for devices 0 and 1"},
    {"name_endless", NEVER, ""},
    {"kind_unknown", NEVER, ""},
    {"clock_unknown", REFUSED,
     "device 'hostile:0'|enumerate answered the unknown clock 7"},
    {"mem_types_none", REFUSED,
     "device 'hostile:0'|enumerate answered 0 memory types, where"},
    {"mem_types_many", REFUSED,
     "device 'hostile:0'|enumerate answered 1000000 memory types,"},
    {"mem_types_differ", REFUSED,
     "device 'hostile:0'|mem_types answered 5 types, its description 4"},
    {"mem_align_odd", REFUSED,
     "device 'hostile:0'|mem_types answered an alignment of type 0"},
    {"mem_import_align_odd", REFUSED,
     "device 'hostile:0'|mem_types answered an alignment of type 0"},
    {"answer_unknown", PLAN,
     "device 'hostile:0'|op_caps answered an unknown answer for node 0"},
    {"class_unknown", PLAN,
     "device 'hostile:0'|op_caps answered an unknown error class for"},
    {"range_empty", PLAN,
     "device 'hostile:0'|op_caps answered an impossible range of an"},
    {"range_negative", PLAN,
     "device 'hostile:0'|op_caps answered an impossible range of an"},
    {"align_odd", PLAN,
     "device 'hostile:0'|op_caps answered an alignment that is no"},
    {"stride_odd", PLAN,
     "device 'hostile:0'|op_caps answered an alignment that is no"},
    {"granularity_negative", PLAN,
     "device 'hostile:0'|op_caps answered a negative split granularity"},
    {"variants_many", PLAN,
     "device 'hostile:0'|op_caps answered more variants"},
    {"variants_empty", PLAN,
     "device 'hostile:0'|op_caps answered a variant without an id"},
    {"variants_class", PLAN,
     "device 'hostile:0'|op_caps answered a variant of an unknown"},
    {"variants_name", PLAN,
     "device 'hostile:0'|op_caps answered a variant without an id"},
    {"variants_twice", PLAN,
     "device 'hostile:0'|op_caps answered two variants of one"},
    {"variants_false", NEVER, ""},
    {"granularity_false", NEVER, ""},
    {"static_zero", PLAN,
     "device 'hostile:0'|op_caps answered a static shape that is not"},
    {"static_none", PLAN,
     "device 'hostile:0'|op_caps answered static shapes without a list"},
    {"no_reason", NEVER, ""},
    {"reason_endless", NEVER, ""},
    {"impure", NEVER, ""},
    {"alias_claimed", WRONG, ""},
    {"exact_claimed", NEVER, ""},
    {"takes_all", NEVER, ""},
    {"never_compiles", EXEC,
     "device 'hostile:0'|this is not possible after all"},
    {"wants_alignment", WRONG, ""},
    {"map_null", NEVER, ""},
    {"import_copies", WRONG, ""},
    {"wrong_result", WRONG, ""},
    {"not_repeatable", WRONG, ""},
    {"changes_input", WRONG, ""},
    {"flag_null", EXEC,
     "device 'hostile:0'|timeline_query answered no flag word, or a"},
    {"flag_misaligned", EXEC,
     "device 'hostile:0'|timeline_query answered no flag word, or a"},
    {"flag_disagrees", NEVER, ""},
    {"value_failed", EXEC,
     "device 'hostile:0'|timeline_query answered a value that uses the"},
    {"message_endless", NEVER, ""},
    {"backwards", WRONG, ""},
    {"wait_ends_at_once", RUN,
     "device 'hostile:0'|timeline_wait answered that step |is done, its time"},
    {"times_out_at_once", NEVER, ""},
    {"wait_other_status", NEVER, ""},
    {"fail_ignored", NEVER, ""},
    {"never_signals", RUN,
     "device 'hostile:0'|the step did not end within 1 s"},
    {"ignores_waits", NEVER, ""},
    {"queue_short", NEVER, ""},
    {"submit_blocks", NEVER, ""},
    {"lost_in_run", RUN, "device 'hostile:0'|the device was lost"},
    {"one_program", NEVER, ""},
    {"untouched_null", EXEC,
     "device 'hostile:0'|program_info answered 1 untouched tensors in an"},
    {"untouched_input", EXEC,
     "device 'hostile:0'|program_info answered tensor 0 as untouched, which"},
    {"untouched_false", RUN, "is not bound"},
    {"tick_nan", NEVER, ""},
    {"leak_fd", NEVER, ""},
    {"error:create", REFUSED, "hostile: create fails as told"},
    {"silent:create", REFUSED, "create failed: internal error"},
    {"status:create", REFUSED, "create answered the unknown status -99"},
    {"empty:create", REFUSED, "create answered no instance"},
    {"error:quiesce", NEVER, ""},
    {"silent:quiesce", NEVER, ""},
    {"error:enumerate", REFUSED, "hostile: enumerate fails as told"},
    {"status:enumerate", REFUSED, "enumerate answered the unknown status -99"},
    {"error:device_open", REFUSED,
     "device 'hostile:0'|device_open fails as told"},
    {"silent:device_open", REFUSED,
     "device 'hostile:0'|device_open failed: internal error"},
    {"status:device_open", REFUSED,
     "device 'hostile:0'|device_open answered the unknown status -99"},
    {"empty:device_open", REFUSED,
     "device 'hostile:0'|device_open answered no device"},
    {"error:mem_types", REFUSED, "device 'hostile:0'|mem_types fails as told"},
    {"status:mem_types", REFUSED,
     "device 'hostile:0'|mem_types answered the unknown status -99"},
    {"error:op_caps", PLAN, "device 'hostile:0'|op_caps fails as told"},
    {"silent:op_caps", PLAN,
     "device 'hostile:0'|op_caps failed: internal error"},
    {"status:op_caps", PLAN,
     "device 'hostile:0'|op_caps answered the unknown status -99"},
    {"empty:op_caps", NEVER, ""},
    {"error:buffer_import", EXEC,
     "device 'hostile:0'|buffer_import fails as told"},
    {"silent:buffer_import", EXEC,
     "device 'hostile:0'|buffer_import failed: internal error"},
    {"status:buffer_import", EXEC,
     "device 'hostile:0'|buffer_import answered the unknown status -99"},
    {"empty:buffer_import", EXEC,
     "device 'hostile:0'|buffer_import answered no buffer"},
    {"error:timeline_create", EXEC,
     "device 'hostile:0'|timeline_create fails as told"},
    {"status:timeline_create", EXEC,
     "device 'hostile:0'|timeline_create answered the unknown status"},
    {"empty:timeline_create", EXEC,
     "device 'hostile:0'|timeline_create answered no timeline"},
    {"error:timeline_query", EXEC,
     "device 'hostile:0'|timeline_query fails as told"},
    {"silent:timeline_query", EXEC,
     "device 'hostile:0'|timeline_query failed: internal error"},
    {"empty:timeline_query", EXEC,
     "device 'hostile:0'|timeline_query answered no flag word, or a"},
    {"error:timeline_wait", RUN,
     "device 'hostile:0'|timeline_wait fails as told"},
    {"silent:timeline_wait", RUN,
     "device 'hostile:0'|timeline_wait failed: internal error"},
    {"status:timeline_wait", RUN,
     "device 'hostile:0'|timeline_wait answered the unknown status -99"},
    {"error:program_compile", EXEC,
     "device 'hostile:0'|program_compile fails as told"},
    {"silent:program_compile", EXEC,
     "device 'hostile:0'|program_compile failed: internal error"},
    {"status:program_compile", EXEC,
     "device 'hostile:0'|program_compile answered the unknown status"},
    {"empty:program_compile", EXEC,
     "device 'hostile:0'|program_compile answered no program"},
    {"error:program_info", EXEC,
     "device 'hostile:0'|program_info fails as told"},
    {"status:program_info", EXEC,
     "device 'hostile:0'|program_info answered the unknown status -99"},
    {"error:submit", RUN, "device 'hostile:0'|submit fails as told"},
    {"silent:submit", RUN, "device 'hostile:0'|submit failed: internal error"},
    {"status:submit", RUN,
     "device 'hostile:0'|submit answered the unknown status -99"},
    {"empty:submit", RUN, "device 'hostile:0'|the step did not end within 1 s"},
};

static void test_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        check(&lies[i], "core.probe=off");
}

/* Plugins that take the process with them, tried in one of their own. */
static const hostility killers[] = {
    {"crash:create", REFUSED, " in create when tried"},
    {"abort:create", REFUSED, " in create when tried"},
    {"exit:create", REFUSED, "ended the process| in create when tried"},
    {"hang:create", REFUSED, "did not end within 2 s (core.probe_timeout)"},
    {"crash:enumerate", REFUSED, " in enumerate when tried"},
    {"crash:device_open", REFUSED, " in open when tried"},
    {"crash:program_compile", REFUSED, " in program_compile of hostile:0 when"},
    {"abort:submit", REFUSED, "SIGABRT) in submit of hostile:0 when tried"},
    {"exit:program_compile", REFUSED,
     "ended the process (exit code 0) in program_compile of hostile:0"},
    /* The work may begin before submit has returned: either name is right. */
    {"crash:program_run", REFUSED, " of hostile:0 when tried"},
    {"exit:program_run", REFUSED, "ended the process| of hostile:0 when tried"},
    {"hang:submit", REFUSED, "did not end within 2 s|in submit of hostile:0"},
    {"crash:program_destroy", REFUSED, " in program_destroy of hostile:0"},
    /* What dies at its end is used, and never ended. */
    {"crash:device_close", NEVER, ""},
    {"crash:destroy", NEVER, ""},
    {"hang:quiesce", NEVER, ""},
    {"free_foreign", REFUSED, " in create when tried"},
};

static void test_killers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof killers / sizeof *killers; i++)
        check(&killers[i], "core.probe=always core.probe_timeout=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_killers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
