/*
 * Plans as text and as pictures: layers that repeat are written once, times are
 * those of the forecast, and names cannot break the format.
 */
#include "../plugins/ref/context.h"

#include "../../planner/forecast/forecast.h"
#include "../../planner/planner.h"
#include "../../tools/views/svg.h"
#include "../../tools/views/views.h"

#include "message.h"

#define LAYERS 5
#define TOKENS 4
#define WIDTH 64
#define HOSTILE "1<b>&\"|\x01\xff\\"

typedef struct fixture {
    test_context t;
    clv_graph *graph;
    clv_tensor *weights[2 * LAYERS];
    clv_plan *plan;
} fixture;

/* 1 ns for each 100 multiply-adds. */
static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    (void)ctx;
    (void)dev;
    *out = (planner_cost){.ns = 1000 + planner_workload_flops(workload) / 200,
                          .energy_nj = 1e6};
    return true;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    static const planner_overheads some = {
        .submit = 100, .submit_idle = 200, .dispatch = 300, .wait_poll = 50};
    (void)ctx;
    (void)dev;
    return &some;
}

static double no_bound(const void *ctx, clv_device *const *devs, uint32_t n)
{
    (void)ctx;
    (void)devs;
    (void)n;
    return 0;
}

static double no_slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                          uint32_t index)
{
    (void)ctx;
    (void)devs;
    (void)n;
    (void)index;
    return 1;
}

static clv_value weight(fixture *f, uint32_t i, const char *name)
{
    const int64_t dims[] = {WIDTH, WIDTH};
    assert_ok(
        clv_tensor_create(f->t.ctx, CLV_DTYPE_F32, 2, dims, &f->weights[i]));
    return clv_graph_weight(f->graph, name, f->weights[i]);
}

/* Layers of matmul, silu, matmul, add; hostile: the name of their first
 * weights, or NULL. */
static void build(fixture *f, const char *hostile)
{
    const clv_dim dims[] = {clv_dim_fixed(TOKENS), clv_dim_fixed(WIDTH)};
    assert_ok(clv_graph_create(&f->graph));
    clv_value x = clv_graph_input(f->graph, "x", CLV_DTYPE_F32, 2, dims);
    for (uint32_t i = 0; i < LAYERS; i++) {
        char up[32], down[32];
        snprintf(up, sizeof up, "blk.%u.up.weight", i);
        snprintf(down, sizeof down, "blk.%u.down.weight", i);
        clv_value u = weight(f, 2 * i, hostile ? hostile : up);
        clv_value d = weight(f, 2 * i + 1, down);
        clv_value y = clv_graph_matmul(f->graph, x, u, CLV_NO_TENSOR);
        y = clv_graph_silu(f->graph, y);
        y = clv_graph_matmul(f->graph, y, d, CLV_NO_TENSOR);
        x = clv_graph_add(f->graph, x, y);
    }
    clv_graph_output(f->graph, x, "y");
}

/* Rows of the first product on both devices, the second on the other one in
 * layer `odd`. */
static void make_plan(fixture *f, uint32_t odd)
{
    core_piece pieces[5 * LAYERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        core_piece *p = &pieces[n];
        memset(p, 0, 5 * sizeof *p);
        p[0].node = p[1].node = 4 * i;
        p[0].ranges[CORE_AXIS_ROWS] = (core_range){0, 48};
        p[1].ranges[CORE_AXIS_ROWS] = (core_range){48, WIDTH};
        p[1].device = 1;
        p[2].node = 4 * i + 1;
        p[3].node = 4 * i + 2;
        p[3].device = i == odd;
        p[4].node = 4 * i + 3;
        n += 5;
    }
    assert_ok(
        planner_from_pieces(f->t.ctx, f->graph, NULL, pieces, n, &f->plan));
}

static void foresee(fixture *f)
{
    const planner_costs costs = {NULL, cost, overheads, no_bound, no_slowdown};
    assert_ok(planner_forecast_make(f->plan, &costs, NULL, &f->plan->forecast));
}

static fixture begin(const char *hostile, uint32_t odd)
{
    fixture f = {.t = test_context_create("")};
    build(&f, hostile);
    make_plan(&f, odd);
    return f;
}

static void finish(fixture *f)
{
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->graph);
    for (int i = 0; i < 2 * LAYERS; i++)
        clv_tensor_destroy(f->weights[i]);
    test_context_destroy(&f->t);
}

static char *print(const fixture *f, const char *format)
{
    char *text;
    assert_ok(view_plan(f->plan, format, &text));
    return text;
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

static void assert_has(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("no '%s' in:\n%s", what, text);
}

static void test_folded(void **state)
{
    (void)state;
    fixture f = begin(NULL, LAYERS);
    char *md = print(&f, "md");
    assert_has(md, "| 0 | matmul blk.0.up.weight, rows 48..64 | f32 [4,16] |");
    assert_has(md, "| 4..19 | blk.1 to blk.4 as blk.0 |");
    assert_int_equal(count(md, "up.weight"), 2);
    assert_has(md, " | as steps ");
    assert_null(strstr(md, "Predicted"));
    clv_string_free(md);
    finish(&f);
}

/* A layer that is planned in another way is seen. */
static void test_odd_layer(void **state)
{
    (void)state;
    fixture f = begin(NULL, 2);
    char *md = print(&f, "md");
    assert_has(md, "blk.1 as blk.0");
    assert_has(md, "matmul blk.2.down.weight | f32 [4,64] |");
    assert_has(md, "blk.4 as blk.3");
    clv_string_free(md);
    finish(&f);
}

static void test_times(void **state)
{
    (void)state;
    fixture f = begin(NULL, LAYERS);
    foresee(&f);
    f.plan->choices[1].alternative = strdup("all on | ref:1");
    f.plan->choices[1].alternative_ns = 98765432;
    clv_plan_summary summary = clv_plan_summarise(f.plan);
    assert_true(summary.predicted_ns == f.plan->forecast->makespan_ns);
    assert_true(summary.predicted_nj > 1e6);
    char *md = print(&f, "md"), text[64];
    /* 48 rows of 64 inputs for 4 tokens: 1000 + 122.88 ns, after an idle submit
     * and the dispatch. */
    assert_has(md, "| ref:0 | 0.001 | 0.002 | 0.001 |");
    assert_has(md, "all on \\| ref:1: 98.765 ms in all");
    snprintf(text, sizeof text, "Predicted: 0.0%02d ms, ",
             (int)(summary.predicted_ns / 1000 + 0.5));
    assert_has(md, text);
    clv_string_free(md);
    char *json = print(&f, "json");
    assert_has(json, "\"submit\":[0,200],\"runs\":[200,");
    assert_has(json, "\"runs\":[500,1623],\"alone_ns\":1123}");
    assert_has(json, "\"alternative\":\"all on | ref:1\","
                     "\"alternative_ns\":98765432}");
    clv_string_free(json);
    finish(&f);
}

static void test_drawn(void **state)
{
    (void)state;
    fixture f = begin(NULL, LAYERS);
    foresee(&f);
    char *svg = print(&f, "svg");
    const char *save = getenv("CLEAVE_TEST_SVG");
    FILE *file = save ? fopen(save, "w") : NULL;
    if (file) {
        fputs(svg, file);
        fclose(file);
    }
    assert_has(svg, "blk.0 to blk.4 are alike");
    assert_has(svg, "<title>matmul blk.2.up.weight, rows 0..48 on ref:0: ");
    assert_has(svg, "waits before step ");
    assert_has(svg, "critical device ref:0, without work for ");
    assert_has(svg, ">host</text>");
    /* One layer is large. */
    assert_int_equal(count(svg, "<title>matmul blk.2.up.weight"), 2);
    assert_int_equal(count(svg, "<title>matmul blk.0.up.weight"), 0);
    clv_string_free(svg);
    finish(&f);
}

static void test_hostile_names(void **state)
{
    (void)state;
    fixture f = begin(HOSTILE, LAYERS);
    foresee(&f);
    char *svg = print(&f, "svg"), *md = print(&f, "md");
    char *json = print(&f, "json");
    assert_null(strstr(svg, "<b>"));
    for (const char *c = svg; *c; c++)
        if ((unsigned char)*c < ' ' && *c != '\n')
            fail_msg("byte %d in a picture", *c);
    assert_null(strchr(md, '\x01'));
    assert_has(md, "1<b>&\"\\| \xef\xbf\xbd\\\\");
    assert_has(json, "1<b>&\\\"|\\u0001\xef\xbf\xbd\\\\");
    clv_string_free(svg);
    clv_string_free(md);
    clv_string_free(json);
    finish(&f);
}

static char *svg_of(const char *title)
{
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    svg_begin(file, 10, 20, title);
    svg_end(file);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void test_xml(void **state)
{
    (void)state;
    char *text = svg_of(HOSTILE "\xc3\xa4\xef\xbf\xbe\xe2\x82");
    assert_has(text, "<title>1&#60;b&#62;&#38;&#34;|\xef\xbf\xbd"
                     "\xef\xbf\xbd\\\xc3\xa4\xef\xbf\xbd"
                     "\xef\xbf\xbd\xef\xbf\xbd</title>");
    assert_has(text, "viewBox=\"0 0 10 20\" width=\"10.00\"");
    free(text);
}

/* Without costs there is nothing to draw. */
static void test_no_costs(void **state)
{
    (void)state;
    fixture f = begin(NULL, LAYERS);
    char *text;
    assert_int_equal(view_plan(f.plan, "svg", &text), CLV_ERR_NOT_FOUND);
    assert_message("costs are not known|cleave profile");
    assert_null(text);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded),        cmocka_unit_test(test_odd_layer),
        cmocka_unit_test(test_times),         cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_hostile_names), cmocka_unit_test(test_xml),
        cmocka_unit_test(test_no_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
