/*
 * The simulation of devices on one memory, by cases worked out by hand.
 */
#include "../../plugins/npu_sim/sim.h"
#include "../core/test.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PHASES 4

typedef struct job {
    npu_sim_job sim;
    npu_phase phases[MAX_PHASES];
    npu_sim_point waits[2], signal;
    npu_counter done;
} job;

typedef struct rig {
    npu_sim sim;
    npu_sim_device devices[3];
    job jobs[64];
    uint32_t n_jobs, n_done;
} rig;

static void count_done(void *ctx, npu_sim_job *j)
{
    (void)j;
    ((rig *)ctx)->n_done++;
}

static void setup(rig *r, uint64_t bandwidth)
{
    memset(r, 0, sizeof *r);
    r->sim.bandwidth = bandwidth;
    for (int i = 0; i < 3; i++) {
        r->devices[i].done = count_done;
        r->devices[i].ctx = r;
        npu_sim_add(&r->sim, &r->devices[i]);
    }
}

/* A job of one phase. */
static job *push(rig *r, uint32_t device, uint64_t fixed, uint64_t work,
                 uint64_t bytes, job *after)
{
    job *j = &r->jobs[r->n_jobs++];
    j->phases[0] =
        (npu_phase){.fixed_ns = fixed, .work_ns = work, .bytes = bytes};
    j->signal = (npu_sim_point){&j->done, 1};
    j->sim = (npu_sim_job){.phases = j->phases,
                           .n_phases = 1,
                           .waits = j->waits,
                           .signals = &j->signal,
                           .n_signals = 1};
    if (after) {
        j->waits[0] = (npu_sim_point){&after->done, 1};
        j->sim.n_waits = 1;
    }
    j->sim.release = r->sim.host;
    npu_sim_push(&r->devices[device], &j->sim);
    return j;
}

static uint64_t end_of(rig *r, const job *j)
{
    return npu_sim_when(&r->sim, &j->done, 1, NPU_NEVER);
}

static void test_queue(void **state)
{
    (void)state;
    rig r;
    setup(&r, 0);
    npu_sim_spend(&r.sim, 100);
    job *a = push(&r, 0, 10, 1000, 0, NULL), *b = push(&r, 0, 5, 500, 0, NULL);
    job *c = push(&r, 1, 0, 200, 0, b);
    assert_int_equal(end_of(&r, c), 100 + 1010 + 505 + 200);
    assert_int_equal(a->done.reached_at, 1110);
    assert_int_equal(b->sim.begin, 1110);
    assert_int_equal(r.n_done, 3);
    assert_int_equal(npu_sim_next(&r.sim), NPU_NEVER);
}

/* Both want 8 of 10 bytes a ns: each runs at 5/8. When one ends, the other gets
 * what it wants. */
static void test_sharing(void **state)
{
    (void)state;
    rig r;
    setup(&r, 10000000000u);
    job *a = push(&r, 0, 0, 1000, 8000, NULL);
    job *b = push(&r, 1, 0, 2000, 16000, NULL);
    assert_int_equal(end_of(&r, a), 1600);
    assert_int_equal(end_of(&r, b), 1600 + 1000);
}

/* One wants 2, its share is 5: the other gets 8. */
static void test_max_min(void **state)
{
    (void)state;
    rig r;
    setup(&r, 10000000000u);
    job *a = push(&r, 0, 0, 1000, 2000, NULL);
    job *b = push(&r, 1, 0, 1000, 8000, NULL);
    assert_int_equal(end_of(&r, a), 1000);
    assert_int_equal(end_of(&r, b), 1000);
    /* Three: 2, 8 and 8 of 10: 2, 4 and 4. */
    setup(&r, 10000000000u);
    a = push(&r, 0, 0, 1000, 2000, NULL);
    b = push(&r, 1, 0, 1000, 8000, NULL);
    job *c = push(&r, 2, 0, 1000, 8000, NULL);
    assert_int_equal(end_of(&r, a), 1000);
    /* Half is left of b and c; two share 10, which is 5/8 each. */
    assert_int_equal(end_of(&r, b), 1000 + 800);
    assert_int_equal(end_of(&r, c), 1800);
}

/* The fixed part takes no bandwidth. */
static void test_fixed_part(void **state)
{
    (void)state;
    rig r;
    setup(&r, 10000000000u);
    job *a = push(&r, 0, 0, 1000, 10000, NULL);
    job *b = push(&r, 1, 1000, 1000, 10000, NULL);
    assert_int_equal(end_of(&r, a), 1000);
    assert_int_equal(end_of(&r, b), 2000);
}

/* What happened before the host's time is not changed by later work. */
static void test_final(void **state)
{
    (void)state;
    rig r;
    setup(&r, 10000000000u);
    job *a = push(&r, 0, 0, 1000, 10000, NULL);
    npu_sim_spend(&r.sim, 600);
    npu_sim_catch_up(&r.sim);
    job *b = push(&r, 1, 0, 1000, 10000, NULL);
    assert_int_equal(end_of(&r, a), 600 + 800);
    assert_int_equal(end_of(&r, b), 1400 + 600);
}

static void test_host_signal(void **state)
{
    (void)state;
    rig r;
    npu_counter gate = {0};
    setup(&r, 0);
    job *a = push(&r, 0, 0, 100, 0, NULL);
    a->waits[0] = (npu_sim_point){&gate, 5};
    a->sim.n_waits = 1;
    assert_int_equal(end_of(&r, a), NPU_NEVER);
    npu_sim_spend(&r.sim, 70);
    npu_sim_raise(&r.sim, &gate, 5);
    assert_int_equal(end_of(&r, a), 170);
    /* A limit is kept. */
    job *b = push(&r, 0, 0, 1000, 0, NULL);
    assert_int_equal(npu_sim_when(&r.sim, &b->done, 1, 500), NPU_NEVER);
    assert_int_equal(end_of(&r, b), 1170);
}

static void test_drop_and_busy(void **state)
{
    (void)state;
    rig r;
    setup(&r, 0);
    job *a = push(&r, 0, 0, 100, 0, NULL);
    push(&r, 0, 0, 900, 0, NULL);
    end_of(&r, a);
    npu_sim_spend(&r.sim, 400);
    npu_sim_catch_up(&r.sim);
    assert_int_equal(npu_sim_busy_ns(&r.sim, &r.devices[0]), 400);
    npu_sim_drop(&r.sim, &r.devices[0]);
    assert_int_equal(r.n_done, 2);
    npu_sim_spend(&r.sim, 400);
    npu_sim_catch_up(&r.sim);
    assert_int_equal(npu_sim_busy_ns(&r.sim, &r.devices[0]), 400);
}

static job *push_link(rig *r, uint32_t device, npu_link link, uint64_t bytes)
{
    job *j = push(r, device, 0, bytes, bytes, NULL); /* 1 GB/s */
    j->phases[0].link = link;
    return j;
}

/* Engines of device 0, which share its link and its time, but not its queue. */
static void test_engines(void **state)
{
    (void)state;
    rig r;
    setup(&r, 0);
    r.devices[1].whole = r.devices[2].whole = &r.devices[0];
    job *work = push(&r, 0, 0, 5000, 9000, NULL);
    job *in = push_link(&r, 1, NPU_LINK_IN, 1000);
    job *out = push_link(&r, 2, NPU_LINK_OUT, 3000);
    assert_int_equal(end_of(&r, work), 5000);
    assert_int_equal(in->sim.end, 1000);
    assert_int_equal(out->sim.end, 3000);
    npu_sim_spend(&r.sim, 7000);
    npu_sim_catch_up(&r.sim);
    assert_int_equal(npu_sim_busy_ns(&r.sim, &r.devices[0]), 5000);

    /* One direction is divided; what is left of it is for who is left. */
    job *a = push_link(&r, 1, NPU_LINK_IN, 1000);
    job *b = push_link(&r, 2, NPU_LINK_IN, 3000);
    assert_int_equal(end_of(&r, a), 7000 + 2000);
    assert_int_equal(end_of(&r, b), 7000 + 4000);
    npu_sim_spend(&r.sim, 5000);
    npu_sim_catch_up(&r.sim);
    assert_int_equal(npu_sim_busy_ns(&r.sim, &r.devices[0]), 9000);

    /* And the memory that all devices share: 1 GB/s each of 2. */
    setup(&r, 2000000000u);
    r.devices[1].whole = &r.devices[0];
    a = push_link(&r, 1, NPU_LINK_IN, 3000);
    b = push(&r, 2, 0, 1000, 4000, NULL); /* could have 4 */
    assert_int_equal(end_of(&r, a), 3000);
    assert_int_equal(end_of(&r, b), 3500);
}

/* A random run gives the same times whenever and however often the host
 * looks. */
static uint64_t random_run(unsigned seed, bool looks, uint64_t ends[64])
{
    static rig r;
    setup(&r, 7000000000u);
    srand(seed);
    for (int i = 0; i < 64; i++) {
        uint32_t device = (uint32_t)rand() % 3;
        uint64_t work = (uint64_t)rand() % 5000;
        uint64_t bytes = (uint64_t)rand() % 40000;
        job *after = r.n_jobs && rand() % 2
                         ? &r.jobs[(uint32_t)rand() % r.n_jobs]
                         : NULL;
        push(&r, device, (uint64_t)rand() % 50, work, bytes, after);
        uint64_t pause = (uint64_t)rand() % 700;
        for (uint64_t ns = 0; looks && ns + 1 < pause; ns++) {
            npu_sim_spend(&r.sim, 1);
            npu_sim_catch_up(&r.sim);
        }
        npu_sim_spend(&r.sim, looks && pause ? 1 : pause);
        npu_sim_catch_up(&r.sim);
    }
    uint64_t last = 0;
    for (int i = 0; i < 64; i++) {
        ends[i] = end_of(&r, &r.jobs[i]);
        assert_int_not_equal(ends[i], NPU_NEVER);
        ends[i] = r.jobs[i].sim.end;
        last = ends[i] > last ? ends[i] : last;
    }
    return last;
}

static void test_repeats(void **state)
{
    (void)state;
    uint64_t a[64], b[64];
    for (unsigned seed = 1; seed <= 50; seed++) {
        assert_int_equal(random_run(seed, false, a), random_run(seed, true, b));
        assert_memory_equal(a, b, sizeof a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_max_min),
        cmocka_unit_test(test_fixed_part),
        cmocka_unit_test(test_final),
        cmocka_unit_test(test_host_signal),
        cmocka_unit_test(test_drop_and_busy),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
