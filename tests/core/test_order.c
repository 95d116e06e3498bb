/* Which nodes become steps, and in which order these are submitted. */
#include "../plugins/ref/context.h"

#include "../../planner/planner.h"

#define COLUMNS 8
#define MAX_NODES 16

typedef struct fixture {
    test_context t;
    clv_graph *g;
    clv_value x;
    clv_plan *plan;
} fixture;

static fixture begin(const char *settings)
{
    fixture f = {.t = test_context_create(settings)};
    const clv_dim dims[] = {clv_dim_fixed(4), clv_dim_fixed(COLUMNS)};
    assert_ok(clv_graph_create(&f.g));
    f.x = clv_graph_input(f.g, "x", CLV_DTYPE_F32, 2, dims);
    return f;
}

/* devices: one digit a node; 'c': half of the columns on each, device 1 first.
 */
static void plan(fixture *f, const char *devices)
{
    core_piece pieces[2 * MAX_NODES];
    uint32_t n = 0;
    for (uint32_t i = 0; devices[i]; i++) {
        bool cut = devices[i] == 'c';
        pieces[n++] = (core_piece){
            .node = i,
            .device = cut ? 1 : (uint32_t)(devices[i] - '0'),
            .ranges = {[CORE_AXIS_ROWS] = {0, cut ? COLUMNS / 2 : 0}}};
        if (cut)
            pieces[n++] = (core_piece){
                .node = i,
                .ranges = {[CORE_AXIS_ROWS] = {COLUMNS / 2, COLUMNS}}};
    }
    assert_ok(planner_from_pieces(f->t.ctx, f->g, NULL, pieces, n, &f->plan));
}

static void finish(fixture *f)
{
    clv_plan_destroy(f->plan);
    clv_graph_destroy(f->g);
    test_context_destroy(&f->t);
}

/* "0:0,1 1:2<0.1": device 0 runs nodes 0 and 1, then device 1 node 2, once
 * device 0 has done its first step. Nodes are those of the source. */
static void check_steps(const fixture *f, const char *want)
{
    const clv_plan *p = f->plan;
    char text[512] = "";
    size_t at = 0;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const core_step *step = &p->steps[s];
        at += (size_t)sprintf(text + at, "%s%u:", s ? " " : "", step->device);
        for (uint32_t i = 0; i < step->n_parts; i++) {
            uint32_t node = p->parts[step->first_part + i].node;
            at += (size_t)sprintf(text + at, "%s%u", i ? "," : "",
                                  p->cut.graph ? p->cut.sources[node] : node);
        }
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &p->waits[step->first_wait + i];
            at += (size_t)sprintf(text + at, "<%u.%u", wait->device,
                                  (unsigned)wait->value);
        }
    }
    assert_string_equal(text, want);
}

/* What nobody asks for in between is one step, and so is what waits for it. */
static void test_joined(void **state)
{
    (void)state;
    fixture f = begin("");
    clv_value q = clv_graph_silu(f.g, f.x), k = clv_graph_silu(f.g, f.x);
    clv_value v = clv_graph_silu(f.g, f.x);
    clv_value a = clv_graph_silu(f.g, q), b = clv_graph_silu(f.g, k);
    clv_graph_output(f.g, clv_graph_add(f.g, clv_graph_add(f.g, a, b), v), "y");
    plan(&f, "0001111");
    check_steps(&f, "0:0,1,2 1:3,4,5,6<0.1");
    finish(&f);
}

/* A device does not keep another one waiting for what both can do at once. */
static void test_side_by_side(void **state)
{
    (void)state;
    fixture f = begin("");
    clv_value norm = clv_graph_silu(f.g, f.x);
    clv_value q = clv_graph_silu(f.g, norm), k = clv_graph_silu(f.g, norm);
    clv_graph_output(f.g, clv_graph_add(f.g, q, k), "y");
    plan(&f, "1cc1");
    check_steps(&f, "1:0 1:1,2 0:1,2<1.1 1:3<0.1");
    finish(&f);
}

/* The host does not wait for device 0 while device 0 lacks work that needs
 * nothing of others. */
static void test_ready_goes_first(void **state)
{
    (void)state;
    fixture f = begin("");
    clv_value a = clv_graph_silu(f.g, f.x), b = clv_graph_silu(f.g, a);
    clv_value c = clv_graph_silu(f.g, f.x), d = clv_graph_silu(f.g, c);
    clv_graph_output(f.g, clv_graph_add(f.g, b, d), "y");
    plan(&f, "01010");
    check_steps(&f, "0:0 0:2 1:1<0.1 1:3<0.2 0:4<1.2");
    finish(&f);
}

/* Of two devices to wait for, the one that is done sooner. */
static void test_sooner_goes_first(void **state)
{
    (void)state;
    fixture f = begin("");
    const clv_dim wide[] = {clv_dim_fixed(400), clv_dim_fixed(COLUMNS)};
    clv_value big = clv_graph_input(f.g, "big", CLV_DTYPE_F32, 2, wide);
    clv_value a = clv_graph_silu(f.g, big); /* long, on device 0 */
    clv_value b = clv_graph_silu(f.g, f.x); /* short, on device 1 */
    clv_graph_output(f.g, clv_graph_silu(f.g, a), "y");
    clv_graph_output(f.g, clv_graph_silu(f.g, b), "z");
    plan(&f, "0110");
    check_steps(&f, "0:0 1:1 0:3<1.1 1:2<0.1");
    finish(&f);
}

/* A device that waits by itself gets its steps at once. */
static void test_waiting_device(void **state)
{
    (void)state;
    fixture f = begin("ref.flag_wait1=on");
    clv_value a = clv_graph_silu(f.g, f.x), b = clv_graph_silu(f.g, a);
    clv_value c = clv_graph_silu(f.g, b), d = clv_graph_silu(f.g, c);
    clv_graph_output(f.g, d, "y");
    plan(&f, "0101");
    check_steps(&f, "0:0 1:1<0.1 0:2<1.1 1:3<0.2");
    finish(&f);
}

/* Programs stay below what a device allows: here 600 bytes, of 256 for a node.
 * A node that is too large alone is the device's to refuse. */
static void test_program_size(void **state)
{
    (void)state;
    fixture f = begin("");
    clv_device *dev = clv_context_device(f.t.ctx, 0);
    clv_value y = f.x;
    for (int i = 0; i < 5; i++)
        y = clv_graph_silu(f.g, y);
    clv_graph_output(f.g, y, "y");
    dev->info.program_size = 600;
    plan(&f, "00000");
    check_steps(&f, "0:0,1 0:2,3 0:4");
    clv_plan_destroy(f.plan);
    dev->info.program_size = 100;
    plan(&f, "00011");
    check_steps(&f, "0:0 0:1 0:2 1:3,4<0.3");
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_ready_goes_first),
        cmocka_unit_test(test_sooner_goes_first),
        cmocka_unit_test(test_waiting_device),
        cmocka_unit_test(test_program_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
