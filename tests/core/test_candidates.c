/*
 * Candidates: whatever devices are there, every option is a plan that can be
 * had, divides its node, and says of each piece exactly what it reads; sets of
 * devices are done together, static devices get their lengths, and linked nodes
 * are cut at the same points.
 */
#include "../plugins/ref/context.h"
#include "../../core/device/caps.h"

#include "../../core/graph/cut.h"
#include "../../planner/candidates/candidates.h"
#include "../../planner/planner.h"

#include "layers.h"
#include "message.h"

#include <math.h>

#define MAX_DEVICES 4

/* Devices as rooflines whose programs pad to their lengths. */
typedef struct machine {
    double flops[MAX_DEVICES], bytes[MAX_DEVICES]; /* a ns */
    double together;                               /* bytes/ns; 0: no limit */
    planner_overheads overheads;
    uint32_t unknown; /* op that nobody knows the cost of; 0: none */
} machine;

typedef struct scene {
    clv_config *config;
    clv_context *ctx;
    machine machine;
    layers l;
    clv_plan *plan; /* each node on the first device that takes it */
    clv_op_caps *caps;
    planner_candidates c;
} scene;

static uint32_t index_of(const clv_device *dev)
{
    for (uint32_t i = 0; i < clv_context_device_count(dev->ctx); i++)
        if (clv_context_device(dev->ctx, i) == dev)
            return i;
    return 0;
}

static bool cost(const void *ctx, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    const machine *m = ctx;
    uint32_t d = index_of(dev);
    double compute = planner_workload_flops(workload) / m->flops[d];
    double memory = planner_workload_bytes(workload) / m->bytes[d];
    *out = (planner_cost){.ns = 10 + (compute > memory ? compute : memory),
                          .energy_nj = 1};
    return workload->kind.op != m->unknown;
}

static const planner_overheads *overheads(const void *ctx,
                                          const clv_device *dev)
{
    (void)dev;
    return &((const machine *)ctx)->overheads;
}

static double bandwidth(const void *ctx, clv_device *const *devs, uint32_t n)
{
    (void)devs, (void)n;
    return ((const machine *)ctx)->together;
}

static double slowdown(const void *ctx, clv_device *const *devs, uint32_t n,
                       uint32_t index)
{
    (void)ctx, (void)devs, (void)n, (void)index;
    return 1;
}

static const machine equal = {
    .flops = {100, 100, 100, 100},
    .bytes = {10, 10, 10, 10},
    .overheads = {
        .submit = 100, .submit_idle = 500, .dispatch = 200, .wait_poll = 100}};

static const layers_shape small = {.n_layers = 2,
                                   .hidden = 256,
                                   .heads = 8,
                                   .groups = 4,
                                   .head_dim = 32,
                                   .ffn = 512,
                                   .vocabulary = 320,
                                   .context = 64,
                                   .tokens = 48,
                                   .dtype = CLV_DTYPE_F16};

static planner_costs costs_of(const machine *m)
{
    return (planner_costs){m, cost, overheads, bandwidth, slowdown};
}

/* ------------------------------------------------------------------------ */

/* settings: lines "section.key=value"; file: of a chip, or NULL. */
static void open_scene(scene *s, const char *file, const char *settings)
{
    char path[1024], text[2048], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    const char *source = getenv("CLEAVE_TEST_SOURCE");
    memset(s, 0, sizeof *s);
    s->machine = equal;
    assert_ok(clv_config_create(&s->config));
    if (file) {
        snprintf(path, sizeof path, "%s/conf/soc/%s.ini", source, file);
        assert_ok(clv_config_load_file(s->config, path));
    }
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins "
             "core.cache_dir=%s/tests/core core.allow_unsafe_plugins=on "
             "core.plan=first %s",
             build, build, build, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(s->config, word, "test"));
    clv_context_params params = {.config = s->config};
    assert_ok(clv_context_create(&params, &s->ctx));
    assert_true(clv_context_device_count(s->ctx) <= MAX_DEVICES);
}

static void set_graph(scene *s, const layers_shape *shape)
{
    uint32_t n_devices = clv_context_device_count(s->ctx);
    layers_build(&s->l, s->ctx, shape);
    clv_subgraph view = core_graph_view(s->l.graph);
    s->caps = calloc((size_t)n_devices * s->l.graph->n_nodes, sizeof *s->caps);
    assert_non_null(s->caps);
    for (uint32_t d = 0; d < n_devices; d++)
        assert_ok(core_device_caps(clv_context_device(s->ctx, d), &view,
                                   s->caps + (size_t)d * s->l.graph->n_nodes));
    assert_ok(clv_plan_create(s->ctx, s->l.graph, NULL, &s->plan));
}

static clv_status make(scene *s, planner_strategy strategy)
{
    const planner_costs costs = costs_of(&s->machine);
    planner_candidates_finish(&s->c);
    return planner_candidates_make(s->plan, s->caps, &costs, strategy, 0, NULL,
                                   &s->c);
}

/* Makes candidates near these options of those that there are. */
static void make_near(scene *s, const uint32_t *options, uint32_t parts,
                      planner_candidates *before)
{
    const planner_costs costs = costs_of(&s->machine);
    *before = s->c;
    const planner_near near = {before, options, parts};
    assert_ok(planner_candidates_make(
        s->plan, s->caps, &costs, PLANNER_STRATEGY_TENSOR, 0, &near, &s->c));
}

static void drop_graph(scene *s)
{
    planner_candidates_finish(&s->c);
    clv_plan_destroy(s->plan);
    free(s->caps);
    layers_free(&s->l);
}

static void close_scene(scene *s)
{
    drop_graph(s);
    clv_context_destroy(s->ctx);
    clv_config_destroy(s->config);
}

/* ------------------------------------------------------------------------ */
/* What holds of every option                                                */

static bool same_box(const planner_box *a, const planner_box *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* The box of a value of the cut graph in its base; of a state, whose rows are
 * not known, that of `like`. */
static planner_box box_of(const clv_graph *g, clv_value value,
                          const planner_box *like)
{
    const clv_tensor_desc *d = &g->tensors[value];
    const core_value *v = &g->values[value];
    uint32_t last = d->rank - 1;
    planner_box box = {.end = {1, 0}};
    if (last) {
        box.begin[0] = v->origin[0];
        box.end[0] = v->origin[0] + d->dims[0];
    }
    box.begin[1] = v->origin[last];
    box.end[1] = v->origin[last] + d->dims[last];
    if (d->usage == CLV_USAGE_STATE) {
        box.begin[0] = like->begin[0];
        box.end[0] = like->end[0];
    }
    return box;
}

/* Dep d of a node is what its operand reads. */
static void check_needs(const scene *s, const core_cut *cut, uint32_t at,
                        uint32_t node, const planner_solve_piece *piece)
{
    const clv_graph *source = s->l.graph;
    const clv_node *whole = &source->nodes[node];
    const clv_node *part = &cut->graph->nodes[at];
    const planner_solve_node *n = &s->c.nodes[node];
    uint32_t found = 0;
    for (uint32_t i = 0; i < whole->n_inputs; i++) {
        clv_value value = whole->inputs[i];
        if (value == CLV_NO_TENSOR)
            continue;
        bool state = source->tensors[value].usage == CLV_USAGE_STATE;
        for (uint32_t d = 0; d < n->n_deps; d++) {
            const clv_node *dep = &source->nodes[n->deps[d]];
            if (state ? dep->op != CLV_OP_SET_ROWS || dep->inputs[0] != value
                      : !dep->n_outputs || dep->outputs[0] != value)
                continue;
            planner_box box =
                box_of(cut->graph, part->inputs[i], &piece->needs[d]);
            if (!same_box(&box, &piece->needs[d]))
                fail_msg("node %u reads another box of dep %u", node, d);
            found++;
        }
    }
    assert_true(found >= n->n_deps);
}

static double area(const planner_box *b)
{
    return (double)(b->end[0] - b->begin[0]) *
           (double)(b->end[1] - b->begin[1]);
}

/* Everything but the node is whole, on the first device that takes it. */
static uint32_t pieces_with(const scene *s, uint32_t node, uint32_t option,
                            core_piece *pieces)
{
    const planner_solve_option *o = &s->c.options[option];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->l.graph->n_nodes; i++) {
        if (i != node) {
            pieces[n++] = s->plan->pieces[i];
            continue;
        }
        for (uint32_t j = 0; j < o->n_pieces; j++) {
            core_piece cut = s->c.cuts[o->first_piece + j];
            if (cut.node == CORE_NO_PIECE)
                continue;
            cut.node = node;
            pieces[n++] = cut;
        }
    }
    return n;
}

static void check_option(const scene *s, uint32_t node, uint32_t option)
{
    const planner_solve_option *o = &s->c.options[option];
    core_piece pieces[512];
    clv_plan *plan;
    uint32_t n = pieces_with(s, node, option, pieces), at = 0, taken = 0;
    double sum = 0;
    clv_status status =
        planner_from_pieces(s->ctx, s->l.graph, NULL, pieces, n, &plan);
    if (status)
        fail_msg("node %u option %u: %s", node, option, clv_last_error());
    core_cut cut;
    assert_ok(core_cut_make(s->l.graph, pieces, n, &cut));
    while (cut.sources[at] != node)
        at++;
    for (uint32_t j = 0; j < o->n_pieces; j++) {
        const planner_solve_piece *p = &s->c.pieces[o->first_piece + j];
        const clv_node *part = &cut.graph->nodes[at + j];
        assert_true(isfinite(p->ns) && p->ns > 0);
        if (p->joins) { /* of three and more sums one piece stands for all */
            taken++;
            sum += area(&p->out);
            continue;
        }
        assert_int_equal(cut.sources[at + j], node);
        assert_int_equal(cut.devices[at + j], p->device);
        assert_int_equal(p->device, s->c.cuts[o->first_piece + j].device);
        check_needs(s, &cut, at + j, node, p);
        if (p->partial)
            continue;
        sum += area(&p->out);
        if (part->n_outputs) {
            planner_box box = box_of(cut.graph, part->outputs[0], NULL);
            assert_true(same_box(&box, &p->out));
        }
    }
    /* Out boxes fill the result. */
    const clv_node *whole = &s->l.graph->nodes[node];
    const clv_tensor_desc *d =
        &s->l.graph
             ->tensors[whole->n_outputs ? whole->outputs[0] : whole->inputs[1]];
    assert_true(sum == (d->rank > 1 ? (double)d->dims[0] : 1) *
                           (double)d->dims[d->rank - 1]);
    core_cut_finish(&cut);
    clv_plan_destroy(plan);
}

/* Checks all options of one node of each class; how many have several pieces.
 */
static uint32_t check_all(const scene *s)
{
    const planner_solve_problem *p = &s->c.problem;
    uint32_t cuts = 0;
    bool seen[512] = {0};
    assert_int_equal(p->n_nodes, s->l.graph->n_nodes);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const planner_solve_node *n = &p->nodes[i];
        assert_in_range(n->n_options, 1, 80);
        for (uint32_t d = 0; d < n->n_deps; d++)
            assert_true(n->deps[d] < i);
        if (seen[n->class])
            continue;
        seen[n->class] = true;
        for (uint32_t o = 0; o < n->n_options; o++) {
            check_option(s, i, n->first_option + o);
            cuts += p->options[n->first_option + o].n_pieces > 1;
        }
    }
    return cuts;
}

static uint32_t try_scene(const char *file, const char *settings,
                          const layers_shape *shape)
{
    scene s;
    open_scene(&s, file, settings);
    s.machine.flops[0] = 300;
    set_graph(&s, shape);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t cuts = check_all(&s);
    close_scene(&s);
    return cuts;
}

#define REF "core.plugins=ref core.devices=ref "

static void test_reference(void **state)
{
    (void)state;
    layers_shape shape = small;
    assert_true(try_scene(NULL, REF, &shape) > 50);
    shape.dtype = CLV_DTYPE_Q8_0;
    shape.bias = true;
    assert_true(try_scene(NULL, REF "ref.align0=64 ref.align1=16", &shape) >
                50);
    shape.dtype = CLV_DTYPE_I4;
    shape.quant = CLV_QUANT_PER_GROUP;
    shape.quant_group = 32;
    assert_true(try_scene(NULL, REF "ref.align0=128", &shape) > 40);
    shape.quant = CLV_QUANT_PER_CHANNEL;
    shape.quant_group = 0;
    assert_true(try_scene(NULL, REF "ref.stride_align1=256", &shape) > 20);
    shape.tokens = 0;
    shape.max_tokens = 48;
    assert_true(try_scene(NULL, REF, &shape) > 30);
    shape.askew = true;
    assert_true(try_scene(NULL, REF "ref.align0=64", &shape) > 20);
}

/* Limits that the whole keeps to and parts need not. */
static void test_odd_limits(void **state)
{
    (void)state;
    assert_true(
        try_scene(NULL, REF "ref.rows0=0,0,32 ref.rows1=100,0,0", &small) > 30);
    assert_true(try_scene(NULL, REF "ref.sequence0=5,48,3", &small) > 30);
    assert_true(try_scene(NULL, REF "ref.channels1=64,0,64 ref.split0=on",
                          &small) > 30);
    assert_int_equal(try_scene(NULL, REF "ref.import1=off", &small), 0);
    assert_true(try_scene(NULL, REF "ref.static0=16,32", &small) > 20);
    assert_int_equal(try_scene(NULL, REF "ref.split0=off", &small), 0);
}

static void test_cpu_sections(void **state)
{
    (void)state;
    assert_true(try_scene(NULL,
                          "core.plugins=cpu cpu:a.threads=1 cpu:b.threads=1",
                          &small) > 50);
    layers_shape shape = small;
    shape.dtype = CLV_DTYPE_Q8_0;
    shape.tokens = 0;
    shape.max_tokens = 32;
    assert_true(try_scene(NULL,
                          "core.plugins=cpu cpu:a.threads=1 cpu:b.threads=1 "
                          "cpu:c.threads=1",
                          &shape) > 50);
}

static void test_chips(void **state)
{
    (void)state;
    layers_shape shape = small;
    shape.dtype = CLV_DTYPE_I4;
    shape.quant = CLV_QUANT_PER_CHANNEL;
    shape.context = 640;
    static const int64_t lengths[] = {1, 256, 300, 600};
    for (int i = 0; i < 4; i++) {
        shape.tokens = lengths[i];
        assert_true(
            try_scene("snapdragon-8gen3", "core.plugins=npu_sim", &shape) > 20);
        assert_true(try_scene("two-npus", "core.plugins=npu_sim", &shape) > 20);
        assert_true(try_scene("int8-npu", "core.plugins=npu_sim", &shape) > 10);
    }
}

/* ------------------------------------------------------------------------ */
/* Where cuts are                                                            */

static uint32_t find_node(const scene *s, uint32_t op, uint32_t skip)
{
    for (uint32_t i = 0; i < s->l.graph->n_nodes; i++)
        if (s->l.graph->nodes[i].op == op && !skip--)
            return i;
    fail_msg("there are not so many nodes of op %u", op);
    return 0;
}

/* Products of the first layer, in order; the rest follows. */
enum { Q, K, V, O, GATE, UP, DOWN };

static const core_piece *cut_of(const scene *s, uint32_t option, uint32_t i)
{
    return &s->c.cuts[s->c.options[option].first_piece + i];
}

/* Calls for each option of two pieces that are cut along the axis alone. */
static uint32_t next_pair(const scene *s, uint32_t node, uint32_t axis,
                          uint32_t *at)
{
    const planner_solve_node *n = &s->c.nodes[node];
    for (; *at < n->n_options; ++*at) {
        uint32_t option = n->first_option + *at, pieces = 0, others = 0;
        for (uint32_t i = 0; i < s->c.options[option].n_pieces; i++) {
            const core_piece *cut = cut_of(s, option, i);
            pieces += cut->node != CORE_NO_PIECE && cut->ranges[axis].end;
            for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
                others += a != axis && cut->ranges[a].end;
        }
        if (pieces == 2 && !others) {
            ++*at;
            return option;
        }
    }
    return UINT32_MAX;
}

/* Elements of the axis that a device has in an option. */
static int64_t share_of(const scene *s, uint32_t option, uint32_t axis,
                        uint32_t device)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->c.options[option].n_pieces; i++) {
        const core_piece *cut = cut_of(s, option, i);
        if (cut->node != CORE_NO_PIECE && cut->device == device)
            sum += cut->ranges[axis].end - cut->ranges[axis].begin;
    }
    return sum;
}

static bool has_share(const scene *s, uint32_t node, uint32_t axis,
                      uint32_t device, int64_t least, int64_t most)
{
    uint32_t at = 0, option;
    while ((option = next_pair(s, node, axis, &at)) != UINT32_MAX) {
        int64_t share = share_of(s, option, axis, device);
        if (share >= least && share <= most)
            return true;
    }
    return false;
}

#define TWO_THAT_COMPUTE(s, a, b)                                              \
    ((s).machine.flops[0] = a, (s).machine.flops[1] = b,                       \
     (s).machine.bytes[0] = (s).machine.bytes[1] = 1e9)

/* Three times as fast has three quarters, in any way to cut. */
static void test_balance(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF);
    set_graph(&s, &small);
    TWO_THAT_COMPUTE(s, 300, 100);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t gate = find_node(&s, CLV_OP_MATMUL, GATE);
    assert_true(has_share(&s, gate, CORE_AXIS_ROWS, 0, 376, 392));
    assert_true(has_share(&s, gate, CORE_AXIS_SEQUENCE, 0, 35, 37));
    assert_true(has_share(&s, gate, CORE_AXIS_CHANNELS, 0, 188, 196));
    assert_true(has_share(&s, find_node(&s, CLV_OP_ATTENTION, 0),
                          CORE_AXIS_HEADS, 0, 6, 6));
    close_scene(&s);
}

/* What decides is the memory that they share: each gets what it needs of it, or
 * a fair part. Alone 30 and 10 bytes/ns, together 24: 14 and 10. */
static void test_contention(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF);
    set_graph(&s, &small);
    s.machine.flops[0] = s.machine.flops[1] = 1e9;
    s.machine.bytes[0] = 30;
    s.machine.together = 24;
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t down = find_node(&s, CLV_OP_MATMUL, DOWN);
    assert_true(has_share(&s, down, CORE_AXIS_CHANNELS, 0, 290, 308));
    uint32_t at = 0, option;
    while ((option = next_pair(&s, down, CORE_AXIS_CHANNELS, &at)) !=
           UINT32_MAX) {
        const planner_solve_option *o = &s.c.options[option];
        assert_int_equal(o->n_pieces, 3);
        assert_true(s.c.pieces[o->first_piece + 2].joins);
        assert_int_equal(s.c.pieces[o->first_piece].device,
                         s.c.pieces[o->first_piece + 2].device);
        if (share_of(&s, option, CORE_AXIS_CHANNELS, 0) == 300)
            assert_true(fabs(s.c.pieces[o->first_piece].ns -
                             s.c.pieces[o->first_piece + 1].ns) < 100);
    }
    close_scene(&s);
}

/* Every cut of the gate is one of the GLU and of the down's channels, too; and
 * q, its rope and the attention have heads in common. */
static void test_linked(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF);
    set_graph(&s, &small);
    TWO_THAT_COMPUTE(s, 200, 100);
    s.machine.bytes[1] = 10;
    s.machine.overheads.submit_idle = 5000;
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t gate = find_node(&s, CLV_OP_MATMUL, GATE), n = 0;
    uint32_t at = 0, option;
    while ((option = next_pair(&s, gate, CORE_AXIS_ROWS, &at)) != UINT32_MAX) {
        int64_t share = share_of(&s, option, CORE_AXIS_ROWS, 0);
        n++;
        assert_true(has_share(&s, find_node(&s, CLV_OP_GLU, 0), CORE_AXIS_ROWS,
                              0, share, share));
        assert_true(has_share(&s, find_node(&s, CLV_OP_MATMUL, UP),
                              CORE_AXIS_ROWS, 0, share, share));
        assert_true(has_share(&s, find_node(&s, CLV_OP_MATMUL, DOWN),
                              CORE_AXIS_CHANNELS, 0, share, share));
    }
    assert_true(n >= 2);
    at = n = 0;
    uint32_t attention = find_node(&s, CLV_OP_ATTENTION, 0);
    while ((option = next_pair(&s, attention, CORE_AXIS_HEADS, &at)) !=
           UINT32_MAX) {
        int64_t heads = share_of(&s, option, CORE_AXIS_HEADS, 0);
        n++;
        assert_int_equal(heads % 2, 0); /* whole groups */
        assert_true(has_share(&s, find_node(&s, CLV_OP_MATMUL, Q),
                              CORE_AXIS_ROWS, 0, heads * 32, heads * 32));
        assert_true(has_share(&s, find_node(&s, CLV_OP_ROPE, 0),
                              CORE_AXIS_HEADS, 0, heads, heads));
        assert_true(has_share(&s, find_node(&s, CLV_OP_MATMUL, V),
                              CORE_AXIS_ROWS, 0, heads * 16, heads * 16));
        assert_true(has_share(&s, find_node(&s, CLV_OP_MATMUL, O),
                              CORE_AXIS_CHANNELS, 0, heads * 32, heads * 32));
    }
    assert_true(n >= 1);
    close_scene(&s);
}

/* Near a plan that has the whole of a gate on one device, or 3/4 of it. */
static void check_near(scene *s, uint32_t gate, uint32_t option, int64_t share)
{
    enum { MAX_NODES = 128, PARTS = 16 };
    const uint32_t n = s->c.problem.n_nodes;
    const int64_t part = small.ffn / PARTS;
    planner_candidates before;
    uint32_t options[MAX_NODES];
    assert_true(n <= MAX_NODES);
    for (uint32_t i = 0; i < n; i++)
        options[i] = s->c.nodes[i].first_option;
    options[gate] = option;
    make_near(s, options, PARTS, &before);
    assert_true(check_all(s) > 50);
    /* The plan's own options are there, and known. */
    assert_ptr_equal(s->c.problem.known, s->c.known);
    for (uint32_t i = 0; i < n; i++) {
        const planner_solve_option *old = &before.options[options[i]];
        const planner_solve_option *new = &s->c.options[s->c.known[i]];
        assert_int_equal(new->n_pieces, old->n_pieces);
        assert_memory_equal(&s->c.cuts[new->first_piece],
                            &before.cuts[old->first_piece],
                            old->n_pieces * sizeof *before.cuts);
    }
    /* Others have a sixteenth more or less. */
    for (int side = -1; side <= 1; side += 2) {
        const int64_t other = share + side * part;
        if (other > small.ffn)
            continue;
        assert_true(has_share(s, gate, CORE_AXIS_ROWS, 0, other, other));
        assert_true(has_share(s, find_node(s, CLV_OP_GLU, 0), CORE_AXIS_ROWS, 0,
                              other, other));
        assert_true(has_share(s, find_node(s, CLV_OP_MATMUL, DOWN),
                              CORE_AXIS_CHANNELS, 0, other, other));
    }
    planner_candidates_finish(&before);
}

static void test_near(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF);
    set_graph(&s, &small);
    TWO_THAT_COMPUTE(s, 300, 100);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    const uint32_t gate = find_node(&s, CLV_OP_MATMUL, GATE);
    uint32_t at = 0, option;
    while ((option = next_pair(&s, gate, CORE_AXIS_ROWS, &at)) != UINT32_MAX)
        if (share_of(&s, option, CORE_AXIS_ROWS, 0) == small.ffn * 3 / 4)
            break;
    assert_int_not_equal(option, UINT32_MAX);
    check_near(&s, gate, option, small.ffn * 3 / 4);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    check_near(&s, gate, s.c.nodes[gate].first_option, small.ffn);
    close_scene(&s);
}

/* Whether an option gives a device these lengths, in order, and the rest of the
 * sequence to the other one; all rows, or only some of them. */
static bool has_lengths(const scene *s, uint32_t node, uint32_t device,
                        const int64_t *lengths, bool hybrid)
{
    const planner_solve_node *n = &s->c.nodes[node];
    for (uint32_t o = 0; o < n->n_options; o++) {
        uint32_t option = n->first_option + o, at = 0, same = 0;
        bool rows = false;
        for (uint32_t i = 0; i < s->c.options[option].n_pieces; i++) {
            const core_piece *cut = cut_of(s, option, i);
            core_range r = cut->ranges[CORE_AXIS_SEQUENCE];
            if (cut->device != device)
                continue;
            rows |= cut->ranges[CORE_AXIS_ROWS].end != 0;
            same += same == at && lengths[at] && r.end - r.begin == lengths[at];
            at++;
        }
        if (at && same == at && !lengths[at] && rows == hybrid)
            return true;
    }
    return false;
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t a[] = {256, 0}, b[] = {512, 32, 0}, c[] = {512, 0},
                         d[] = {512, 64, 0};
    scene s;
    layers_shape shape = small;
    shape.context = 640;
    shape.tokens = 300;
    open_scene(&s, "snapdragon-8gen3", "core.plugins=npu_sim");
    TWO_THAT_COMPUTE(s, 1000, 190);
    set_graph(&s, &shape);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    assert_string_equal(clv_context_device(s.ctx, 0)->id, "npu_sim:hexagon");
    uint32_t gate = find_node(&s, CLV_OP_MATMUL, GATE);
    assert_true(has_lengths(&s, gate, 0, a, false));
    assert_true(has_lengths(&s, gate, 0, a, true));
    assert_true(has_lengths(&s, find_node(&s, CLV_OP_GLU, 0), 0, a, false));
    drop_graph(&s);
    shape.tokens = 600;
    set_graph(&s, &shape);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    gate = find_node(&s, CLV_OP_MATMUL, GATE);
    assert_true(has_lengths(&s, gate, 0, d, true));
    s.machine.flops[1] = 100;
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    assert_true(has_lengths(&s, gate, 0, b, false));
    assert_true(has_lengths(&s, gate, 0, c, false));
    close_scene(&s);
}

/* ------------------------------------------------------------------------ */
/* The problem                                                               */

/* Layers repeat, and share their options. */
static void test_classes(void **state)
{
    (void)state;
    scene s;
    layers_shape shape = small;
    shape.n_layers = 4;
    open_scene(&s, NULL, REF);
    set_graph(&s, &shape);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t layer = (s.l.graph->n_nodes - 2) / 4;
    assert_int_equal(s.l.graph->n_nodes, 2 + 4 * layer);
    for (uint32_t i = 1 + layer; i < 1 + 3 * layer; i++) {
        const planner_solve_node *a = &s.c.nodes[i], *b = &s.c.nodes[i + layer];
        if (i + 1 < 1 + 3 * layer) { /* the last sum goes elsewhere */
            assert_int_equal(a->class, b->class);
            assert_int_equal(a->first_option, b->first_option);
        }
        assert_int_equal(a->n_deps, b->n_deps);
        for (uint32_t d = 0; d < a->n_deps; d++)
            assert_int_equal(a->deps[d] + layer, b->deps[d]);
    }
    assert_int_not_equal(s.c.nodes[find_node(&s, CLV_OP_MATMUL, GATE)].class,
                         s.c.nodes[find_node(&s, CLV_OP_MATMUL, DOWN)].class);
    /* Layer-level: whole nodes alone. */
    assert_ok(make(&s, PLANNER_STRATEGY_LAYER));
    for (uint32_t i = 0; i < s.c.problem.n_options; i++) {
        assert_int_equal(s.c.options[i].n_pieces, 1);
        assert_true(core_piece_is_whole(cut_of(&s, i, 0)));
    }
    for (uint32_t i = 0; i < s.l.graph->n_nodes; i++)
        assert_int_equal(s.c.nodes[i].n_options, 2);
    close_scene(&s);
}

static void test_devices(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF "ref.flag_wait1=on core.sync=block");
    set_graph(&s, &small);
    assert_ok(clv_config_set(s.config, "ref.max_share=0.5", "test"));
    s.machine.overheads.wait_block = 7000;
    TWO_THAT_COMPUTE(s, 100, 100);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    assert_true(s.c.devices[0].host_waits && !s.c.devices[1].host_waits);
    assert_true(s.c.devices[0].submit_ns == 100);
    assert_true(s.c.devices[0].submit_idle_ns == 500);
    assert_true(s.c.devices[0].dispatch_ns == 200);
    assert_true(s.c.devices[0].wait_ns == 7000);
    assert_true(s.c.devices[1].max_share == 0.5);
    assert_true(s.c.devices[1].memory == UINT64_MAX);
    close_scene(&s);
}

/* A device that may work only half of the time is offered less. */
static void test_capped(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF);
    set_graph(&s, &small);
    assert_ok(clv_config_set(s.config, "ref:1.max_share=0.5", "test"));
    TWO_THAT_COMPUTE(s, 100, 100);
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    uint32_t gate = find_node(&s, CLV_OP_MATMUL, GATE);
    assert_true(has_share(&s, gate, CORE_AXIS_ROWS, 1, 256, 256));
    assert_true(has_share(&s, gate, CORE_AXIS_ROWS, 1, 164, 176));
    close_scene(&s);
}

static void test_unknown_costs(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, NULL, REF "ref.ops1=matmul");
    set_graph(&s, &small);
    s.machine.unknown = CLV_OP_RMS_NORM; /* one device alone takes it */
    assert_ok(make(&s, PLANNER_STRATEGY_TENSOR));
    assert_int_equal(s.c.nodes[find_node(&s, CLV_OP_RMS_NORM, 0)].n_options, 1);
    s.machine.unknown = CLV_OP_MATMUL;
    assert_int_equal(make(&s, PLANNER_STRATEGY_TENSOR), CLV_ERR_NOT_FOUND);
    assert_message("matmul|cleave profile");
    assert_null(s.c.nodes);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_odd_limits),
        cmocka_unit_test(test_cpu_sections),  cmocka_unit_test(test_chips),
        cmocka_unit_test(test_balance),       cmocka_unit_test(test_contention),
        cmocka_unit_test(test_linked),        cmocka_unit_test(test_near),
        cmocka_unit_test(test_lengths),       cmocka_unit_test(test_classes),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_capped),
        cmocka_unit_test(test_unknown_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
