/*
 * core.objective = prompt:generated chooses which weights a device holds that
 * does not hold all: on a simulated machine whose card holds half of a model
 * with a large head. With the argument "all", plans follow in each order.
 */
#include "rig.h"
#include "temp.h"

#include "runtime/session.h"
#include "../../core/exec/exec.h"
#include "../../core/plan/plan.h"
#include "../../planner/plan_cache.h"

#include <math.h>
#include <stdio.h>

#define N_BATCH 512

/* What a session's plans take, and what they are. */
typedef struct phases {
    uint32_t first;
    double prompt_ns, one_ns;
    uint64_t prompt, one; /* identities */
} phases;

static bool all; /* the argument */
static temp cache;

/* The model on a card that does not hold it all, or does. */
static void open_model(rig_world *w, const char *name, const char *more,
                       clv_model **model)
{
    char settings[512];
    snprintf(settings, sizeof settings,
             "core.plugins=npu_sim npu_sim.compute=off core.plan=auto "
             "core.profile=auto core.cache_dir=%s %s",
             cache.dir, more);
    rig_open(w, "soc/small-card.ini", settings);
    assert_ok(clv_model_load(w->ctx, name, NULL, model));
}

static clv_session *open_session(rig_world *w, const char *objective,
                                 clv_model **model)
{
    char more[64];
    snprintf(more, sizeof more, "npu_sim:card.memory=1500 core.objective=%s",
             objective);
    open_model(w, "synth:gemma-2b:q8_0:zero", more, model);
    return rig_session(*model, 4096, N_BATCH, CLV_DTYPE_F16);
}

static phases look(const char *objective)
{
    rig_world w;
    clv_model *model;
    const clv_plan *plan;
    phases p;
    clv_session *s = open_session(&w, objective, &model);
    assert_ok(clv_session_first(s, &p.first));
    assert_ok(clv_session_prepare(s, 1, &plan));
    p.one = plan->identity;
    p.one_ns = clv_plan_summarise(plan).predicted_ns;
    assert_ok(clv_session_prepare(s, N_BATCH, &plan));
    p.prompt = plan->identity;
    p.prompt_ns = clv_plan_summarise(plan).predicted_ns;
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
    return p;
}

static double time_of(const phases *p, uint32_t prompt, uint32_t generated)
{
    return p->prompt_ns * prompt / N_BATCH + p->one_ns * generated;
}

/* Each is the best one for its own text, and single tokens come first where
 * nothing else is said. */
static void test_texts(void **state)
{
    (void)state;
    const phases prompts = look("2048:16"), tokens = look("0,512:512");
    print_message(
        "2048:16: %.3f s, %.3f with single tokens first; 512:512: "
        "%.3f s, %.3f with prompts first\n",
        time_of(&prompts, 2048, 16) * 1e-9, time_of(&tokens, 2048, 16) * 1e-9,
        time_of(&tokens, 512, 512) * 1e-9, time_of(&prompts, 512, 512) * 1e-9);
    assert_int_equal(tokens.first, 1);
    assert_int_equal(prompts.first, N_BATCH);
    assert_true(prompts.one != tokens.one && prompts.prompt != tokens.prompt);
    assert_true(time_of(&prompts, 2048, 16) <
                0.98 * time_of(&tokens, 2048, 16));
    assert_true(time_of(&tokens, 512, 512) < time_of(&prompts, 512, 512));
    if (!all)
        return;
    const phases plain = look("0"); /* by what all of them measured */
    assert_int_equal(plain.first, 1);
    assert_true(tokens.one == plain.one && tokens.prompt == plain.prompt);
}

static clv_plan *plan_after(clv_context *ctx, const llm_runner *runner,
                            const clv_workspace *workspace,
                            const clv_plan *after)
{
    clv_plan *plan;
    assert_ok(clv_plan_create(
        ctx, runner->graph,
        &(clv_plan_params){.workspace = workspace, .after = after}, &plan));
    planner_plan_cache_forget(plan); /* each is searched for */
    return plan;
}

/* Whether a runner's plan after that of another one is the same before that is
 * compiled and then: both are searched for. */
static bool is_same(clv_context *ctx, const llm_runner *first,
                    const llm_runner *later)
{
    clv_workspace *workspace;
    clv_exec *exec;
    assert_ok(clv_workspace_create(ctx, &workspace));
    clv_plan *before = plan_after(ctx, first, workspace, NULL);
    clv_plan *alone = plan_after(ctx, later, workspace, NULL);
    clv_plan *supposed = plan_after(ctx, later, workspace, before);
    assert_ok(clv_exec_create_in(before, workspace, &exec));
    clv_plan *real = plan_after(ctx, later, workspace, NULL);
    const bool same = clv_plan_equal(supposed, real);
    assert_false(clv_plan_equal(supposed, alone));
    clv_exec_destroy(exec);
    clv_plan_destroy(real);
    clv_plan_destroy(supposed);
    clv_plan_destroy(alone);
    clv_plan_destroy(before);
    clv_workspace_destroy(workspace);
    return same;
}

static void test_after(void **state)
{
    (void)state;
    static const llm_shape shapes[] = {{.n_tokens = 1, .fixed = true},
                                       {.n_tokens = N_BATCH}};
    for (int first = 0; first < (all ? 2 : 1); first++) {
        rig_world w;
        clv_model *model;
        llm_kv_cache kv;
        llm_runner *a, *b;
        clv_session_destroy(open_session(&w, "0", &model));
        assert_ok(
            llm_kv_cache_init(&kv, w.ctx, model->hp, 4096, 1, CLV_DTYPE_F16));
        assert_ok(llm_runner_create(model, &kv, &shapes[first], &a));
        assert_ok(llm_runner_create(model, &kv, &shapes[!first], &b));
        /* Making plans measures what they rely on, once. */
        assert_true(is_same(w.ctx, a, b) || is_same(w.ctx, a, b));
        llm_runner_destroy(b);
        llm_runner_destroy(a);
        llm_kv_cache_finish(&kv);
        clv_model_destroy(model);
        rig_close(&w);
    }
}

/* The lead is chosen again after a run that showed other costs, and not for
 * ever. */
static void test_other_costs(void **state)
{
    (void)state;
    rig_world w;
    clv_model *model;
    const clv_plan *plan;
    uint32_t first;
    clv_session *s = open_session(&w, "2048:16", &model);
    llm_runners *r = &s->runners;
    assert_ok(clv_session_prepare(s, N_BATCH, &plan));
    assert_int_equal(r->lead.n, N_BATCH);
    r->lead.n_choices = 2;
    for (int times = 0; times < 2; times++) {
        r->lead.n = r->lead.n_tokens = 1; /* as if it had been chosen */
        r->items[0]->learned = CLV_LEARNED_LITTLE;
        assert_ok(clv_session_prepare(s, 1, &plan));
        assert_ok(clv_session_first(s, &first));
        assert_int_equal(first, 1);
        r->items[0]->learned = CLV_LEARNED_COSTS;
        assert_ok(clv_session_prepare(s, N_BATCH, &plan));
        assert_ok(clv_session_first(s, &first));
        assert_int_equal(first, times ? 1 : N_BATCH);
    }
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
}

static uint32_t usual_batch(clv_model *model, uint32_t n_ctx, uint32_t asked)
{
    clv_session *s = rig_session(model, n_ctx, asked, CLV_DTYPE_F16);
    clv_batches batches;
    assert_ok(clv_session_batches(s, n_ctx, &batches));
    clv_session_destroy(s);
    return batches.n_batch;
}

/* Nobody asked for a length: longer batches than usual, if the card has room
 * for what they work on, but not where all logits are asked for. */
static void test_long_batches(void **state)
{
    (void)state;
    static const char name[] = "synth:llama-1b:f16:zero";
    rig_world w;
    clv_model *model;
    int32_t ids[700] = {0};
    const float *logits;
    open_model(&w, name, "npu_sim:card.memory=1100", &model);
    assert_int_equal(usual_batch(model, 4096, 0), 1024);
    assert_int_equal(usual_batch(model, 4096, 256), 256);
    assert_int_equal(usual_batch(model, 256, 0), 256);
    clv_session *s = rig_session(model, 4096, 0, CLV_DTYPE_F16);
    assert_ok(clv_session_eval(s, ids, 700, CLV_LOGITS_LAST, &logits));
    assert_int_equal(s->latest->shape.n_tokens, 1024);
    assert_ok(clv_session_truncate(s, 0));
    assert_ok(clv_session_eval(s, ids, 512, CLV_LOGITS_ALL, &logits));
    assert_int_equal(s->latest->shape.n_tokens, 512);
    assert_ok(clv_session_eval(s, ids, 700, CLV_LOGITS_ALL, &logits));
    assert_true(s->latest->shape.n_tokens <= 512);
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
    open_model(&w, name, "npu_sim:card.memory=8192", &model);
    s = rig_session(model, 4096, 0, CLV_DTYPE_F16);
    assert_int_equal(s->n_batch, 512); /* it holds all weights */
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
}

/* Work there begins and ends so slowly that single tokens have the first layers
 * on the card and the others not. A prompt, which has all layers' attention
 * there, finds room for its cache and for weights that pass through. */
static void test_few_exchanges(void **state)
{
    (void)state;
    rig_world w;
    clv_model *model;
    const clv_plan *plan;
    uint32_t n_streamed = 0;
    open_model(&w, "synth:llama-1b:f16:zero",
               "npu_sim:card.memory=1500 npu_sim:card.submit_us=600 "
               "npu_sim:card.wait_poll_us=300 npu_sim:card.wait_block_us=300",
               &model);
    clv_session *s = rig_session(model, 16384, 1024, CLV_DTYPE_F16);
    assert_ok(clv_session_prepare(s, 1, &plan));
    const double one_ns = clv_plan_summarise(plan).predicted_ns;
    assert_ok(clv_session_prepare(s, 1024, &plan));
    print_message("%.1f and %.1f ms\n", one_ns * 1e-6,
                  clv_plan_summarise(plan).predicted_ns * 1e-6);
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        n_streamed += plan->pieces[i].streamed;
    assert_true(n_streamed > 0);
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
}

/* Of one token, virtual ns. */
static double token_ns(clv_session *s)
{
    const int32_t id = 0;
    const float *logits;
    assert_ok(clv_session_eval(s, &id, 1, CLV_LOGITS_LAST, &logits));
    return s->latest->exec->latest.ns;
}

/* Weights for single tokens lie where batches work, and are copied there again
 * after one. */
static void test_kept(void **state)
{
    (void)state;
    static int32_t ids[1024];
    rig_world w;
    clv_model *model;
    const clv_plan *plan;
    const float *logits;
    uint32_t n_kept = 0;
    open_model(&w, "synth:llama-1b:f16:zero",
               "npu_sim:card.memory=1500 npu_sim:card.copy_queues=1", &model);
    clv_session *s = rig_session(model, 4096, 1024, CLV_DTYPE_F16);
    assert_ok(clv_session_prepare(s, 1, &plan));
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        n_kept += plan->pieces[i].streamed == CORE_STREAM_ONCE;
    const clv_device *card = clv_context_device(w.ctx, 0);
    const clv_memory_use use = clv_plans_memory(&plan, 1, NULL, card);
    const double predicted = clv_plan_summarise(plan).predicted_ns;
    print_message("%u pieces, %.1f MB kept, %.1f streamed\n", n_kept,
                  (double)use.kept * 1e-6, (double)use.streamed * 1e-6);
    assert_true(n_kept > 0 && use.kept > 0 && use.kept < use.values);
    token_ns(s); /* plans may change after it */
    double first = 0, second = 0;
    for (int i = 0; i < 2; i++) {
        assert_ok(clv_session_eval(s, ids, 1024, CLV_LOGITS_LAST, &logits));
        first = token_ns(s);
        second = token_ns(s);
        print_message("%.1f, then %.1f ms\n", first * 1e-6, second * 1e-6);
        assert_true(first > 1.1 * second);
        assert_true(fabs(token_ns(s) / second - 1) < 0.01);
    }
    assert_true(second < 1.1 * predicted);
    clv_session_destroy(s);
    clv_model_destroy(model);
    rig_close(&w);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const char *const values[] = {
        "",          "2",         "-1",    "a:b",  "2048:",
        ":16",       "0:0",       "0,",    "0,1",  "2:3,0.5",
        "2048:16:1", "2,2048:16", "1e3:2", "1 :2", "1000000000:1"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char setting[64];
        clv_config *config;
        clv_context *ctx;
        assert_ok(clv_config_create(&config));
        snprintf(setting, sizeof setting, "core.objective=%s", values[i]);
        assert_ok(clv_config_set(config, setting, "here"));
        assert_fails(
            clv_context_create(&(clv_context_params){.config = config}, &ctx),
            CLV_ERR_FORMAT, "here: core.objective is '");
        assert_non_null(strstr(clv_last_error(), "2048:64"));
        clv_config_destroy(config);
    }
}

static int setup(void **state)
{
    (void)state;
    temp_init(&cache);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_finish(&cache);
    return 0;
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_after),
        cmocka_unit_test(test_other_costs),
        cmocka_unit_test(test_long_batches),
        cmocka_unit_test(test_few_exchanges),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_bad_values),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
