/*
 * Profiles: what is measured, and what is answered.
 */
#include "profile_rig.h"

#include "../../planner/profile/trial.h"

#include <cjson/cJSON.h>

#include <pthread.h>
#include <stdatomic.h>

/* What works have taken so far; other threads read the clocks, too. */
static atomic_uint_fast64_t spent_ns;
static uint64_t work_ns; /* for a work, where passes() follows it */

static void passes(void)
{
    atomic_fetch_add(&spent_ns, work_ns);
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* Time passes faster by what works have taken. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const uint64_t spent = atomic_load(&spent_ns);
    int failed = __real_clock_gettime(clock, now);
    now->tv_sec += (time_t)(spent / 1000000000u);
    now->tv_nsec += (long)(spent % 1000000000u);
    now->tv_sec += now->tv_nsec / 1000000000;
    now->tv_nsec %= 1000000000;
    return failed;
}

/* ------------------------------------------------------------------------ */

static void test_costs(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "");
    planner_cost c;
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 128, 128);
    assert_false(cost(&r, r.a, &workload, &c));
    /* What is usual for such a device, until it is measured. */
    assert_true(planner_profile_overheads(r.profile, r.a)->submit > 0);
    assert_ok(cover(&r, NULL));
    assert_true(fake.workloads > 100);
    assert_int_equal(fake.overheads, 2);

    /* What was measured, as measured. */
    assert_true(cost(&r, r.a, &workload, &c));
    assert_true(c.measured && c.ns == time_of(r.a, &workload) &&
                c.energy_nj == 2 * c.ns);
    assert_true(cost(&r, r.b, &workload, &c));
    assert_true(c.measured && c.ns == time_of(r.b, &workload));

    /* Else by a model, which finds the bend. */
    for (int64_t n = 1; n < 128; n += 7) {
        workload.n = n;
        workload.out = 13 * n;
        assert_true(cost(&r, r.a, &workload, &c));
        if (fabs(c.ns / time_of(r.a, &workload) - 1) > 0.02)
            fail_msg("%g, not %g", c.ns, time_of(r.a, &workload));
        assert_false(c.measured);
        assert_true(fabs(c.energy_nj / c.ns - 2) < 1e-9);
        assert_true(cost(&r, r.b, &workload, &c));
        if (n > 16 && fabs(c.ns / time_of(r.b, &workload) - 1) > 0.10)
            fail_msg("%g, not %g", c.ns, time_of(r.b, &workload));
    }
    /* Of kinds that were not measured, the roofline. */
    workload = work_at(&r, CLV_OP_ROPE, 8, 8);
    assert_true(cost(&r, r.a, &workload, &c));
    workload.kind.op = CLV_OP_SOFTMAX;
    double bytes, flops;
    core_profile_top(r.profile, r.a, &bytes, &flops);
    assert_true(cost(&r, r.a, &workload, &c) && !c.measured);
    assert_float_equal(c.ns,
                       fmax(planner_workload_bytes(&workload) / bytes,
                            planner_workload_flops(&workload) / flops),
                       1e-9 * c.ns);

    const planner_overheads *o = planner_profile_overheads(r.profile, r.a);
    assert_true(o->submit == 1000 && o->copy_byte == 0.25);
    rig_free(&r);
}

/* What was disturbed is answered by a model of the rest. */
static void test_noise(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.cache_dir=");
    fake.noisy = 4;
    assert_ok(cover(&r, NULL));
    uint32_t modelled = 0, n = 0;
    for (int64_t rows = 1; rows <= 128; rows *= 2) {
        planner_cost c;
        planner_workload workload = work_at(&r, CLV_OP_MATMUL, rows, rows);
        assert_true(cost(&r, r.a, &workload, &c));
        if (fabs(c.ns / time_of(r.a, &workload) - 1) > 0.02)
            fail_msg("%g, not %g", c.ns, time_of(r.a, &workload));
        modelled += !c.measured;
        n++;
    }
    assert_true(modelled && modelled < n);
    rig_free(&r);
}

static void test_what_is_wanted(void **state)
{
    (void)state;
    rig r;
    planner_workloads list;
    static const int64_t lengths[] = {1, 32, 64, 512};
    rig_make(&r, "");
    const clv_graph *g = r.layer.graph;
    clv_op_caps *caps = calloc(g->n_nodes, sizeof *caps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        bool no = g->nodes[i].op == CLV_OP_RMS_NORM;
        caps[i] =
            (clv_op_caps){.answer = no ? CLV_ANSWER_NO : CLV_ANSWER_STATIC,
                          .static_shapes = lengths,
                          .n_static = 4,
                          .split_axes = CLV_SPLIT_ROWS | CLV_SPLIT_HEADS,
                          .split_granularity = {64, 0, 0, 2}};
    }
    assert_ok(planner_profile_workloads(g, caps, false, &list));
    bool parts = false, most = false;
    for (uint32_t i = 0; i < list.n; i++) {
        const planner_workload *w = &list.items[i].workload;
        assert_int_not_equal(w->kind.op, CLV_OP_RMS_NORM);
        assert_true(w->n == 1 || w->n == 32 || w->n == 64);
        assert_true(!w->depth || (w->depth >= w->n && w->depth <= 256));
        for (uint32_t j = 0; j < i; j++)
            assert_false(planner_workload_equal(w, &list.items[j].workload));
        if (i)
            assert_true(list.items[i].rank >= list.items[i - 1].rank);
        if (w->kind.op != CLV_OP_MATMUL)
            continue;
        parts |= w->out < 256 && w->in == 704;
        most |= w->out == 704;
        assert_true(w->out % 64 == 0 || w->out == 1000);
        assert_true(w->in == 256 || w->in == 704); /* no channels */
    }
    assert_true(parts && most);
    uint32_t quick = list.n;
    planner_workloads_finish(&list);
    assert_ok(planner_profile_workloads(g, caps, true, &list));
    assert_true(list.n > quick);
    planner_workloads_finish(&list);
    free(caps);
    rig_free(&r);
}

static void test_together(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "");
    clv_device *both[] = {r.a, r.b}, *turned[] = {r.b, r.a};
    assert_true(planner_profile_bandwidth(r.profile, both, 2) == 0);
    assert_true(planner_profile_slowdown(r.profile, both, 2, 1) == 1);
    const clv_profile_params one = {.devices = both, .n_devices = 1};
    assert_ok(cover(&r, &one));
    assert_int_equal(fake.contentions, 0);
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.contentions, 1);
    assert_true(planner_profile_bandwidth(r.profile, both, 2) == 50);
    assert_true(planner_profile_bandwidth(r.profile, turned, 2) == 50);
    assert_true(planner_profile_bandwidth(r.profile, both, 1) == 30);
    assert_true(planner_profile_slowdown(r.profile, both, 2, 1) == 2.5);
    assert_true(planner_profile_slowdown(r.profile, turned, 2, 1) == 1.5);
    assert_true(planner_profile_slowdown(r.profile, both, 1, 0) == 1);
    rig_free(&r);
}

/* With the weights that a graph has, each once. */
static void test_together_weights(void **state)
{
    (void)state;
    rig r;
    test_layer other;
    test_shape another = *shape;
    rig_make(&r, "");
    assert_ok(cover(&r, NULL));
    const uint32_t before = fake.contentions; /* it may be in the cache */
    another.dtype = CLV_DTYPE_Q4_0;
    test_layer_make(&other, r.test.ctx, &another);
    assert_ok(clv_profile_graph(r.test.ctx, other.graph, NULL));
    assert_int_equal(fake.contentions, before + 1);
    assert_int_equal(fake.together, CLV_DTYPE_Q4_0);
    assert_ok(cover(&r, NULL));
    assert_ok(clv_profile_graph(r.test.ctx, other.graph, NULL));
    assert_int_equal(fake.contentions, before + 1);
    test_layer_free(&other);
    rig_free(&r);
}

static int stop(void *ctx, const char *what, double fraction)
{
    uint32_t *left = ctx;
    assert_non_null(strstr(what, "ref"));
    assert_true(fraction >= 0 && fraction <= 1);
    return (*left)-- == 0;
}

static void test_cancelled(void **state)
{
    (void)state;
    rig r;
    uint32_t left = 20;
    rig_make(&r, "core.cache_dir=");
    const clv_profile_params params = {.progress = stop, .progress_ctx = &left};
    assert_int_equal(cover(&r, &params), CLV_ERR_CANCELLED);
    assert_int_equal(fake.workloads, 20);
    assert_ok(cover(&r, NULL)); /* goes on where it stopped */
    uint32_t all = fake.workloads;
    rig_free(&r);
    rig_make(&r, "core.cache_dir=");
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.workloads, all);
    rig_free(&r);
}

static void test_device_fails(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.cache_dir=");
    fake.status = CLV_ERR_INTERNAL;
    fake.after = 50;
    assert_ok(cover(&r, NULL));
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 1, 1);
    assert_true(cost(&r, r.a, &workload, &c)); /* has what came before */
    assert_false(cost(&r, r.b, &workload, &c));
    fake.status = CLV_OK;
    assert_ok(cover(&r, NULL));
    assert_true(cost(&r, r.b, &workload, &c));
    fake.status = CLV_ERR_NO_MEMORY;
    const clv_profile_params again = {.again = true};
    assert_int_equal(cover(&r, &again), CLV_ERR_NO_MEMORY);
    rig_free(&r);
}

/* Only what the user asks for is measured. */
static void test_off(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.cache_dir= core.profile=off");
    const planner_profile_params params = {
        .devices = (clv_device *const[]){r.a, r.b}, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.workloads + fake.overheads + fake.contentions, 0);
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 1, 1);
    assert_false(cost(&r, r.a, &workload, &c));
    assert_ok(cover(&r, NULL));
    assert_true(cost(&r, r.a, &workload, &c));
    rig_free(&r);
}

/* Works of a real device are measured for a second; of a simulated one all that
 * are wanted, however slow the machine is, up to ten seconds. */
static void test_time_for_works(void **state)
{
    static const struct {
        uint32_t clock;
        uint64_t work_ns;
        bool all;
    } cases[] = {{CLV_CLOCK_REAL, 1000, true},
                 {CLV_CLOCK_REAL, 5000000, false},
                 {CLV_CLOCK_VIRTUAL, 5000000, true},
                 {CLV_CLOCK_VIRTUAL, 1000000000, false}};
    uint32_t wanted = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_make(&r, "core.cache_dir=");
        r.a->info.clock = cases[i].clock;
        fake.worked = passes;
        work_ns = cases[i].work_ns;
        const clv_profile_params params = {
            .devices = &r.a, .n_devices = 1, .again = true};
        assert_ok(cover(&r, &params));
        wanted = wanted ? wanted : fake.workloads;
        if (cases[i].all)
            assert_int_equal(fake.workloads, wanted);
        else
            assert_in_range(fake.workloads, 6, wanted - 1);
        rig_free(&r);
    }
    assert_true(wanted > 60);
}
/* ------------------------------------------------------------------------ */

static void test_printed(void **state)
{
    (void)state;
    rig r;
    char *text;
    rig_make(&r, "core.cache_dir=");
    assert_ok(clv_profile_print(r.test.ctx, &r.a, 1, "md", &text));
    assert_non_null(strstr(text, "Nothing is measured"));
    clv_string_free(text);
    assert_ok(cover(&r, NULL));
    assert_ok(clv_profile_print(r.test.ctx, NULL, 0, "md", &text));
    assert_non_null(strstr(text, "## ref:0"));
    assert_non_null(strstr(text, "| matmul f32 x q8_0 |"));
    assert_non_null(strstr(text, "## Together"));
    clv_string_free(text);

    assert_ok(clv_profile_print(r.test.ctx, NULL, 0, "json", &text));
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    const cJSON *devices = cJSON_GetObjectItem(json, "devices");
    assert_int_equal(cJSON_GetArraySize(devices), 2);
    const cJSON *kinds = cJSON_GetObjectItem(cJSON_GetArrayItem(devices, 1),
                                             "kinds"),
                *kind;
    bool tree = false;
    cJSON_ArrayForEach (kind, kinds)
        tree |=
            !strcmp(cJSON_GetObjectItem(kind, "model")->valuestring, "tree") &&
            cJSON_GetObjectItem(kind, "leaves")->valueint > 1;
    assert_true(tree);
    cJSON_Delete(json);
    clv_string_free(text);
    assert_int_equal(clv_profile_print(r.test.ctx, NULL, 0, "csv", &text),
                     CLV_ERR_INVALID);
    assert_null(text);
    rig_free(&r);
}

static void test_refused(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.cache_dir=");
    clv_device *twice[] = {r.a, r.a};
    const clv_profile_params params = {.devices = twice, .n_devices = 2};
    assert_int_equal(cover(&r, &params), CLV_ERR_INVALID);
    assert_error_says("twice");
    clv_graph *broken;
    assert_ok(clv_graph_create(&broken));
    clv_graph_add(broken, 0, 1);
    assert_int_equal(clv_profile_graph(r.test.ctx, broken, NULL),
                     clv_graph_check(broken));
    assert_int_not_equal(clv_graph_check(broken), CLV_OK);
    clv_graph_destroy(broken);
    rig_free(&r);
}

/* Plans ask while another thread measures. */
static _Atomic bool asking;

static void *ask(void *arg)
{
    const rig *r = arg;
    planner_workload workload = work_at(r, CLV_OP_MATMUL, 100, 100);
    planner_cost c;
    clv_device *both[] = {r->a, r->b};
    while (atomic_load(&asking)) {
        if (cost(r, r->a, &workload, &c) && !(c.ns > 0))
            return arg;
        planner_profile_overheads(r->profile, r->b);
        planner_profile_bandwidth(r->profile, both, 2);
    }
    return NULL;
}

static void test_asked_meanwhile(void **state)
{
    (void)state;
    rig r;
    pthread_t thread;
    void *wrong;
    rig_make(&r, "core.cache_dir=");
    const clv_profile_params again = {.again = true};
    atomic_store(&asking, true);
    assert_int_equal(pthread_create(&thread, NULL, ask, &r), 0);
    for (int i = 0; i < 3; i++)
        assert_ok(cover(&r, &again));
    atomic_store(&asking, false);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    rig_free(&r);
}

/* Unasked, a device with a real clock is measured by two products; the rest
 * follows from its roofline. What is asked for later is still measured. */
static void test_first_look(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.profile=auto core.cache_dir=");
    clv_device *devices[] = {r.a, r.b};
    const planner_profile_params params = {.devices = devices, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_true(fake.workloads >= 2 && fake.workloads <= 4);
    assert_int_equal(fake.overheads, 0);
    planner_workload workload = work_at(&r, CLV_OP_ROPE, 8, 8);
    assert_true(cost(&r, r.a, &workload, &c) && c.ns > 0 && !c.measured);
    assert_ok(cover(&r, NULL));
    assert_true(fake.workloads > 100);
    assert_int_equal(fake.overheads, 2);
    rig_free(&r);
}

/* The first look times copies of a device with memory of its own; all else
 * about submits and waits is what is usual. */
static void test_first_copies(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.profile=auto core.cache_dir= "
                 "ref.memory0=local,coherent");
    clv_device *devices[] = {r.a, r.b};
    const planner_profile_params params = {.devices = devices, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.copies, 1);
    const planner_overheads *o = planner_profile_overheads(r.profile, r.a);
    const planner_overheads *start = planner_usual_overheads(r.a);
    assert_float_equal(o->copy_byte, 0.02, 1e-9);
    assert_float_equal(o->submit, start->submit, 1e-9);
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.copies, 1);
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.overheads, 2); /* asked for, all is measured */
    rig_free(&r);
}

/* A third of the shorter times are disturbed: differences one by one would say
 * 80, where 560 is right. */
static void test_disturbed_differences(void **state)
{
    double more[] = {640, 644, 640, 980, 641, 640, 643, 640, 642};
    double less[] = {80, 560, 81, 80, 562, 80, 82, 560, 80};
    double mean[] = {4, 4, 7}, means[] = {1, 2, 3};
    (void)state;
    assert_float_equal(planner_above(false, more, less, 9), 560, 1);
    assert_float_equal(planner_above(true, mean, means, 3), 3, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEPS(test_costs),
        cmocka_unit_test(test_noise),
        KEEPS(test_what_is_wanted),
        KEEPS(test_together),
        KEEPS(test_together_weights),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_asked_meanwhile),
        cmocka_unit_test(test_time_for_works),
        cmocka_unit_test(test_first_copies),
        cmocka_unit_test(test_first_look),
        cmocka_unit_test(test_disturbed_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
