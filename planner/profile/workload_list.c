/*
 * Which works are worth measuring for a graph on a device: its nodes, whole and
 * as they may be cut there, with as many rows as symbols and lengths allow.
 *
 * Along each axis there is a list of values, the telling ones first: both ends,
 * the middle, and so on by halves. Of all combinations those come first whose
 * places in the lists have the least product (a hyperbolic cross): many values
 * of each axis alone, the ends of all together, and little of the inside.
 */
#include "../../core/graph/cut.h"
#include "../../core/base/error.h"
#include "store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUICK_RANK 16
/* Columns of a part that tells what a product takes however small its part is,
 * as for reading all of the activations. */
#define NARROW 128
#define MAX_VALUES 64
#define DEPTH CORE_AXIS_COUNT /* the axis beside those of cuts: cache rows */
#define N_AXES (CORE_AXIS_COUNT + 1)

/* Elements of an axis that a piece takes; 0: it is not cut there. */
typedef struct values {
    int64_t items[MAX_VALUES];
    uint32_t n;
} values;

typedef struct chooser {
    const clv_graph *graph;
    const clv_node *node;
    const clv_op_caps *caps;
    uint32_t index;        /* of the node */
    uint32_t rows_symbol;  /* 1 + symbol of the activation's rows, or 0 */
    uint32_t depth_symbol; /* 1 + symbol of the cache's rows in use, or 0 */
    values axes[N_AXES];
    bool full;
    planner_workloads *out;
} chooser;

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

static void add_value(values *v, int64_t value)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->items[i] == value)
            return;
    if (v->n < MAX_VALUES)
        v->items[v->n++] = value;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* First, middle, last, and then what lies amid two that are there. */
static void put_telling_first(values *v)
{
    values sorted = *v;
    bool taken[MAX_VALUES] = {false};
    if (v->n < 3)
        return;
    qsort(sorted.items, sorted.n, sizeof *sorted.items, ascending);
    v->n = 0;
    const uint32_t last = sorted.n - 1, start[] = {0, last / 2, last};
    for (int i = 0; i < 3; i++) {
        v->items[v->n++] = sorted.items[start[i]];
        taken[start[i]] = true;
    }
    while (v->n < sorted.n) {
        uint32_t best = 0, widest = 0, from = 0;
        for (uint32_t i = 1; i < sorted.n; i++) {
            if (!taken[i])
                continue;
            if (i - from > widest) {
                widest = i - from;
                best = from + widest / 2;
            }
            from = i;
        }
        v->items[v->n++] = sorted.items[best];
        taken[best] = true;
    }
}

static bool within(const clv_axis_limit *limit, int64_t n)
{
    return n >= limit->min && (!limit->max || n <= limit->max) &&
           (!limit->multiple || n % limit->multiple == 0);
}

static uint32_t find_rows_symbol(const chooser *c)
{
    const clv_node *node = c->node;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        clv_value value =
            i < node->n_inputs ? node->inputs[i] : node->outputs[0];
        if (value == CLV_NO_TENSOR || i > node->n_inputs)
            continue;
        const clv_tensor_desc *t = &c->graph->tensors[value];
        if (t->rank > 1 && clv_op_operand(node, i).first == CORE_AXIS_SEQUENCE)
            return t->symbols[0];
    }
    return 0;
}

static bool splits(const chooser *c, uint32_t axis)
{
    return c->caps->split_axes >> axis & 1;
}

/* Numbers of rows: those of static programs, else powers of two and what lies
 * between, up to the most. */
static void choose_rows(chooser *c, int64_t most)
{
    values *v = &c->axes[CORE_AXIS_SEQUENCE];
    const clv_op_caps *caps = c->caps;
    const clv_symbol_range *range =
        c->rows_symbol ? &c->graph->symbols[c->rows_symbol - 1] : NULL;
    const bool varies =
        range ? range->min < range->max
              : splits(c, CORE_AXIS_SEQUENCE) && !caps->split_max_parts;
    const int64_t least = !varies ? most : range ? range->min : 1;
    if (caps->n_static) {
        for (uint32_t i = 0; i < caps->n_static; i++)
            if (caps->static_shapes[i] >= least &&
                caps->static_shapes[i] <= most)
                add_value(v, caps->static_shapes[i]);
    } else {
        for (int64_t n = 1; n < most && varies; n *= 2) {
            if (n >= least && within(&caps->sequence, n))
                add_value(v, n);
            if (n > 1 && n / 2 * 3 >= least && n / 2 * 3 < most &&
                within(&caps->sequence, n / 2 * 3))
                add_value(v, n / 2 * 3);
        }
        if (within(&caps->sequence, most))
            add_value(v, most);
    }
    put_telling_first(v);
}

/* Parts of an axis of fixed length, 0 for the whole. */
static void choose_parts(chooser *c, uint32_t axis)
{
    static const int64_t eighths[] = {4, 2, 6, 1, 3, 7};
    values *v = &c->axes[axis];
    int64_t extent = core_cut_extent(c->graph, c->index, axis);
    int64_t granule = core_cut_granule(c->graph, c->index, axis);
    int64_t asked = clv_split_granularity(c->caps, axis);
    add_value(v, 0);
    if (!extent || !splits(c, axis))
        return;
    /* Both are powers of two as a rule; else what fits one may not be cut. */
    if (asked > granule)
        granule = asked % granule ? asked * granule : asked;
    for (int i = 0; i < 6; i++) {
        int64_t part = extent * eighths[i] / 8 / granule * granule;
        if (part > 0 && part < extent)
            add_value(v, part);
    }
}

/* Rows of a cache, 0 for as few as can be. */
static void choose_depths(chooser *c, int64_t most)
{
    values *v = &c->axes[DEPTH];
    if (!c->depth_symbol) {
        add_value(v, most);
        return;
    }
    add_value(v, most);
    add_value(v, 0);
    for (int64_t part = 4; part <= 64; part *= 4)
        add_value(v, most / part);
    add_value(v, most / 2);
}

/* ------------------------------------------------------------------------ */
/* Combinations                                                             */

static bool add_one(planner_workloads *w, const planner_workload *workload,
                    uint32_t rank)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (planner_workload_equal(&w->items[i].workload, workload)) {
            if (rank < w->items[i].rank)
                w->items[i].rank = rank;
            return true;
        }
    if (w->n == w->capacity) {
        uint32_t capacity = w->capacity ? 2 * w->capacity : 64;
        planner_wanted *grown = reallocarray(w->items, capacity, sizeof *grown);
        if (!grown)
            return false;
        w->items = grown;
        w->capacity = capacity;
    }
    w->items[w->n++] = (planner_wanted){*workload, rank};
    return true;
}

/* As the plain one, and as each variant that the device lists. */
static bool add_workload(planner_workloads *w, const clv_op_caps *caps,
                         const planner_workload *workload, uint32_t rank)
{
    planner_workload other = planner_workload_plain(workload);
    bool good = add_one(w, &other, rank);
    for (uint32_t i = 0; i < caps->n_variants && good; i++) {
        other.kind.way = caps->variants[i].id;
        good = add_one(w, &other, rank);
    }
    return good;
}

static int64_t pick(const chooser *c, const uint32_t *at, uint32_t axis)
{
    return c->axes[axis].items[at[axis]];
}

/* The end of an axis, so that what comes before is no part of it: of channels
 * also the beginning, which brings the bias. */
static bool add_combination(chooser *c, const uint32_t *at, uint32_t rank)
{
    int64_t symbols[CLV_MAX_SYMBOLS];
    core_piece piece = {.node = c->index};
    planner_workload workload;
    const int64_t n = pick(c, at, CORE_AXIS_SEQUENCE);
    for (uint32_t i = 0; i < c->graph->n_symbols; i++)
        symbols[i] = c->graph->symbols[i].max;
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
        int64_t extent = core_cut_extent(c->graph, c->index, a);
        int64_t part = pick(c, at, a);
        if (extent && part && part < extent)
            piece.ranges[a] = (core_range){extent - part, extent};
    }
    if (c->rows_symbol)
        symbols[c->rows_symbol - 1] = n;
    if (c->depth_symbol) {
        int64_t depth = pick(c, at, DEPTH);
        symbols[c->depth_symbol - 1] = depth > n ? depth : n;
    }
    planner_workload_of(c->graph, c->index, &piece, symbols, &workload);
    if (!add_workload(c->out, c->caps, &workload, rank))
        return false;
    core_range *channels = &piece.ranges[CORE_AXIS_CHANNELS];
    if (!channels->begin)
        return true;
    *channels = (core_range){0, channels->end - channels->begin};
    planner_workload_of(c->graph, c->index, &piece, symbols, &workload);
    return add_workload(c->out, c->caps, &workload, rank);
}

static bool combine(chooser *c, uint32_t axis, uint32_t *at, uint32_t rank)
{
    if (axis == N_AXES)
        return add_combination(c, at, rank);
    /* Each length of a static device may be a case of its own. */
    const uint32_t alike =
        axis == CORE_AXIS_SEQUENCE && c->caps->n_static ? 3 : 1;
    for (uint32_t i = 0; i < c->axes[axis].n; i++) {
        uint32_t next = rank * (i / alike + 1);
        if (!c->full && next > QUICK_RANK)
            break;
        at[axis] = i;
        if (!combine(c, axis + 1, at, next))
            return false;
    }
    return true;
}

static bool add_node(chooser *c)
{
    planner_workload whole;
    uint32_t at[N_AXES];
    memset(c->axes, 0, sizeof c->axes);
    planner_workload_of(c->graph, c->index, NULL, NULL, &whole);
    c->rows_symbol = find_rows_symbol(c);
    c->depth_symbol =
        clv_op_attr_of(c->node->op, &c->node->attr, CLV_ATTR_SYMBOL);
    choose_rows(c, whole.n);
    choose_parts(c, CORE_AXIS_ROWS);
    choose_parts(c, CORE_AXIS_CHANNELS);
    choose_parts(c, CORE_AXIS_HEADS);
    choose_parts(c, CORE_AXIS_EXPERTS);
    choose_depths(c, whole.depth);
    return combine(c, 0, at, 1);
}

static int by_rank(const void *a, const void *b)
{
    const planner_wanted *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    double p = planner_workload_flops(&x->workload),
           q = planner_workload_flops(&y->workload);
    if (p != q)
        return p < q ? -1 : 1;
    return memcmp(&x->workload, &y->workload, sizeof x->workload);
}

/* Whether an earlier node is the same work, to be cut in the same way. */
static bool seen_before(const clv_graph *graph, const clv_op_caps *caps,
                        const planner_workload *whole, uint32_t node)
{
    for (uint32_t i = 0; i < node; i++)
        if (planner_workload_equal(&whole[i], &whole[node]) &&
            caps[i].answer == caps[node].answer &&
            caps[i].n_variants == caps[node].n_variants &&
            !memcmp(caps[i].variants, caps[node].variants,
                    sizeof caps[i].variants) &&
            caps[i].split_axes == caps[node].split_axes &&
            !memcmp(caps[i].split_granularity, caps[node].split_granularity,
                    sizeof caps[i].split_granularity) &&
            graph->nodes[i].op == graph->nodes[node].op)
            return true;
    return false;
}

clv_status planner_profile_workloads(const clv_graph *graph,
                                     const clv_op_caps *caps, bool full,
                                     planner_workloads *out)
{
    *out = (planner_workloads){.n = 0};
    planner_workload *whole = calloc(graph->n_nodes + 1u, sizeof *whole);
    chooser *c = calloc(1, sizeof *c);
    bool good = whole && c;
    for (uint32_t i = 0; i < graph->n_nodes && good; i++) {
        planner_workload_of(graph, i, NULL, NULL, &whole[i]);
        if ((caps[i].answer != CLV_ANSWER_YES &&
             caps[i].answer != CLV_ANSWER_STATIC) ||
            seen_before(graph, caps, whole, i))
            continue;
        *c = (chooser){.graph = graph,
                       .node = &graph->nodes[i],
                       .caps = &caps[i],
                       .index = i,
                       .full = full,
                       .out = out};
        good = add_node(c);
    }
    free(whole);
    free(c);
    if (!good) {
        planner_workloads_finish(out);
        return core_no_memory("for a profile");
    }
    if (out->n)
        qsort(out->items, out->n, sizeof *out->items, by_rank);
    return CLV_OK;
}

/* Whether its time decides what a device is worth. */
static bool is_main(const planner_workload *workload, const clv_op_caps *caps)
{
    const uint32_t op_class = clv_op_class_of(workload->kind.op);
    return caps->answer == CLV_ANSWER_YES &&
           (op_class == CLV_CLASS_MATMUL || op_class == CLV_CLASS_EXPERTS);
}

clv_status planner_profile_main_workloads(const clv_graph *graph,
                                          const clv_op_caps *caps,
                                          uint64_t most_bytes,
                                          planner_workloads *out)
{
    planner_workload best = {.n = 0};
    const clv_op_caps *answer = NULL;
    double most = 0;
    *out = (planner_workloads){.n = 0};
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        planner_workload w;
        planner_workload_of(graph, i, NULL, NULL, &w);
        if (!is_main(&w, &caps[i]) || planner_workload_flops(&w) <= most ||
            planner_workload_bytes(&w) > (double)most_bytes)
            continue;
        best = w;
        answer = &caps[i];
        most = planner_workload_flops(&w);
    }
    planner_workload row = best;
    row.n = 1;
    bool good = !best.n || add_workload(out, answer, &row, 1);
    if (best.n > 1)
        good = good && add_workload(out, answer, &best, 2);
    planner_workload narrow = best;
    narrow.out = NARROW;
    if (best.n > 1 && best.out >= 8 * NARROW)
        good = good && add_workload(out, answer, &narrow, 3);
    if (good)
        return CLV_OK;
    planner_workloads_finish(out);
    return core_no_memory("for a profile");
}

void planner_workloads_finish(planner_workloads *list)
{
    free(list->items);
    *list = (planner_workloads){.n = 0};
}

/* ------------------------------------------------------------------------ */

static void sizes_of(const planner_workload *workload, int64_t sizes[4])
{
    sizes[0] = workload->n;
    sizes[1] = workload->in;
    sizes[2] = workload->out;
    sizes[3] = workload->depth;
}

void planner_workload_box_add(planner_workload_box *box, bool *any,
                              const planner_workload *workload)
{
    int64_t sizes[4];
    sizes_of(workload, sizes);
    for (int i = 0; i < 4; i++) {
        if (!*any || sizes[i] < box->least[i])
            box->least[i] = sizes[i];
        if (!*any || sizes[i] > box->most[i])
            box->most[i] = sizes[i];
    }
    *any = true;
}

bool planner_workload_box_holds(const planner_workload_box *box,
                                const planner_workload *workload)
{
    int64_t sizes[4];
    sizes_of(workload, sizes);
    for (int i = 0; i < 4; i++)
        if (sizes[i] < box->least[i] / 2 ||
            sizes[i] > box->most[i] / 4 * 5 + box->most[i] % 4)
            return false;
    return true;
}
