/*
 * Runs in flight on simulated devices: the same times each time, fewer gaps,
 * sessions that get equal parts, and how long a decision takes.
 */
#include "test.h"
#include "tmpdir.h"

#include "../../core/device/loss.h"
#include "../../core/exec/choose.h"
#include "../../core/exec/flight.h"
#include "../../core/plan/choice.h"
#include "../../planner/planner.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_DEVICES 8
#define MAX_RUNS 64
#define C 64

typedef struct rig {
    clv_config *config;
    clv_context *ctx;
    clv_device *devices[MAX_DEVICES];
    uint32_t n_devices;
    clv_tensor *weight;
    clv_graph *g;
    clv_value x, y;
    clv_plan *plan;
    clv_exec *execs[2]; /* of two sessions */
    clv_workspace *workspaces[MAX_RUNS];
    clv_run *runs[MAX_RUNS];
    uint32_t n_runs;
    uint32_t queue_depth; /* of the devices; 0: enough */
} rig;

static tmpdir dir;

/* Device i is (i + 1) times as fast as the first. */
static void open_devices(rig *r, uint32_t n, const char *dispatch)
{
    char path[512], text[512];
    snprintf(path, sizeof path, "%s/chip.ini", dir.path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "[npu_sim]\nmemory_bandwidth = 1000\nmemory_size = 1024\n");
    for (uint32_t i = 0; i < n; i++)
        fprintf(f,
                "[npu_sim:d%u]\ntitle = d\nkind = gpu\nmodel = roofline\n"
                "f16_tflops = %g\nf32_tflops = %g\nprecision = f32\n"
                "bandwidth = 50\nflag_wait = off\nsubmit_us = 1\n"
                "submit_empty_us = 1\nlaunch_us = 1\ncopy_us = 1\n"
                "wait_poll_us = 1\nwait_block_us = 5\nqueue_depth = %u\n",
                i, 0.01 * (i + 1), 0.01 * (i + 1),
                r->queue_depth ? r->queue_depth : 256);
    fclose(f);
    assert_ok(clv_config_create(&r->config));
    assert_ok(clv_config_load_file(r->config, path));
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins",
             getenv("CLEAVE_TEST_BUILD"));
    assert_ok(clv_config_set(r->config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s", dir.path);
    assert_ok(clv_config_set(r->config, text, "test"));
    snprintf(text, sizeof text, "core.dispatch=%s", dispatch);
    assert_ok(clv_config_set(r->config, text, "test"));
    assert_ok(clv_config_set(r->config, "core.plugins=npu_sim", "test"));
    assert_ok(clv_config_set(r->config, "core.plan=auto", "test"));
    assert_ok(clv_config_set(r->config, "core.profile=off", "test"));
    assert_ok(clv_context_create(&(clv_context_params){.config = r->config},
                                 &r->ctx));
    r->n_devices = clv_context_device_count(r->ctx);
    assert_int_equal(r->n_devices, n);
    for (uint32_t i = 0; i < n; i++)
        r->devices[i] = clv_context_device(r->ctx, i);
}

/* Measuring takes long, and is not what this is about. */
static core_forecast *make_up(const clv_plan *plan)
{
    core_forecast *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->parts = calloc(plan->n_parts, sizeof *f->parts);
    f->costs_ns = calloc(plan->n_parts, sizeof *f->costs_ns);
    f->steps = calloc(plan->n_steps, sizeof *f->steps);
    f->submits = calloc(plan->n_steps, sizeof *f->submits);
    f->host_waits = calloc(plan->n_steps, sizeof *f->host_waits);
    f->busy_ns = calloc(plan->n_queues, sizeof *f->busy_ns);
    assert_true(f->steps && f->submits && f->host_waits);
    for (uint32_t s = 0; s < plan->n_steps; s++)
        f->steps[s].end_ns = 1e6 / (plan->steps[s].device + 1);
    return f;
}

/* Products one after another, each on the next device. */
static void build(rig *r, uint32_t n_nodes)
{
    const clv_plan_params params = {.devices = r->devices,
                                    .n_devices = r->n_devices};
    const clv_dim dims[] = {clv_dim_fixed(64), clv_dim_fixed(C)};
    core_piece *pieces = calloc(n_nodes, sizeof *pieces);
    assert_non_null(pieces);
    assert_ok(clv_tensor_create(r->ctx, CLV_DTYPE_F32, 2,
                                (const int64_t[]){C, C}, &r->weight));
    for (int i = 0; i < C * C; i++)
        ((float *)clv_tensor_data(r->weight))[i] = (i % C == i / C) * 0.5f;
    assert_ok(clv_graph_create(&r->g));
    r->y = r->x = clv_graph_input(r->g, "x", CLV_DTYPE_F32, 2, dims);
    const clv_value w = clv_graph_weight(r->g, "w", r->weight);
    for (uint32_t i = 0; i < n_nodes; i++) {
        r->y = clv_graph_matmul(r->g, r->y, w, CLV_NO_TENSOR);
        pieces[i] = (core_piece){.node = i, .device = i % r->n_devices};
    }
    clv_graph_output(r->g, r->y, "y");
    assert_ok(
        planner_from_pieces(r->ctx, r->g, &params, pieces, n_nodes, &r->plan));
    assert_null(r->plan->forecast);
    r->plan->forecast = make_up(r->plan);
    free(pieces);
}

static rig open_deep_rig(uint32_t n_devices, uint32_t n_nodes, uint32_t n_runs,
                         const char *dispatch, uint32_t queue_depth)
{
    rig r = {.n_runs = n_runs, .queue_depth = queue_depth};
    open_devices(&r, n_devices, dispatch);
    build(&r, n_nodes);
    for (int i = 0; i < 2; i++) {
        assert_ok(clv_exec_create(r.plan, &r.execs[i]));
        assert_ok(clv_exec_run(r.execs[i], NULL, 0)); /* the first is alone */
    }
    for (uint32_t i = 0; i < n_runs; i++) {
        assert_ok(clv_workspace_create(r.ctx, &r.workspaces[i]));
        assert_ok(clv_run_create(r.execs[0], r.workspaces[i], &r.runs[i]));
    }
    return r;
}

static rig open_rig(uint32_t n_devices, uint32_t n_nodes, uint32_t n_runs,
                    const char *dispatch)
{
    return open_deep_rig(n_devices, n_nodes, n_runs, dispatch, 0);
}

static void close_rig(rig *r)
{
    for (uint32_t i = 0; i < r->n_runs; i++)
        clv_run_destroy(r->runs[i]);
    clv_exec_destroy(r->execs[0]);
    clv_exec_destroy(r->execs[1]);
    for (uint32_t i = 0; i < r->n_runs; i++)
        clv_workspace_destroy(r->workspaces[i]);
    clv_plan_destroy(r->plan);
    clv_graph_destroy(r->g);
    clv_tensor_destroy(r->weight);
    clv_context_destroy(r->ctx);
    clv_config_destroy(r->config);
}

static double now(const rig *r)
{
    clv_moment m;
    assert_ok(clv_device_now(r->devices[0], &m));
    return m.ns;
}

static void submit_all(rig *r)
{
    for (uint32_t i = 0; i < r->n_runs; i++) {
        float *x = clv_tensor_data(clv_run_tensor(r->runs[i], r->x));
        for (int k = 0; k < 64 * C; k++)
            x[k] = (float)(i + 1);
        assert_ok(clv_run_submit(r->runs[i], NULL, 0));
    }
}

static void wait_all(rig *r, uint32_t n_nodes)
{
    for (uint32_t i = 0; i < r->n_runs; i++) {
        assert_ok(clv_run_wait(r->runs[i]));
        const float *y = clv_tensor_data(clv_run_tensor(r->runs[i], r->y));
        const double want = (i + 1.0) / (double)(1u << n_nodes);
        assert_true((double)y[0] == want && (double)y[64 * C - 1] == want);
    }
}

static double timed(rig *r, uint32_t n_nodes, bool together)
{
    const double begin = now(r);
    if (together) {
        submit_all(r);
        wait_all(r, n_nodes);
        return now(r) - begin;
    }
    for (uint32_t i = 0; i < r->n_runs; i++)
        assert_ok(clv_exec_run(r->execs[0], NULL, 0));
    return now(r) - begin;
}

/* A chain keeps one of two devices at work; four chains both of them. */
static void test_times(void **state)
{
    (void)state;
    double together[2];
    for (int i = 0; i < 2; i++) {
        rig r = open_rig(2, 12, 4, "unlock");
        const double alone = timed(&r, 12, false);
        together[i] = timed(&r, 12, true);
        print_message("  one by one %.0f ns, together %.0f ns\n", alone,
                      together[i]);
        assert_true(together[i] < 0.8 * alone);
        close_rig(&r);
    }
    assert_true(together[0] == together[1]);
}

/* A run of another session does not queue behind all of this one's; neither
 * does one of a higher priority. */
static void finish_order(int32_t priority, bool other_session)
{
    rig r = open_rig(2, 12, 8, "unlock");
    clv_workspace *workspace;
    clv_run *late;
    assert_ok(clv_workspace_create(r.ctx, &workspace));
    assert_ok(clv_run_create(r.execs[other_session], workspace, &late));
    clv_run_set_priority(late, priority);
    submit_all(&r);
    assert_ok(clv_run_submit(late, NULL, 0));
    assert_ok(clv_run_wait(late));
    uint32_t before = 0;
    for (uint32_t i = 0; i < r.n_runs; i++)
        before += !clv_run_in_flight(r.runs[i]);
    print_message("  %u of %u older runs ended before\n", before, r.n_runs);
    if (priority > 0 || other_session)
        assert_true(before <= r.n_runs / 4);
    else
        assert_true(before >= r.n_runs / 2);
    wait_all(&r, 12);
    clv_run_destroy(late);
    clv_workspace_destroy(workspace);
    close_rig(&r);
}

static void test_shares(void **state)
{
    (void)state;
    finish_order(0, false);
    finish_order(1, false);
    finish_order(0, true);
}

/* Of the processor's time, in which other processes do not count. */
static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What a decision takes with so many runs in flight on 8 devices. */
static double decision_ns(uint32_t n_runs)
{
    const uint32_t n = 2000;
    rig r = open_rig(8, 16, n_runs, "unlock");
    core_flight *flight = core_flight_of(r.ctx);
    submit_all(&r);
    uint32_t going = 0;
    pthread_mutex_lock(&flight->mutex);
    for (clv_run *run = flight->first; run; run = run->next)
        going += run->state == CORE_RUN_GOING;
    assert_int_equal(going, n_runs);
    core_flight_choose(flight);
    const uint64_t begin = thread_ns();
    for (uint32_t i = 0; i < n; i++)
        core_flight_choose(flight);
    const double ns = (double)(thread_ns() - begin) / n;
    pthread_mutex_unlock(&flight->mutex);
    print_message("  a decision takes %.0f ns with %u runs\n", ns, n_runs);
    wait_all(&r, 16);
    close_rig(&r);
    return ns;
}

/* It grows with the runs, and not with their square. */
static void test_decisions(void **state)
{
    (void)state;
    const double few = decision_ns(MAX_RUNS / 8);
    assert_true(decision_ns(MAX_RUNS) < 32 * few);
}

static int make_dir(void **state)
{
    (void)state;
    tmpdir_make(&dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

/* Each criterion decides only where those before it do not. */
static void test_order(void **state)
{
    static const core_candidate ordered[] = {
        {.priority = 1, .served_ns = 9, .gain_ns = -5, .age = 9},
        {.served_ns = 1, .gain_ns = -5, .age = 8},
        {.served_ns = 2, .gain_ns = 7, .age = 7},
        {.served_ns = 2, .gain_ns = 3, .age = 5},
        {.served_ns = 2, .gain_ns = 3, .age = 6},
        {.served_ns = 2, .gain_ns = -3, .age = 1},
        {.waits = true, .priority = 2, .gain_ns = 9, .age = 0},
    };
    const int n = sizeof ordered / sizeof *ordered;
    (void)state;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            assert_int_equal(core_candidate_before(&ordered[a], &ordered[b]),
                             a < b);
    assert_true(core_candidate_gain(false, 4, 3) == 4);
    assert_true(core_candidate_gain(true, 4, 3) == -3);
}

/* The work that a step lets begin is seen across runs and devices: the next
 * step of a run is the critical device's, which is the first one. */
static void test_gains(void **state)
{
    (void)state;
    rig r = open_rig(2, 12, 4, "unlock");
    core_flight *flight = core_flight_of(r.ctx);
    submit_all(&r);
    pthread_mutex_lock(&flight->mutex);
    core_flight_choose(flight);
    uint32_t critical = 0, others = 0;
    for (clv_run *run = flight->first; run; run = run->next) {
        const bool second =
            run->exec->plan->steps[run->n_submitted].device == 1;
        critical += second && run->turn.unlocked_critical_ns > 0 &&
                    run->turn.unlocked_other_ns == 0;
        others += !second && run->turn.unlocked_other_ns > 0 &&
                  run->turn.unlocked_critical_ns == 0;
    }
    assert_int_equal(critical + others, r.n_runs);
    assert_true(critical && others);
    /* A run that has all of its own waits for another one's next step. */
    clv_run *a = flight->first, *b = a->next;
    while (b && b->block.run == b)
        b = b->next;
    assert_non_null(b);
    const core_step *step = &r.plan->steps[a->n_submitted];
    const double before =
        a->turn.unlocked_critical_ns + a->turn.unlocked_other_ns;
    core_need need = {.step = b->n_submitted,
                      .on = a,
                      .device = step->device,
                      .value = a->queues[step->device].base + step->signal};
    b->needs = &need;
    b->n_needs = 1;
    b->need = 0;
    core_flight_choose(flight);
    assert_ptr_equal(b->block.run, a);
    assert_true(a->turn.unlocked_critical_ns + a->turn.unlocked_other_ns >
                before);
    b->needs = NULL;
    b->n_needs = 0;
    pthread_mutex_unlock(&flight->mutex);
    wait_all(&r, 12);
    close_rig(&r);
}

/* A state that is moved while a run's step fills the queue has to wait for the
 * step, whose time comes only while somebody waits. */
static void test_full_queue(void **state)
{
    (void)state;
    rig r = open_deep_rig(2, 4, 1, "age", 1);
    submit_all(&r);
    assert_int_equal(r.runs[0]->n_submitted, 1);
    assert_ok(core_device_settle(r.devices[0], 2000000000));
    wait_all(&r, 4);
    close_rig(&r);
}

static void test_room(void **state)
{
    (void)state;
    assert_int_equal(core_queue_room_at(0, 256), 64);
    assert_int_equal(core_queue_room_at(100, 105), 102);
    for (uint64_t done = 7; done < 300; done++) /* never nothing, never past */
        for (uint64_t all = done + 1; all < done + 10; all++) {
            const uint64_t at = core_queue_room_at(done, all);
            assert_true(at > done && at <= all);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),      cmocka_unit_test(test_gains),
        cmocka_unit_test(test_times),      cmocka_unit_test(test_shares),
        cmocka_unit_test(test_decisions),  cmocka_unit_test(test_room),
        cmocka_unit_test(test_full_queue),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
