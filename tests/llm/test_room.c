/* What a session's plans take of a device's own memory is no more than what was
 * counted: by shapes and limits, on every plugin that has devices with memory
 * of their own. Arguments: the plugin whose driver is to be tested, else the
 * simulator; and "all", else a driver has fewer and smaller cases. */
#include "rig.h"

#include "runtime/runner.h"
#include "../../core/base/sanitizer.h"
#include "../../core/device/memory.h"
#include "../../core/plan/plan.h"
#include "../../planner/limits.h"
#include "../../planner/planner.h"

#include <stdio.h>

#define MAX_RUNNERS 3
#define PARTS 32

static const char *driver; /* NULL: the simulator */
static bool all_cases;

typedef struct session {
    rig_world world;
    clv_model *model;
    clv_device *dev; /* the one that is limited */
    llm_kv_cache cache;
    clv_workspace *workspace;
    llm_runner *runners[MAX_RUNNERS];
    uint64_t counted, reserve;
    llm_work later;        /* what plans that follow work on; 0: not known */
    uint32_t n, n_working; /* runners, those that use the device */
} session;

static void open_world(session *s, uint32_t mib)
{
    char text[512];
    *s = (session){0};
    if (driver)
        snprintf(text, sizeof text,
                 "core.plugins=%s,cpu core.devices=%s:0,cpu %s.memory=separate "
                 "%s.max_memory=%u cpu.threads=1 core.plan=auto "
                 "core.profile=off",
                 driver, driver, driver, driver, mib);
    else
        snprintf(text, sizeof text,
                 "core.plugins=npu_sim npu_sim.compute=off "
                 "npu_sim:card.memory=%u core.plan=auto "
                 "core.profile=auto",
                 mib);
    rig_open(&s->world, driver ? NULL : "soc/small-card.ini", text);
    for (uint32_t i = 0; i < clv_context_device_count(s->world.ctx); i++) {
        clv_device *dev = clv_context_device(s->world.ctx, i);
        if (clv_device_room(dev) != UINT64_MAX)
            s->dev = dev;
    }
    if (driver && !s->dev)
        exit(getenv("CLEAVE_TEST_NEED_DRIVERS") ? 1 : RIG_SKIPPED);
    assert_non_null(s->dev);
}

static void open_session(session *s, uint32_t mib)
{
    open_world(s, mib);
    assert_ok(clv_model_load(s->world.ctx, "synth:llama-1b:q8_0:zero", NULL,
                             &s->model));
    assert_ok(llm_kv_cache_init(&s->cache, s->world.ctx, s->model->hp, 512, 1,
                                CLV_DTYPE_F16));
    assert_ok(clv_workspace_create(s->world.ctx, &s->workspace));
}

static void close_session(session *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        llm_runner_destroy(s->runners[i]);
    clv_workspace_destroy(s->workspace);
    llm_kv_cache_finish(&s->cache);
    clv_model_destroy(s->model);
    rig_close(&s->world);
}

static uint32_t index_of(const clv_plan *plan, const clv_device *dev)
{
    uint32_t d = 0;
    while (d < plan->n_devices && plan->devices[d].dev != dev)
        d++;
    assert_true(d < plan->n_devices);
    return d;
}

/* As many of the first nodes on the device as it has room for, whatever they
 * take there: on a driver in software that is nothing to be chosen. */
static void plan_front(session *s, llm_runner *r)
{
    const uint32_t n = r->graph->n_nodes;
    core_piece *pieces = calloc(n, sizeof *pieces);
    clv_device *devices[] = {s->dev, clv_context_device(s->world.ctx, 1)};
    const clv_plan_params params = {
        .devices = devices, .n_devices = 2, .workspace = s->workspace};
    assert_non_null(pieces);
    assert_true(devices[1] != s->dev);
    for (uint32_t part = PARTS; !r->plan; part--) {
        for (uint32_t i = 0; i < n; i++)
            pieces[i] =
                (core_piece){.node = i, .device = i >= n * part / PARTS};
        assert_ok(planner_from_pieces(s->world.ctx, r->graph, &params, pieces,
                                      n, &r->plan));
        if (part && planner_limits_check(r->plan)) {
            clv_plan_destroy(r->plan);
            r->plan = NULL;
        }
    }
    free(pieces);
}

/* What is told of all plans so far is what they take: of a driver at most, but
 * for what copies pass through. */
static void assert_told(const session *s, uint64_t all)
{
    const clv_plan *plans[MAX_RUNNERS];
    for (uint32_t i = 0; i < s->n; i++)
        plans[i] = s->runners[i]->plan;
    const clv_memory_use use =
        clv_plans_memory(plans, s->n, s->workspace, s->dev);
    const uint64_t taken = all - clv_device_room(s->dev);
    const uint64_t told = use.weights + use.states + use.values;
    print_message("  told: %.2f MiB of %.2f, taken: %.2f\n",
                  (double)told / 0x1p20, (double)use.budget / 0x1p20,
                  (double)taken / 0x1p20);
    assert_true(use.budget >= all);
    assert_true(told <= s->counted && taken <= told + s->reserve);
    if (!driver) /* drivers take scratch when it is needed */
        assert_int_equal(told, taken);
}

/* Values take the place of those of the plans before. */
static void assert_reused(clv_plan *plan, uint32_t d, uint64_t there,
                          uint64_t counted)
{
    core_plan_device *device = &plan->devices[d];
    const uint64_t size = device->n_steps ? device->memory.size : 0;
    assert_int_equal(device->given, there);
    device->given = 0;
    assert_int_equal(planner_limits_bytes(plan, d) - counted,
                     size < there ? size : there);
    device->given = there;
}

/* A plan more, compiled and run. */
static void add(session *s, uint32_t n_tokens, uint64_t all)
{
    const llm_shape shape = {.n_tokens = n_tokens, .fixed = n_tokens == 1};
    const int32_t id = 1;
    llm_runner *r;
    const uint64_t before = clv_device_room(s->dev);
    const uint64_t there = clv_workspace_size(s->workspace, s->dev);
    assert_ok(llm_runner_create(s->model, &s->cache, &shape, &r));
    s->runners[s->n++] = r;
    if (driver)
        plan_front(s, r);
    else
        assert_ok(llm_runner_plan(
            r, &(llm_runner_params){.workspace = s->workspace,
                                    .reserve = n_tokens == 1 ? s->later
                                                             : (llm_work){0}}));
    const uint32_t d = index_of(r->plan, s->dev);
    const uint64_t counted = planner_limits_bytes(r->plan, d);
    assert_true(counted <= r->plan->devices[d].room);
    assert_reused(r->plan, d, there, counted);
    assert_ok(llm_runner_compile(
        r, &(llm_runner_params){.workspace = s->workspace}, &s->cache));
    assert_ok(llm_runner_run(r, &(llm_input){.ids = &id, .n = 1}));
    const uint64_t taken = before - clv_device_room(s->dev);
    s->counted += counted;
    s->n_working += r->plan->devices[d].n_steps != 0;
    print_message("  %3u tokens: %u steps, %.2f MiB left, %.2f counted, %.2f "
                  "taken\n",
                  n_tokens, r->plan->devices[d].n_steps,
                  (double)before / 0x1p20, (double)counted / 0x1p20,
                  (double)taken / 0x1p20);
    /* All plans together: what one has another need not have again. */
    assert_true(all - clv_device_room(s->dev) <= s->counted + s->reserve);
    assert_told(s, all);
}

static void test_limit(uint32_t mib, const uint32_t *tokens)
{
    session s;
    open_session(&s, mib);
    const uint64_t all = clv_device_room(s.dev);
    clv_graph *none;
    assert_ok(clv_graph_create(&none));
    s.reserve = all - planner_room(none, s.dev);
    clv_graph_destroy(none);
    print_message("%s, %u MiB:\n", s.dev->id, mib);
    for (uint32_t i = 0; i < MAX_RUNNERS; i++)
        add(&s, tokens[i], all);
    assert_true(s.n_working > 0);
    close_session(&s);
}

static void test_limits(void **state)
{
    static const uint32_t up[] = {1, 16, 384}, down[] = {384, 64, 1};
    (void)state;
    /* Sanitizers find in one search what they find in all, and are slow. */
    const bool more = all_cases && !core_sanitizers();
    if (!core_sanitizers())
        test_limit(150, up);
    if (more) /* takes software long, and others' ways */
        test_limit(600, up);
    test_limit(more ? 600 : 300, down);
}

/* Where it is known what a prompt works on, little stays unused, and the
 * weights that the first plan does not hold pass through whole. */
static void test_filled(void **state)
{
    const llm_shape prompt = {.n_tokens = 384};
    const llm_runner_params params = {0};
    llm_runner *r;
    session s;
    uint32_t n_whole = 0;
    (void)state;
    if (driver || core_sanitizers())
        skip();
    open_session(&s, 600);
    const uint64_t all = clv_device_room(s.dev);
    assert_ok(llm_runner_create(s.model, &s.cache, &prompt, &r));
    assert_ok(llm_runner_work(r, &params, &s.later));
    llm_runner_destroy(r);
    assert_true(s.later.bytes > 0);
    add(&s, 1, all);
    add(&s, prompt.n_tokens, all);
    print_message("%.1f of %.1f MiB are unused\n",
                  (double)clv_device_room(s.dev) / 0x1p20,
                  (double)all / 0x1p20);
    assert_true(clv_device_room(s.dev) < all / 64);
    const clv_plan *plan = s.runners[1]->plan;
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        n_whole +=
            plan->pieces[i].streamed && core_piece_is_whole(&plan->pieces[i]);
    assert_true(n_whole > 0);
    close_session(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_filled)};
    driver = argc > 1 ? argv[1] : NULL;
    all_cases = !driver || (argc > 2 && !strcmp(argv[2], "all"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
