/*
 * Plans on random simulated chips (chips.h), in virtual time. Without noise a
 * forecast is right and no plan slower than the best device alone. With noise
 * plans are made again when their runs teach something; after some runs the
 * plan in use is compared with all that were tried, over many runs.
 *
 * With an argument: so many chips, and a table.
 */
#include "chips.h"
#include "layers.h"
#include "tmpdir.h"

#include "../../core/device/device.h"
#include "../../core/plan/plan.h"

#define RUNS 5     /* before a plan has to be good */
#define TURNS 15   /* in which plans are compared, */
#define REPEATS 15 /* of so many runs each */
#define MAX_TRIED 16

static uint32_t n_chips = 8;
static tmpdir dir;

typedef struct chip {
    clv_config *config;
    clv_context *ctx;
    layers l;
    clv_tensor *states[2 * 4];
    clv_plan *tried[MAX_TRIED];
    double ns[MAX_TRIED]; /* the mean of their runs */
    uint32_t n_tried, n_alone;
} chip;

static void open_chip(chip *c, uint64_t seed, double noise)
{
    char text[1200];
    test_random r = {seed * 7919};
    const layers_shape shape = {.n_layers = 2,
                                .hidden = 1024,
                                .heads = 8,
                                .groups = 2,
                                .head_dim = 128,
                                .ffn = 2048 + 1024 * test_below(&r, 3),
                                .vocabulary = 1024,
                                .context = 512,
                                .tokens = test_below(&r, 2) ? 1 : 256,
                                .dtype = test_below(&r, 2) ? CLV_DTYPE_I8
                                                           : CLV_DTYPE_I4,
                                .quant = CLV_QUANT_PER_CHANNEL};
    *c = (chip){.config = NULL};
    assert_ok(clv_config_create(&c->config));
    chips_describe(c->config, seed, noise);
    snprintf(text, sizeof text, "core.plugin_dirs=%s/plugins",
             getenv("CLEAVE_TEST_BUILD"));
    assert_ok(clv_config_set(c->config, text, "test"));
    snprintf(text, sizeof text, "core.cache_dir=%s/%llu-%g", dir.path,
             (unsigned long long)seed, noise);
    assert_ok(clv_config_set(c->config, text, "test"));
    static const char *const settings[] = {
        "core.plugins=npu_sim", "core.allow_unsafe_plugins=on",
        "core.probe=off", "npu_sim.compute=off", "core.plan=tensor"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_ok(clv_config_set(c->config, settings[i], "test"));
    assert_ok(clv_context_create(&(clv_context_params){.config = c->config},
                                 &c->ctx));
    layers_build(&c->l, c->ctx, &shape);
}

static void close_chip(chip *c)
{
    for (uint32_t i = 0; i < c->n_tried; i++)
        clv_plan_destroy(c->tried[i]);
    layers_free(&c->l);
    for (int i = 0; i < 8; i++)
        clv_tensor_destroy(c->states[i]);
    clv_context_destroy(c->ctx);
    clv_config_destroy(c->config);
}

static clv_exec *open_exec(chip *c, clv_plan *plan)
{
    clv_exec *exec;
    uint32_t n = 0;
    assert_ok(clv_exec_create(plan, &exec));
    for (uint32_t v = 0; v < c->l.graph->n_tensors; v++) {
        const clv_tensor_desc *desc = &c->l.graph->tensors[v];
        if (desc->usage != CLV_USAGE_STATE || c->l.graph->values[v].base != v)
            continue;
        if (!c->states[n])
            assert_ok(clv_tensor_create(c->ctx, desc->dtype, desc->rank,
                                        desc->dims, &c->states[n]));
        assert_ok(clv_exec_bind(exec, v, c->states[n++]));
    }
    return exec;
}

static double run(const chip *c, clv_exec *exec)
{
    core_moment begin, end;
    const int64_t rows[] = {256};
    clv_device *dev = clv_context_device(c->ctx, 0);
    assert_ok(core_device_now(dev, &begin));
    assert_ok(clv_exec_run(exec, rows, 1));
    assert_ok(core_device_now(dev, &end));
    return end.ns - begin.ns;
}

/* The place of a plan among those tried. */
static uint32_t try_plan(chip *c, clv_plan *plan)
{
    for (uint32_t i = 0; i < c->n_tried; i++)
        if (clv_plan_equal(plan, c->tried[i])) {
            clv_plan_destroy(plan);
            return i;
        }
    assert_true(c->n_tried < MAX_TRIED);
    c->tried[c->n_tried] = plan;
    return c->n_tried++;
}

/* What the plans take: in turns, so that drift is the same for all. The first
 * run of a turn may have to bring the states. */
static void compare(chip *c)
{
    clv_exec *execs[MAX_TRIED];
    for (uint32_t i = 0; i < c->n_tried; i++)
        execs[i] = open_exec(c, c->tried[i]);
    for (int k = 0; k < TURNS; k++)
        for (uint32_t i = 0; i < c->n_tried; i++) {
            run(c, execs[i]);
            for (int j = 0; j < REPEATS; j++)
                c->ns[i] += run(c, execs[i]) / (TURNS * REPEATS);
        }
    for (uint32_t i = 0; i < c->n_tried; i++)
        clv_exec_destroy(execs[i]);
}

/* Each device alone, as far as it takes everything. */
static void try_devices(chip *c)
{
    for (uint32_t d = 0; d < clv_context_device_count(c->ctx); d++) {
        clv_plan *plan;
        clv_device *dev = clv_context_device(c->ctx, d);
        const clv_plan_params params = {&dev, 1};
        if (!clv_plan_create(c->ctx, c->l.graph, &params, &plan))
            try_plan(c, plan);
    }
    c->n_alone = c->n_tried;
    assert_true(c->n_alone);
}

static clv_plan *plan_for(chip *c)
{
    clv_plan *plan;
    assert_ok(clv_plan_create(c->ctx, c->l.graph, NULL, &plan));
    return plan;
}

static double least(const chip *c, uint32_t n)
{
    double ns = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        ns = fmin(ns, c->ns[i]);
    return ns;
}

/* Without noise a run takes what was predicted, and no device alone less. */
static void test_exact(void **state)
{
    (void)state;
    double worst = 0, sum = 0, slowest = 0;
    for (uint64_t seed = 1; seed <= n_chips; seed++) {
        chip c;
        clv_prediction prediction;
        const int64_t rows[] = {256};
        open_chip(&c, seed, 0);
        try_devices(&c);
        uint32_t chosen = try_plan(&c, plan_for(&c));
        compare(&c);
        assert_ok(clv_plan_predict(c.tried[chosen], rows, 1, &prediction));
        double off = fabs(prediction.ns / c.ns[chosen] - 1);
        worst = fmax(worst, off);
        slowest = fmax(slowest, c.ns[chosen] / least(&c, c.n_alone));
        sum += off;
        close_chip(&c);
    }
    print_message("%u exact chips: predictions off by %.2f%% in the mean, "
                  "%.1f%% at most; at most %.3f of the best device alone\n",
                  n_chips, 100 * sum / n_chips, 100 * worst, slowest);
    assert_true(sum < 0.02 * n_chips && worst < 0.2);
    assert_true(slowest < 1.03);
}

/* Runs, and plans again when they taught something: the place of the plan in
 * use among those tried. */
static uint32_t learn(chip *c)
{
    clv_plan *plan = plan_for(c);
    for (int i = 0; i < RUNS;) {
        clv_exec *exec = open_exec(c, plan);
        clv_learned learned = CLV_LEARNED_NOTHING;
        for (; i < RUNS && learned != CLV_LEARNED_COSTS; i++) {
            run(c, exec);
            assert_ok(clv_exec_learn(exec, &learned));
        }
        clv_exec_destroy(exec);
        try_plan(c, plan);
        plan = plan_for(c);
    }
    return try_plan(c, plan);
}

static void test_noise(void **state)
{
    (void)state;
    uint32_t far = 0, slower = 0, replanned = 0;
    double worst = 1, sum = 0;
    for (uint64_t seed = 1; seed <= n_chips; seed++) {
        chip c;
        open_chip(&c, seed, 0.2);
        try_devices(&c);
        uint32_t chosen = learn(&c);
        compare(&c);
        double by = c.ns[chosen] / least(&c, c.n_tried);
        far += by > 1.03;
        slower += c.ns[chosen] > 1.01 * least(&c, c.n_alone);
        replanned += c.n_tried > c.n_alone + 1;
        worst = fmax(worst, by);
        sum += by - 1;
        close_chip(&c);
    }
    print_message("%u chips with noise: %u replanned; after %d runs %u are "
                  "more than 3%% from the best tried, %u slower than a device "
                  "alone by 1%%; %.2f%% in the mean, %.1f%% at most\n",
                  n_chips, replanned, RUNS, far, slower, 100 * sum / n_chips,
                  100 * (worst - 1));
    assert_true(far <= 0.25 * n_chips && slower <= 0.25 * n_chips);
    assert_true(sum < 0.03 * n_chips);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_noise),
    };
    if (argc > 1)
        n_chips = (uint32_t)strtoul(argv[1], NULL, 10);
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
