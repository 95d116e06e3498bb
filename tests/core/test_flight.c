/*
 * Runs in flight: whatever is submitted in whatever order, on devices that take
 * any time, each run gives what it gives when runs wait for each other.
 */
#include "../plugins/ref/context.h"
#include "../../core/exec/flight.h"
#include "../../planner/planner.h"

#include <time.h>

#define HEADS 2
#define DIM 4
#define C (HEADS * DIM)
#define LAYERS 3
#define ROWS 24 /* of the cache */
#define STEPS 4 /* rows that a run sets, at most */
#define SLOTS 4 /* runs of a session */

#define SPLIT "ref.ops0=matmul,set_rows ref.ops1=attention,add "
#define FLAGS "ref.flag_wait0=on ref.flag_wait1=on "

typedef struct session {
    clv_tensor *states[2 * LAYERS];
    clv_workspace *workspaces[SLOTS];
    clv_exec *execs[2];
    clv_run *runs[SLOTS];
    int64_t first[SLOTS], count[SLOTS]; /* rows; 0: not in flight */
    int64_t done;
    float y[ROWS * C];
} session;

typedef struct fixture {
    test_context t;
    clv_tensor *weights[LAYERS];
    clv_graph *g;
    clv_value x, pos, y, states[2 * LAYERS];
    clv_plan *plans[2]; /* [1]: NULL, or another one on other devices */
} fixture;

static void build(fixture *f)
{
    const int64_t dims[] = {ROWS, C};
    assert_ok(clv_graph_create(&f->g));
    const clv_dim n = clv_graph_symbol(f->g, "n", 1, STEPS);
    const clv_dim rows = clv_graph_symbol(f->g, "rows", 1, ROWS);
    const clv_dim wide[] = {n, clv_dim_fixed(C)};
    f->x = clv_graph_input(f->g, "x", CLV_DTYPE_F32, 2, wide);
    f->pos = clv_graph_input(f->g, "pos", CLV_DTYPE_I32, 1, &n);
    const clv_attention_params params = {
        .head_dim = DIM, .scale = 0.5f, .rows = rows};
    clv_value x = f->x;
    for (int l = 0; l < LAYERS; l++) {
        clv_value w = clv_graph_weight(f->g, "w", f->weights[l]);
        clv_value h = clv_graph_matmul(f->g, x, w, CLV_NO_TENSOR);
        clv_value *s = &f->states[2 * l];
        s[0] = clv_graph_state(f->g, "k", CLV_DTYPE_F32, 2, dims);
        s[1] = clv_graph_state(f->g, "v", CLV_DTYPE_F32, 2, dims);
        clv_graph_set_rows(f->g, s[0], h, f->pos);
        clv_graph_set_rows(f->g, s[1], x, f->pos);
        x = clv_graph_add(f->g,
                          clv_graph_attention(f->g, h, s[0], s[1], f->pos,
                                              CLV_NO_TENSOR, &params),
                          x);
    }
    f->y = x;
    clv_graph_output(f->g, f->y, "y");
    assert_ok(clv_graph_check(f->g));
}

/* apart: two plans, each on one device; else one on both. */
static fixture open_fixture(const char *settings, bool apart)
{
    fixture f = {.t = test_context_create(settings)};
    test_random r = {5};
    for (int l = 0; l < LAYERS; l++) {
        assert_ok(clv_tensor_create(f.t.ctx, CLV_DTYPE_F32, 2,
                                    (const int64_t[]){C, C}, &f.weights[l]));
        float *w = clv_tensor_data(f.weights[l]);
        for (int i = 0; i < C * C; i++)
            w[i] = test_float(&r);
    }
    build(&f);
    for (uint32_t i = 0; i < 1u + apart; i++) {
        clv_device *dev = clv_context_device(f.t.ctx, i);
        assert_ok(clv_plan_create(
            f.t.ctx, f.g,
            apart ? &(clv_plan_params){.devices = &dev, .n_devices = 1} : NULL,
            &f.plans[i]));
    }
    return f;
}

static void close_fixture(fixture *f)
{
    clv_plan_destroy(f->plans[0]);
    clv_plan_destroy(f->plans[1]);
    clv_graph_destroy(f->g);
    for (int l = 0; l < LAYERS; l++)
        clv_tensor_destroy(f->weights[l]);
    test_context_destroy(&f->t);
}

static void bind(const fixture *f, session *s, int first)
{
    for (int e = 0; e < 2 && s->execs[e]; e++)
        for (int i = first; i < 2 * LAYERS; i += 2)
            assert_ok(clv_exec_bind(s->execs[e], f->states[i], s->states[i]));
}

static void open_session(fixture *f, session *s, uint32_t n_workspaces)
{
    const int64_t dims[] = {ROWS, C};
    *s = (session){.done = 0};
    for (uint32_t i = 0; i < n_workspaces; i++)
        assert_ok(clv_workspace_create(f->t.ctx, &s->workspaces[i]));
    for (int i = 0; i < 2; i++)
        if (f->plans[i])
            assert_ok(clv_exec_create_in(f->plans[i], s->workspaces[0],
                                         &s->execs[i]));
    for (int i = 0; i < 2 * LAYERS; i++)
        assert_ok(
            clv_tensor_create(f->t.ctx, CLV_DTYPE_F32, 2, dims, &s->states[i]));
    bind(f, s, 0); /* some before and some after runs are made */
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_ok(clv_run_create(s->execs[f->plans[1] ? i % 2 : 0],
                                 s->workspaces[i % n_workspaces], &s->runs[i]));
    bind(f, s, 1);
}

static void close_session(session *s)
{
    for (int i = 0; i < SLOTS; i++)
        clv_run_destroy(s->runs[i]);
    clv_exec_destroy(s->execs[0]);
    clv_exec_destroy(s->execs[1]);
    for (int i = 0; i < SLOTS; i++)
        clv_workspace_destroy(s->workspaces[i]);
    for (int i = 0; i < 2 * LAYERS; i++)
        clv_tensor_destroy(s->states[i]);
}

static void submit(const fixture *f, session *s, int slot, int64_t n)
{
    float *x = clv_tensor_data(clv_run_tensor(s->runs[slot], f->x));
    int32_t *pos = clv_tensor_data(clv_run_tensor(s->runs[slot], f->pos));
    const int64_t symbols[] = {n, s->done + n};
    for (int64_t i = 0; i < n; i++) {
        pos[i] = (int32_t)(s->done + i);
        for (int64_t c = 0; c < C; c++)
            x[i * C + c] = (float)((pos[i] * 7 + c * 3) % 11) / 8 - 0.5f;
    }
    s->first[slot] = s->done;
    s->count[slot] = n;
    s->done += n;
    assert_ok(clv_run_submit(s->runs[slot], symbols, 2));
}

static void collect(const fixture *f, session *s, int slot)
{
    if (!s->count[slot])
        return;
    assert_ok(clv_run_wait(s->runs[slot]));
    memcpy(s->y + s->first[slot] * C,
           clv_tensor_data(clv_run_tensor(s->runs[slot], f->y)),
           (size_t)s->count[slot] * C * sizeof *s->y);
    s->count[slot] = 0;
}

/* One run after another on one device. */
static void expect(float y[ROWS * C])
{
    fixture f = open_fixture("", false);
    session s;
    open_session(&f, &s, 1);
    while (s.done < ROWS) {
        submit(&f, &s, 0, 1);
        collect(&f, &s, 0);
    }
    memcpy(y, s.y, sizeof s.y);
    close_session(&s);
    close_fixture(&f);
}

/* Runs of random lengths of two sessions, waited for in any order. */
static void interleave(fixture *f, const float *want, uint64_t seed)
{
    test_random r = {seed};
    session s[2];
    for (int i = 0; i < 2; i++)
        open_session(f, &s[i], 1 + test_below(&r, SLOTS));
    while (s[0].done < ROWS || s[1].done < ROWS) {
        session *one = &s[test_below(&r, 2)];
        const int slot = (int)test_below(&r, SLOTS);
        const int64_t left = ROWS - one->done;
        const int64_t n = 1 + test_below(&r, STEPS);
        if (one->count[slot] || test_below(&r, 4) == 0)
            collect(f, one, slot);
        if (left && !one->count[slot])
            submit(f, one, slot, n < left ? n : left);
    }
    for (int i = 0; i < 2; i++) {
        for (int slot = 0; slot < SLOTS; slot++)
            collect(f, &s[i], (slot + (int)seed) % SLOTS);
        for (int j = 0; j < ROWS * C; j++)
            if (s[i].y[j] != want[j])
                fail_msg("seed %d, session %d: row %d is %g, not %g", (int)seed,
                         i, j / C, (double)s[i].y[j], (double)want[j]);
        close_session(&s[i]);
    }
}

static void try_settings(const char *settings, bool apart, int rounds)
{
    float want[ROWS * C];
    expect(want);
    fixture f = open_fixture(settings, apart);
    for (int seed = 1; seed <= rounds; seed++)
        interleave(&f, want, (uint64_t)seed);
    close_fixture(&f);
}

/* Devices of different speed, so that what may overtake does. */
static void test_interleavings(void **state)
{
    (void)state;
    const char *long_run = getenv("CLEAVE_TEST_FLIGHT"); /* rounds of each */
    const int n = long_run ? atoi(long_run) : 4;
    try_settings("", false, n);
    try_settings("ref.delay_us0=300", true, n);
    try_settings("ref.delay_us1=300", true, n);
    try_settings(SPLIT, false, n);
    try_settings(SPLIT FLAGS, false, n);
    try_settings(SPLIT "ref.delay_us0=200", false, n);
    try_settings(SPLIT FLAGS "ref.delay_us1=200", false, n);
    try_settings(SPLIT "ref.queue_depth0=1 ref.queue_depth1=2", false, n);
    try_settings(SPLIT "ref.progress0=on", false, n);
}

/* States in memories of devices: they move, or are copied within a run. */
static void test_memories(void **state)
{
    (void)state;
    const int n = 3;
    for (int apart = 0; apart < 2; apart++) {
        try_settings("ref.memory0=local,coherent ref.delay_us0=200", apart, n);
        try_settings("ref.memory0=local,shadow ref.import0=off", apart, n);
    }
    try_settings(SPLIT "ref.memory0=local,coherent", false, n);
    try_settings(SPLIT "ref.memory1=local,coherent", false, n);
    try_settings(SPLIT FLAGS "ref.memory0=local,coherent "
                             "ref.memory1=local,coherent ref.delay_us0=200",
                 false, n);
    try_settings(SPLIT "ref.memory0=local,shadow ref.import0=off", false, n);
    try_settings(SPLIT FLAGS "ref.memory0=local,shadow ref.import0=off "
                             "ref.memory1=local,shadow ref.import1=off",
                 false, n);
}

typedef struct worker {
    const fixture *f;
    session s;
    uint64_t seed;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    test_random r = {w->seed};
    while (w->s.done < ROWS) {
        const int slot = (int)test_below(&r, SLOTS);
        const int64_t left = ROWS - w->s.done;
        const int64_t n = 1 + test_below(&r, STEPS);
        collect(w->f, &w->s, slot);
        submit(w->f, &w->s, slot, n < left ? n : left);
    }
    for (int slot = 0; slot < SLOTS; slot++)
        collect(w->f, &w->s, slot);
    return NULL;
}

/* Sessions of several threads submit each other's steps. */
static void test_threads(void **state)
{
    static const char *const settings[] = {
        "ref.delay_us0=100", SPLIT, SPLIT FLAGS "ref.delay_us1=100",
        SPLIT "ref.memory1=local,shadow ref.import1=off"};
    (void)state;
    float want[ROWS * C];
    expect(want);
    for (int k = 0; k < 4; k++) {
        fixture f = open_fixture(settings[k], false);
        worker workers[3];
        for (int i = 0; i < 3; i++) {
            workers[i] = (worker){.f = &f, .seed = (uint64_t)(7 * k + i)};
            open_session(&f, &workers[i].s, 1 + (uint32_t)i);
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(
                pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
            assert_memory_equal(workers[i].s.y, want, sizeof want);
        }
        for (int i = 0; i < 3; i++)
            close_session(&workers[i].s);
        close_fixture(&f);
    }
}

/* ------------------------------------------------------------------------ */

/* The second run's first steps go on while the first run is held up. */
static void test_overlap(void **state)
{
    (void)state;
    fixture f = open_fixture(SPLIT "ref.delay_us1=20000", false);
    session s;
    open_session(&f, &s, 2);
    submit(&f, &s, 0, 1); /* the first of an exec is alone */
    collect(&f, &s, 0);
    submit(&f, &s, 0, 1);
    submit(&f, &s, 1, 1);
    assert_true(clv_run_in_flight(s.runs[0]));
    assert_true(clv_run_in_flight(s.runs[1]));
    assert_int_equal(s.runs[0]->state, CORE_RUN_GOING);
    assert_int_equal(s.runs[1]->state, CORE_RUN_GOING);
    assert_true(s.runs[1]->n_submitted > 0);
    collect(&f, &s, 1);
    /* It comes after the other, which need not be collected first. */
    collect(&f, &s, 0);
    close_session(&s);
    close_fixture(&f);
}

/* Without a common state or workspace nothing holds runs back; with one
 * workspace they take turns. */
static void test_turns(void **state)
{
    (void)state;
    fixture f = open_fixture(SPLIT "ref.delay_us1=5000", false);
    session s;
    open_session(&f, &s, 1);
    submit(&f, &s, 0, 1);
    collect(&f, &s, 0);
    submit(&f, &s, 0, 1);
    submit(&f, &s, 1, 1);
    assert_int_equal(s.runs[0]->state, CORE_RUN_GOING);
    assert_int_equal(s.runs[1]->state, CORE_RUN_HELD);
    clv_run *third;
    assert_int_equal(clv_run_create(s.execs[0], NULL, &third), CLV_ERR_INVALID);
    assert_error_says("in flight in the workspace");
    const int64_t symbols[] = {1, 1};
    assert_int_equal(clv_run_submit(s.runs[1], symbols, 2), CLV_ERR_INVALID);
    assert_error_says("in flight already");
    collect(&f, &s, 0);
    collect(&f, &s, 1);
    close_session(&s);
    close_fixture(&f);
}

/* What needs a run that was cancelled fails too; what does not goes on. */
static void test_cancel(void **state)
{
    (void)state;
    fixture f = open_fixture(SPLIT "ref.delay_us1=5000", false);
    session s, other;
    open_session(&f, &s, SLOTS);
    open_session(&f, &other, 1);
    submit(&f, &s, 0, 1);
    collect(&f, &s, 0);
    submit(&f, &s, 0, 1);
    submit(&f, &s, 1, 1);
    submit(&f, &s, 2, 1);
    submit(&f, &other, 0, 2);
    clv_run_cancel(s.runs[1]);
    assert_int_equal(clv_run_wait(s.runs[2]), CLV_ERR_CANCELLED);
    assert_int_equal(clv_run_wait(s.runs[1]), CLV_ERR_CANCELLED);
    assert_int_equal(clv_run_wait(s.runs[1]), CLV_ERR_CANCELLED);
    collect(&f, &s, 0);
    collect(&f, &other, 0);
    s.done = s.first[1];
    submit(&f, &s, 1, 2);
    collect(&f, &s, 1);
    /* One in flight is destroyed. */
    submit(&f, &s, 1, 1);
    close_session(&s);
    close_session(&other);
    close_fixture(&f);
}

/* A device that hangs ends what needs it, in all runs, and nothing else. */
static void test_loss(void **state)
{
    (void)state;
    fixture f =
        open_fixture(SPLIT "core.wait_timeout=0.2 ref.delay_us0=2000", false);
    session s;
    open_session(&f, &s, SLOTS);
    submit(&f, &s, 0, 1);
    collect(&f, &s, 0);
    for (int i = 0; i < SLOTS; i++)
        submit(&f, &s, i, 1);
    clv_device *dev = clv_context_device(f.t.ctx, 1);
    assert_ok(dev->api->fault_inject(dev->handle, CLV_FAULT_HANG));
    int failed = 0;
    for (int i = SLOTS; i-- > 0;)
        failed += clv_run_wait(s.runs[i]) == CLV_ERR_TIMEOUT;
    assert_true(failed);
    assert_error_says("did not end within 0.2 s");
    assert_true(clv_device_lost(dev));
    assert_false(clv_device_lost(clv_context_device(f.t.ctx, 0)));
    const int64_t symbols[] = {1, 1};
    assert_int_equal(clv_run_submit(s.runs[0], symbols, 2), CLV_ERR_TIMEOUT);
    close_session(&s);
    close_fixture(&f);
}

/* ------------------------------------------------------------------------ */

/* Two states that one graph adds, on device 0, and that another one writes to,
 * one on each device. */
typedef struct pair {
    clv_tensor *states[2];
    clv_graph *graphs[2];
    clv_plan *plans[2];
    clv_exec *execs[2];
    clv_value in, pos, out;
} pair;

static void plan_pair(const test_context *t, pair *p)
{
    const clv_dim wide[] = {clv_dim_fixed(ROWS), clv_dim_fixed(C)};
    const int64_t dims[] = {ROWS, C};
    const core_piece pieces[] = {{.node = 0}, {.node = 1, .device = 1}};
    clv_value states[2][2];
    for (int i = 0; i < 2; i++) {
        assert_ok(clv_graph_create(&p->graphs[i]));
        for (int j = 0; j < 2; j++)
            states[i][j] =
                clv_graph_state(p->graphs[i], "s", CLV_DTYPE_F32, 2, dims);
    }
    p->out = clv_graph_add(p->graphs[0], states[0][0], states[0][1]);
    clv_graph_output(p->graphs[0], p->out, "y");
    p->in = clv_graph_input(p->graphs[1], "x", CLV_DTYPE_F32, 2, wide);
    p->pos = clv_graph_input(p->graphs[1], "pos", CLV_DTYPE_I32, 1, wide);
    for (int j = 0; j < 2; j++)
        clv_graph_set_rows(p->graphs[1], states[1][j], p->in, p->pos);
    for (int i = 0; i < 2; i++) {
        assert_ok(planner_from_pieces(t->ctx, p->graphs[i], NULL, pieces,
                                      1 + (uint32_t)i, &p->plans[i]));
        assert_ok(clv_exec_create(p->plans[i], &p->execs[i]));
        for (int j = 0; j < 2; j++)
            assert_ok(clv_exec_bind(p->execs[i], states[i][j], p->states[j]));
    }
}

/* What a run reads is overwritten by the next one from two queues: by that of
 * the reader, which works in order, and by another one, which has to wait. */
static void test_overwritten(void **state)
{
    (void)state;
    test_context t = test_context_create("ref.delay_us0=20000");
    pair p;
    clv_run *runs[2];
    for (int j = 0; j < 2; j++)
        assert_ok(clv_tensor_create(t.ctx, CLV_DTYPE_F32, 2,
                                    (const int64_t[]){ROWS, C}, &p.states[j]));
    plan_pair(&t, &p);
    for (int i = 0; i < 2; i++)
        assert_ok(clv_run_create(p.execs[i], NULL, &runs[i]));
    float *x = clv_tensor_data(clv_run_tensor(runs[1], p.in));
    int32_t *pos = clv_tensor_data(clv_run_tensor(runs[1], p.pos));
    for (int i = 0; i < ROWS; i++)
        pos[i] = i;
    const float *y = clv_tensor_data(clv_run_tensor(runs[0], p.out));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ROWS * C; i++)
            x[i] = (float)(round + 1);
        for (int i = 0; i < 2; i++)
            assert_ok(clv_run_submit(runs[i], NULL, 0));
        for (int i = 2; i-- > 0;)
            assert_ok(clv_run_wait(runs[i]));
        for (int i = 0; i < ROWS * C; i++)
            assert_true(y[i] == (float)(2 * round));
    }
    for (int i = 0; i < 2; i++) {
        clv_run_destroy(runs[i]);
        clv_exec_destroy(p.execs[i]);
        clv_plan_destroy(p.plans[i]);
        clv_graph_destroy(p.graphs[i]);
        clv_tensor_destroy(p.states[i]);
    }
    test_context_destroy(&t);
}

/* ------------------------------------------------------------------------ */

/* Execs of different sizes in one workspace. */
static void test_workspace(void **state)
{
    (void)state;
    float want[ROWS * C];
    expect(want);
    fixture f = open_fixture("ref.memory0=local,coherent", false);
    clv_device *dev = clv_context_device(f.t.ctx, 0);
    session s;
    open_session(&f, &s, 1);
    const uint64_t size = clv_workspace_size(s.workspaces[0], dev);
    assert_int_equal(size, f.plans[0]->devices[0].memory.size);
    /* A second exec takes no more; one of a larger plan as much more. */
    clv_exec *same, *larger;
    const uint64_t room = atomic_load(&dev->local_bytes);
    assert_ok(clv_exec_create_in(f.plans[0], s.workspaces[0], &same));
    assert_int_equal(atomic_load(&dev->local_bytes), room);
    clv_graph *g;
    clv_plan *plan;
    assert_ok(clv_graph_create(&g));
    const clv_dim dims[] = {clv_dim_fixed(4096), clv_dim_fixed(C)};
    clv_value x = clv_graph_input(g, "x", CLV_DTYPE_F32, 2, dims);
    clv_value y = x;
    for (int i = 0; i < 3; i++)
        y = clv_graph_add(g, y, x);
    clv_graph_output(g, y, "y");
    assert_ok(clv_plan_create(f.t.ctx, g, NULL, &plan));
    assert_ok(clv_exec_create_in(plan, s.workspaces[0], &larger));
    assert_int_equal(clv_workspace_size(s.workspaces[0], dev),
                     plan->devices[0].memory.size);
    assert_true(plan->devices[0].memory.size > size);
    assert_int_equal(atomic_load(&dev->local_bytes),
                     room + plan->devices[0].memory.size - size);
    /* The first finds its values in the new memory. */
    float *in = clv_tensor_data(clv_exec_tensor(larger, x));
    in[0] = 1;
    while (s.done < ROWS) {
        submit(&f, &s, 0, 1);
        assert_ok(clv_exec_run(larger, NULL, 0));
        collect(&f, &s, 0);
    }
    assert_memory_equal(s.y, want, sizeof want);
    assert_true(*(float *)clv_tensor_data(clv_exec_tensor(larger, y)) == 4);
    clv_exec_destroy(larger);
    clv_exec_destroy(same);
    clv_plan_destroy(plan);
    clv_graph_destroy(g);
    close_session(&s);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleavings), cmocka_unit_test(test_memories),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_turns),         cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_loss),          cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
