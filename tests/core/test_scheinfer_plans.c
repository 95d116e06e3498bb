/*
 * Plans against ScheInfer's formulas: MLPs on simulated devices whose times are
 * the lines of Table I, with a card that holds part of the weights. How much of
 * them it holds is taken from the plan; with as much, no r_cg of the paper's
 * should be much faster than the plan's run is.
 *
 * Launches take no time on both sides: the paper has a stream for them, while
 * here one thread submits to the card and to the CPU.
 */
#include "scheinfer.h"
#include "layers.h"
#include "tmpdir.h"

#include "../../core/plan/plan.h"

#include <math.h>
#include <stdio.h>

#define LAYERS 2
#define PRODUCTS (3 * LAYERS)
/* Plans may take so much longer than the formulas have it: half of them, and
 * all. */
#define MEDIAN 1.02
#define MOST 1.05

static tmpdir dir;

/* Of LLaMA-2-13B and LLaMA-2-70B. */
static const int64_t width[SCHEINFER_FORMATS] = {5120, 8192},
                     hidden[SCHEINFER_FORMATS] = {13824, 28672};

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    layers l;
    clv_value x;
} world;

static void set(world *w, const char *key, double value)
{
    char text[256];
    snprintf(text, sizeof text, "%s=%.9g", key, value);
    assert_ok(clv_config_set(w->config, text, "test"));
}

/* n multiplications take alpha + n * beta: no bandwidth bounds them. */
static void describe(world *w, const char *device, const char *kind,
                     scheinfer_line line)
{
    char text[128];
    const char *const words[] = {"model=roofline", "precision=f16"};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "npu_sim:%s.%s", device, words[i]);
        assert_ok(clv_config_set(w->config, text, "test"));
    }
    snprintf(text, sizeof text, "npu_sim:%s.kind=%s", device, kind);
    assert_ok(clv_config_set(w->config, text, "test"));
    snprintf(text, sizeof text, "npu_sim:%s.f16_tflops", device);
    set(w, text, 2e-12 / line.beta);
    snprintf(text, sizeof text, "npu_sim:%s.f32_tflops", device);
    set(w, text, 2e-12 / line.beta);
    snprintf(text, sizeof text, "npu_sim:%s.bandwidth", device);
    set(w, text, 1e5);
    snprintf(text, sizeof text, "npu_sim:%s.launch_us", device);
    set(w, text, line.alpha * 1e6);
}

static void build_mlp(world *w, scheinfer_format format, int64_t tokens)
{
    layers *l = &w->l;
    const clv_dim dims[] = {clv_dim_fixed(tokens),
                            clv_dim_fixed(width[format])};
    *l = (layers){.ctx = w->ctx};
    l->shape.dtype = format == SCHEINFER_FP16 ? CLV_DTYPE_F16 : CLV_DTYPE_I4;
    l->shape.quant = format == SCHEINFER_FP16 ? 0 : CLV_QUANT_PER_CHANNEL;
    assert_ok(clv_graph_create(&l->graph));
    w->x = clv_graph_input(l->graph, "x", CLV_DTYPE_F32, 2, dims);
    clv_value x = w->x;
    for (int i = 0; i < LAYERS; i++) {
        clv_value gate = layers_linear(l, x, hidden[format], width[format]);
        clv_value up = layers_linear(l, x, hidden[format], width[format]);
        clv_value h = clv_graph_glu(l->graph, gate, up, CLV_ACT_SILU);
        x = layers_linear(l, h, width[format], hidden[format]);
    }
    clv_graph_output(l->graph, x, "y");
    assert_ok(clv_graph_check(l->graph));
}

static void open_world(world *w, const scheinfer_testbed *t,
                       scheinfer_format format, int64_t tokens, double memory)
{
    char text[2048], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins core.plugins=npu_sim "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off "
             "core.plan=tensor npu_sim.compute=off npu_sim:card.copy_queues=1",
             getenv("CLEAVE_TEST_BUILD"), dir.path);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    describe(w, "card", "gpu", t->gpu[format]);
    describe(w, "cpu", "cpu", t->cpu[format]);
    set(w, "npu_sim:card.memory", memory);
    set(w, "npu_sim:card.link", 0.5e-9 / t->link.beta);
    set(w, "npu_sim:card.copy_us", t->link.alpha * 1e6);
    const clv_context_params params = {.config = w->config};
    assert_ok(clv_context_create(&params, &w->ctx));
    build_mlp(w, format, tokens);
    assert_ok(clv_profile_graph(w->ctx, w->l.graph, NULL));
}

static void close_world(world *w)
{
    layers_free(&w->l);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

/* Part of the weights that each lane computes with. */
typedef struct rates {
    double held, streamed;
} rates;

static rates rates_of(const clv_plan *plan)
{
    rates r = {0, 0};
    for (uint32_t i = 0; i < plan->n_pieces; i++) {
        const core_piece *p = &plan->pieces[i];
        const clv_node *node = &plan->source->nodes[p->node];
        double part = 1;
        if (node->op != CLV_OP_MATMUL ||
            strcmp(plan->devices[p->device].dev->id, "npu_sim:card") != 0 ||
            p->ranges[CORE_AXIS_SEQUENCE].begin > 0)
            continue;
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (a != CORE_AXIS_SEQUENCE && p->ranges[a].end)
                part *= (double)(p->ranges[a].end - p->ranges[a].begin) /
                        (double)core_cut_extent(plan->source, p->node, a);
        *(p->streamed ? &r.streamed : &r.held) += part / PRODUCTS;
    }
    return r;
}

/* By the simulation's clock; weights are where they are held before. */
static double run_s(world *w, clv_plan *plan)
{
    clv_exec *exec;
    clv_moment before, after;
    clv_device *dev = clv_context_device(w->ctx, 0);
    assert_ok(clv_exec_create(plan, &exec));
    assert_ok(clv_exec_run(exec, NULL, 0));
    assert_ok(clv_device_now(dev, &before));
    assert_ok(clv_exec_run(exec, NULL, 0));
    assert_ok(clv_device_now(dev, &after));
    clv_exec_destroy(exec);
    return (after.ns - before.ns) * 1e-9;
}

static double compare(const scheinfer_testbed *t, scheinfer_format format,
                      int64_t tokens, double part)
{
    static const char *const formats[] = {"FP16", "INT4"};
    double m_h = (double)(width[format] * hidden[format]), r_cg, n_g = 0;
    scheinfer_mlp m =
        scheinfer_mlp_of(t, format, (double)tokens, m_h, PRODUCTS);
    scheinfer_mlp one = scheinfer_mlp_of(t, format, 1, m_h, PRODUCTS);
    m.launch = one.launch = 0;
    world w;
    clv_plan *plan;
    double values =
        4.0 * (double)(tokens * (3 * hidden[format] + 4 * width[format]));
    open_world(
        &w, t, format, tokens,
        ceil((part * PRODUCTS * m.n_w + values + 2 * m.n_w) * 8 / 7 / 1048576));
    assert_ok(clv_plan_create(w.ctx, w.l.graph, NULL, &plan));
    rates r = rates_of(plan);
    double ours = run_s(&w, plan);
    double theirs = scheinfer_best(&m, r.held, &r_cg);
    if (tokens > 1) { /* divided for single tokens */
        double decode;
        scheinfer_best(&one, r.held, &decode);
        theirs = fmin(
            theirs, scheinfer_prompt(&m, (double)tokens, r.held, decode, &n_g));
    }
    print_message("%s %s, %4d tokens: held %.2f, streamed %.2f (%.2f): %8.3f "
                  "ms, formulas %8.3f, %.3f\n",
                  t->name, formats[format], (int)tokens, r.held, r.streamed,
                  r_cg, ours * 1e3, theirs * 1e3, ours / theirs);
    clv_plan_destroy(plan);
    close_world(&w);
    return ours / theirs;
}

static int by_value(const void *a, const void *b)
{
    const double *p = a, *q = b;
    return (*p > *q) - (*p < *q);
}

static void test_lanes(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 32};
    static const double memories[] = {0.15, 0.5};
    double ratios[SCHEINFER_TESTBEDS * SCHEINFER_FORMATS * 4];
    size_t count = 0;
    for (int t = 0; t < SCHEINFER_TESTBEDS; t++)
        for (int f = 0; f < SCHEINFER_FORMATS; f++)
            for (int n = 0; n < 2; n++)
                for (int m = 0; m < 2; m++)
                    ratios[count++] = compare(&scheinfer_testbeds[t], f,
                                              lengths[n], memories[m]);
    qsort(ratios, count, sizeof *ratios, by_value);
    print_message("median %.3f, worst %.3f\n", ratios[count / 2],
                  ratios[count - 1]);
    assert_true(ratios[count / 2] <= MEDIAN);
    assert_true(ratios[count - 1] <= MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes),
    };
    if (!tmpdir_make(&dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tmpdir_remove(&dir);
    return failed;
}
