/*
 * Cuts of one axis at any point: rows, channels, heads, and sequences on
 * devices that take any length. The points are those at which a set is done
 * together, for a link as a whole and for each of its members that matters,
 * with allowance for a device that begins later than the others.
 *
 * A set with a device whose programs have fixed lengths cuts part of the
 * sequence so, and leaves the rest to the other one (hybrid).
 */
#include "maker.h"
#include "../../core/base/error.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/held.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MEMBERS 64

typedef struct group {
    const planner_device_set *set;
    const planner_member *members[GROUP_MEMBERS];
    uint32_t n, index;
    int64_t unit; /* extents are multiples of it */
    int64_t step; /* fractions are multiples of step / unit */
    uint32_t steps;
    bool hybrid;
    bool popular; /* it matters which of the experts a device gets */
    planner_layout layout;
} group;

/* A hybrid is of two devices, one of which takes any length, and members have
 * one length of sequence. */
static bool can_be_hybrid(const planner_maker *m, const group *g)
{
    uint32_t class = g->members[0]->class;
    uint32_t at = planner_find_static(m, class, g->set);
    if (g->set->n != 2 ||
        planner_maker_caps(m, class, g->set->devices[!at])->answer ==
            CLV_ANSWER_STATIC)
        return false;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t k = g->members[i]->class;
        if (planner_find_static(m, k, g->set) != at ||
            planner_class_sequence(m, k) != planner_class_sequence(m, class) ||
            planner_maker_caps(m, k, g->set->devices[at])->static_shapes !=
                planner_maker_caps(m, class, g->set->devices[at])
                    ->static_shapes ||
            !planner_maker_splits(m, k, g->set->devices[!at],
                                  CORE_AXIS_SEQUENCE))
            return false;
    }
    return true;
}

static bool set_steps(const planner_maker *m, group *g)
{
    if (!planner_point_steps(m, g->members, g->n, g->set, &g->unit, &g->step))
        return false;
    g->steps = (uint32_t)((g->unit + g->step - 1) / g->step);
    return g->steps > 1;
}

/* ------------------------------------------------------------------------ */
/* Tables                                                                    */

/* Adds what a piece costs, count times; no cost is INFINITY. */
static void add_cost(const planner_maker *m, const core_piece *piece,
                     uint32_t count, planner_demand *to)
{
    planner_cost cost;
    planner_demand demand;
    uint32_t variant;
    if (!planner_maker_cost(m, piece, &variant, &cost, &demand)) {
        to->ns = INFINITY;
        return;
    }
    to->ns += count * demand.ns;
    to->bytes += count * demand.bytes;
}

/* Whether a link is of experts of which some cost more than others. */
static bool is_popular(const planner_maker *m, const planner_link *link)
{
    const planner_member *member = &m->classes.members[link->first_member];
    const int64_t n = planner_member_extent(m, member);
    if (member->axis != CORE_AXIS_EXPERTS || n < 2)
        return false;
    for (uint32_t i = 0; i < link->n_members * m->n_devices; i++) {
        planner_demand of_first = {0}, of_last = {0};
        member = &m->classes.members[link->first_member + i / m->n_devices];
        core_piece first = {.node = m->classes.classes[member->class].first,
                            .device = i % m->n_devices};
        core_piece last = first;
        first.ranges[CORE_AXIS_EXPERTS] = (core_range){0, 1};
        last.ranges[CORE_AXIS_EXPERTS] = (core_range){n - 1, n};
        add_cost(m, &first, 1, &of_first);
        add_cost(m, &last, 1, &of_last);
        if (of_first.ns != of_last.ns)
            return true;
    }
    return false;
}

/* j steps of a member, on the set's device at: the first ones, or if it matters
 * which, those that the first, the last or one of the others gets. */
static void add_steps(const planner_maker *m, const group *g,
                      const planner_member *member, uint32_t at, uint32_t j,
                      planner_demand *to)
{
    const int64_t extent = planner_member_extent(m, member),
                  scale = extent / g->unit;
    const uint32_t first =
        g->popular ? (g->steps - j) * at / (g->set->n - 1) : 0;
    const int64_t end = (first + j) * g->step;
    core_piece piece = {.node = m->classes.classes[member->class].first,
                        .device = g->set->devices[at]};
    if (j < g->steps)
        piece.ranges[member->axis] = (core_range){
            first * g->step * scale, (end < g->unit ? end : g->unit) * scale};
    if (!g->hybrid) {
        add_cost(m, &piece, member->count, to);
        return;
    }
    int64_t begin = 0;
    for (uint32_t i = 0; i < PLANNER_MAX_RUNS && g->layout.runs[0][i]; i++) {
        piece.ranges[CORE_AXIS_SEQUENCE] =
            (core_range){begin, begin + g->layout.runs[0][i]};
        begin += g->layout.runs[0][i];
        add_cost(m, &piece, member->count, to);
    }
}

static void fill_table(const planner_maker *m, const group *g, uint32_t at,
                       planner_demand *table)
{
    for (uint32_t j = 0; j <= g->steps; j++) {
        table[j] = (planner_demand){0};
        for (uint32_t i = 0; i < g->n && j; i++)
            add_steps(m, g, g->members[i], at, j, &table[j]);
    }
}

/* What the device with any length has to do beside: the rest of the rows. */
static planner_demand cost_of_rest(const planner_maker *m, const group *g)
{
    planner_demand sum = {0};
    for (uint32_t i = 0; i < g->n && g->hybrid && g->layout.rest; i++) {
        core_piece piece = {.node =
                                m->classes.classes[g->members[i]->class].first,
                            .device = g->set->devices[g->layout.rest_on]};
        int64_t end = planner_class_sequence(m, g->members[i]->class);
        piece.ranges[CORE_AXIS_SEQUENCE] =
            (core_range){end - g->layout.rest, end};
        add_cost(m, &piece, g->members[i]->count, &sum);
    }
    return sum;
}

/* Sequences of the static device in a hybrid: its longest program alone, and as
 * many rows as its programs reach. */
static uint32_t hybrid_layouts(const planner_maker *m, const group *g,
                               planner_layout out[2])
{
    uint32_t class = g->members[0]->class;
    uint32_t at = planner_find_static(m, class, g->set);
    const clv_op_caps *caps = planner_maker_caps(m, class, g->set->devices[at]);
    int64_t rows = planner_class_sequence(m, class), left = rows;
    out[0] = out[1] = (planner_layout){.rest_on = !at};
    for (uint32_t n = 0; n < PLANNER_MAX_RUNS; n++) {
        int64_t longest = 0;
        for (uint32_t i = 0; i < caps->n_static; i++)
            if (caps->static_shapes[i] <= left &&
                caps->static_shapes[i] > longest &&
                caps->static_shapes[i] * 32 >= rows)
                longest = caps->static_shapes[i];
        if (!longest)
            break;
        left -= longest;
        out[1].runs[0][n] = longest;
        if (!n) {
            out[0].runs[0][0] = longest;
            out[0].rest = left;
        }
    }
    out[1].rest = left;
    return !out[0].runs[0][0] ? 0 : out[1].runs[0][1] ? 2 : 1;
}

/* ------------------------------------------------------------------------ */
/* Points                                                                    */

#define MAX_POINTS 96 /* of a link, looked at */
#define KEEP_POINTS 12
/* Part of a link's time below which a member has no points of its own. */
#define MATTERS 0.05

/* Points of one link. best[g]: the least time of group g: 0 the link, then its
 * members. */
typedef struct pool {
    uint32_t link;
    planner_cut_point points[MAX_POINTS];
    double times[MAX_POINTS];
    uint32_t groups[MAX_POINTS];
    uint32_t n;
    bool popular; /* as group */
    double *best;
} pool;

/* ------------------------------------------------------------------------ */
/* Balancing                                                                 */

static bool same_layout(const planner_layout *a, const planner_layout *b)
{
    return !memcmp(a->runs, b->runs, sizeof a->runs) && a->rest == b->rest &&
           a->rest_on == b->rest_on;
}

static void note_point(pool *p, const group *g, const uint32_t *parts,
                       double time)
{
    planner_cut_point point = {.set = *g->set,
                               .den = g->unit,
                               .hybrid = g->hybrid,
                               .layout = g->layout};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < g->set->n; i++) {
        sum += parts[i];
        point.num[i] = sum == g->steps ? g->unit : sum * g->step;
    }
    if (time < p->best[g->index])
        p->best[g->index] = time;
    for (uint32_t i = 0; i < p->n; i++)
        if (!memcmp(&p->points[i].set, &point.set, sizeof point.set) &&
            same_layout(&p->points[i].layout, &point.layout) &&
            p->points[i].den == point.den &&
            !memcmp(p->points[i].num, point.num, sizeof point.num))
            return;
    if (p->n == MAX_POINTS)
        return;
    p->points[p->n] = point;
    p->times[p->n] = time;
    p->groups[p->n++] = g->index;
}

/* What a device loses when it has to wait for others before it begins. */
static double lateness(const planner_maker *m, uint32_t device)
{
    const planner_solve_device *d = &m->devices[device];
    return d->submit_idle_ns + d->dispatch_ns + d->wait_ns;
}

/* The division that is best for these late and scaled devices, with its time
 * if they are neither. */
static void balance_once(pool *p, const group *g, planner_shares *s)
{
    static const planner_shares plain = {.scale = {1, 1, 1, 1}};
    uint32_t parts[PLANNER_SHARE_DEVICES] = {0};
    double ns;
    if (!planner_shares_balance(s, parts, &ns))
        return;
    memcpy(s->late, plain.late, sizeof s->late);
    memcpy(s->scale, plain.scale, sizeof s->scale);
    note_point(p, g, parts, planner_shares_time(s, parts));
}

/* The points of a group: all begin together; each in turn begins late; and
 * those whose time is capped finish early. */
static void balance(const planner_maker *m, pool *p, const group *g)
{
    clv_device *devs[PLANNER_SHARE_DEVICES];
    planner_shares s = {.n = g->set->n, .steps = g->steps};
    bool capped = false;
    for (uint32_t i = 0; i < s.n; i++)
        devs[i] = planner_maker_device(m, g->set->devices[i]);
    s.bandwidth = planner_maker_bandwidth(m, g->set->devices, s.n);
    for (uint32_t i = 0; i < s.n; i++) {
        planner_demand *table = m->tables + i * (PLANNER_MAX_STEPS + 1);
        fill_table(m, g, i, table);
        s.tables[i] = table;
        s.slowdown[i] = m->costs->slowdown(m->costs->ctx, devs, s.n, i);
        s.scale[i] = 1;
        if (g->hybrid && i == g->layout.rest_on)
            s.base[i] = cost_of_rest(m, g);
        capped |= m->devices[g->set->devices[i]].max_share < 1;
    }
    for (uint32_t late = 0; late <= s.n; late++) {
        if (late)
            s.late[late - 1] = lateness(m, g->set->devices[late - 1]);
        balance_once(p, g, &s);
    }
    for (uint32_t i = 0; i < s.n && capped; i++)
        s.scale[i] = 1 / m->devices[g->set->devices[i]].max_share;
    if (capped)
        balance_once(p, g, &s);
}

static void balance_group(const planner_maker *m, pool *p, group *g)
{
    if (!set_steps(m, g))
        return;
    bool any_length = true;
    for (uint32_t i = 0; i < g->n && any_length; i++)
        any_length =
            planner_find_static(m, g->members[i]->class, g->set) == g->set->n;
    if (any_length) {
        balance(m, p, g);
        return;
    }
    planner_layout layouts[2];
    if (!can_be_hybrid(m, g))
        return;
    uint32_t n = hybrid_layouts(m, g, layouts);
    g->hybrid = true;
    for (uint32_t i = 0; i < n; i++) {
        g->layout = layouts[i];
        balance(m, p, g);
    }
}

/* Time of a member on the set's fastest device. */
static double weight_of(const planner_maker *m, const planner_member *member,
                        const planner_device_set *set)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < set->n; i++) {
        core_piece piece = {.node = m->classes.classes[member->class].first,
                            .device = set->devices[i]};
        planner_demand sum = {0};
        add_cost(m, &piece, member->count, &sum);
        least = sum.ns < least ? sum.ns : least;
    }
    return isfinite(least) ? least : 0;
}

static clv_status balance_in_order(planner_maker *m,
                                   const planner_device_set *set, void *ctx)
{
    pool *p = ctx;
    const planner_link *link = &m->classes.links[p->link];
    const planner_member *members = &m->classes.members[link->first_member];
    group all = {.set = set, .popular = p->popular};
    double sum = 0;
    for (uint32_t i = 0; i < link->n_members && all.n < GROUP_MEMBERS; i++)
        if (planner_takes_part(m, &members[i], set)) {
            all.members[all.n++] = &members[i];
            sum += weight_of(m, &members[i], set);
        }
    if (!all.n)
        return CLV_OK;
    uint32_t before = p->n;
    balance_group(m, p, &all);
    bool found = p->n != before;
    for (uint32_t i = 0; i < all.n && (all.n > 1 || !found); i++) {
        group own = {.set = set,
                     .n = 1,
                     .members = {all.members[i]},
                     .popular = p->popular,
                     .index = 1 + (uint32_t)(all.members[i] - members)};
        if (!found || weight_of(m, own.members[0], set) > MATTERS * sum)
            balance_group(m, p, &own);
    }
    return CLV_OK;
}

/* Which device gets the most popular experts matters: any may be the first, and
 * the others follow upwards or downwards. */
static clv_status balance_devices(planner_maker *m,
                                  const planner_device_set *set, void *ctx)
{
    const pool *p = ctx;
    clv_status status = balance_in_order(m, set, ctx);
    for (uint32_t i = 1; i < 2 * set->n && p->popular && !status; i++) {
        planner_device_set other = {.n = set->n};
        for (uint32_t d = 0; d < set->n; d++)
            other.devices[d] =
                set->devices[(i + (i < set->n ? d : set->n - d)) % set->n];
        if (i < set->n || set->n > 2)
            status = balance_in_order(m, &other, ctx);
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* The points of a link                                                      */

/* Best first, compared with the best of their group. */
static void sort_points(pool *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        p->points[i].rank = p->times[i] / p->best[p->groups[i]];
    for (uint32_t i = 1; i < p->n; i++) {
        planner_cut_point point = p->points[i];
        uint32_t at = i;
        for (; at && p->points[at - 1].rank > point.rank; at--)
            p->points[at] = p->points[at - 1];
        p->points[at] = point;
    }
    const uint32_t kept = p->popular ? KEEP_POINTS - 4 : KEEP_POINTS;
    if (p->n > kept)
        p->n = kept;
}

/* ------------------------------------------------------------------------ */
/* Where weights are cut already                                             */

/* Elements [*begin, *end) of the member's axis, of which a copy of a weight is;
 * false: it is cut otherwise, or whole. */
static bool part_of(const planner_maker *m, const planner_member *member,
                    const core_runs *range, int64_t *begin, int64_t *end)
{
    uint32_t node = m->classes.classes[member->class].first, operand;
    clv_value weight = planner_maker_weight(m, node, &operand);
    clv_operand rule = clv_op_operand(&m->graph->nodes[node], operand);
    uint64_t total = range->n > 1
                         ? range->pitch
                         : clv_tensor_size(m->graph->values[weight].weight);
    uint64_t extent = (uint64_t)planner_member_extent(m, member), first, last;
    if ((range->n > 1 ? rule.last : rule.first) != member->axis ||
        range->bytes == total ||
        __builtin_mul_overflow(range->offset, extent, &first) ||
        __builtin_mul_overflow(range->offset + range->bytes, extent, &last) ||
        first % total || last % total)
        return false;
    *begin = (int64_t)(first / total);
    *end = (int64_t)(last / total);
    return true;
}

/* The device has [begin, end) of the axis, the other the rest. */
static planner_cut_point around(uint32_t device, int64_t begin, int64_t end,
                                uint32_t other, int64_t extent)
{
    planner_cut_point point = {.den = extent};
    if (begin) {
        point.set.devices[0] = other;
        point.num[point.set.n++] = begin;
    }
    point.set.devices[point.set.n] = device;
    point.num[point.set.n++] = end;
    if (end < extent) {
        point.set.devices[point.set.n] = other;
        point.num[point.set.n++] = extent;
    }
    return point;
}

/* Devices with memory of their own that hold part of a weight for another plan
 * need no more of it if this one is cut there too. */
static void add_copies(const planner_maker *m, pool *p,
                       const planner_member *member)
{
    uint32_t node = m->classes.classes[member->class].first, operand;
    clv_value weight = planner_maker_weight(m, node, &operand);
    core_runs range;
    int64_t begin, end;
    if (weight == CLV_NO_TENSOR || m->graph->tensors[weight].rank < 2)
        return;
    for (uint32_t d = 0; d < m->plan->n_devices; d++)
        for (uint32_t i = 0;
             core_held_at(&m->plan->devices[d], m->graph->values[weight].weight,
                          i, &range);
             i++)
            for (uint32_t o = 0; o < m->n_devices && p->n < MAX_POINTS; o++)
                if (o != d && part_of(m, member, &range, &begin, &end))
                    p->points[p->n++] = around(
                        d, begin, end, o, planner_member_extent(m, member));
}

/* Where memory does not suffice for a device's share, it should have the most
 * popular experts of many layers: all numbers of eighths. */
static void add_eighths(const planner_maker *m, pool *p, uint32_t device,
                        uint32_t other)
{
    const planner_link *link = &m->classes.links[p->link];
    const int64_t n =
        planner_member_extent(m, &m->classes.members[link->first_member]);
    for (int64_t i = 1; i < 8 && p->n < MAX_POINTS; i++) {
        const planner_cut_point point = {
            .set = {{device, other}, 2}, .num = {i * n / 8, n}, .den = n};
        if (m->devices[device].memory_index &&
            !planner_maker_streams(m, device) &&
            !m->devices[other].memory_index)
            p->points[p->n++] = point;
    }
}

static clv_status add_link(planner_maker *m, pool *p)
{
    const planner_link *link = &m->classes.links[p->link];
    p->n = 0;
    p->popular = is_popular(m, link);
    for (uint32_t i = 0; i <= link->n_members; i++)
        p->best[i] = INFINITY;
    clv_status status = planner_each_device_set(m, false, balance_devices, p);
    sort_points(p);
    for (uint32_t d = 0; d < m->n_devices * m->n_devices && p->popular; d++)
        add_eighths(m, p, d / m->n_devices, d % m->n_devices);
    for (uint32_t i = 0; i < link->n_members; i++)
        add_copies(m, p, &m->classes.members[link->first_member + i]);
    for (uint32_t i = 0; i < link->n_members && !status; i++)
        for (uint32_t j = 0; j < p->n && !status; j++)
            status = planner_point_add(
                m, &m->classes.members[link->first_member + i], &p->points[j]);
    return status;
}

clv_status planner_add_points(planner_maker *m)
{
    pool *p = calloc(1, sizeof *p);
    clv_status status = CLV_OK;
    if (p)
        p->best = calloc(m->classes.n_members + 1u, sizeof *p->best);
    if (!p || !p->best)
        status = core_no_memory("for a plan");
    for (uint32_t i = 0; i < m->classes.n_links && !status; i++) {
        p->link = i;
        status = add_link(m, p);
    }
    if (p)
        free(p->best);
    free(p);
    return status;
}
