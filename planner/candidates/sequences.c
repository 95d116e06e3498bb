/*
 * Sequences on devices whose programs have fixed lengths: some programs on
 * each, one after another, and the rest on one device that takes any length
 * (HeteroLLM, section 4.1: 600 = 512 + 32 + 56).
 */
#include "maker.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LENGTHS 16
#define KEEP_LAYOUTS 8
/* Programs shorter than this part of the sequence gain nothing. */
#define SHORTEST 32
#define MAX_ROWS 65536

typedef struct found {
    planner_device_set set;
    planner_layout layout;
    double ns, rank;
} found;

typedef struct search {
    planner_maker *m;
    uint32_t link;
    planner_device_set set;
    uint32_t n_fixed; /* of the set: they come first */
    int64_t rows;
    int64_t lengths[PLANNER_SHARE_DEVICES][MAX_LENGTHS]; /* descending */
    planner_demand runs[PLANNER_SHARE_DEVICES][MAX_LENGTHS];
    uint32_t n_lengths[PLANNER_SHARE_DEVICES];
    planner_demand *rests; /* [rows + 1]; ns < 0: not known yet */
    const planner_member *members[64];
    uint32_t n_members;
    double bandwidth;
    planner_layout layout; /* being tried */
    planner_demand sums[PLANNER_SHARE_DEVICES];
    found best[KEEP_LAYOUTS]; /* of this set and these members */
    uint32_t n_best;
    found kept[KEEP_LAYOUTS * 8]; /* of all */
    uint32_t n_kept;
} search;

static const clv_op_caps *caps_of(const search *s, uint32_t member,
                                  uint32_t device)
{
    return planner_maker_caps(s->m, s->members[member]->class, device);
}

static planner_demand cost_of(const search *s, uint32_t device, int64_t begin,
                              int64_t end)
{
    planner_demand sum = {0};
    for (uint32_t i = 0; i < s->n_members; i++) {
        core_piece piece = {
            .node = s->m->classes.classes[s->members[i]->class].first,
            .device = device};
        planner_cost cost;
        planner_demand demand;
        if (end - begin < s->rows)
            piece.ranges[CORE_AXIS_SEQUENCE] = (core_range){begin, end};
        if (!planner_maker_cost(s->m, &piece, &piece.variant, &cost, &demand))
            return (planner_demand){INFINITY, 0};
        sum.ns += s->members[i]->count * demand.ns;
        sum.bytes += s->members[i]->count * demand.bytes;
    }
    return sum;
}

static planner_demand rest_cost(search *s, int64_t rows)
{
    planner_demand *rest = &s->rests[rows];
    if (rest->ns < 0)
        *rest = cost_of(s, s->set.devices[s->n_fixed], s->rows - rows, s->rows);
    return *rest;
}

/* ------------------------------------------------------------------------ */
/* The layouts of a set                                                     */

static int64_t run_rows(const planner_layout *layout, uint32_t device)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < PLANNER_MAX_RUNS; i++)
        sum += layout->runs[device][i];
    return sum;
}

/* Of those that give every device as many rows the best is kept. */
static void note_layout(search *s, double ns)
{
    uint32_t at = 0;
    for (; at < s->n_best; at++) {
        uint32_t i = 0;
        while (i < s->n_fixed &&
               run_rows(&s->best[at].layout, i) == run_rows(&s->layout, i))
            i++;
        if (i == s->n_fixed)
            break;
    }
    if (at < s->n_best && s->best[at].ns <= ns)
        return;
    if (at == s->n_best && s->n_best < KEEP_LAYOUTS)
        s->n_best++;
    else if (at == s->n_best && s->best[--at].ns <= ns)
        return;
    for (; at && s->best[at - 1].ns > ns; at--)
        s->best[at] = s->best[at - 1];
    s->best[at] = (found){s->set, s->layout, ns, 0};
}

static void try_layout(search *s, int64_t left)
{
    double ns[PLANNER_SHARE_DEVICES], last = 0;
    bool rest = s->set.n > s->n_fixed;
    if ((left != 0) != rest ||
        (s->set.n == 1 && s->layout.runs[0][0] == s->rows))
        return;
    s->layout.rest = left;
    s->layout.rest_on = s->n_fixed;
    if (rest)
        s->sums[s->n_fixed] = rest_cost(s, left);
    for (uint32_t i = 0; i < s->set.n; i++)
        if (!isfinite(s->sums[i].ns))
            return;
    planner_contend(s->sums, s->set.n, s->bandwidth, ns);
    for (uint32_t i = 0; i < s->set.n; i++)
        last = ns[i] > last ? ns[i] : last;
    note_layout(s, last);
}

/* Adds runs to a device, from its shortest-allowed length on, then goes on with
 * the next one. */
static void try_runs(search *s, uint32_t device, uint32_t run, uint32_t from,
                     int64_t left)
{
    static const uint32_t most[] = {0, PLANNER_MAX_RUNS, 2, 1, 1};
    if (device == s->n_fixed) {
        try_layout(s, left);
        return;
    }
    if (run)
        try_runs(s, device + 1, 0, 0, left);
    if (run == PLANNER_MAX_RUNS || run == most[s->n_fixed])
        return;
    for (uint32_t i = from; i < s->n_lengths[device]; i++) {
        int64_t length = s->lengths[device][i];
        planner_demand before = s->sums[device];
        if (length > left)
            continue;
        s->layout.runs[device][run] = length;
        s->sums[device].ns += s->runs[device][i].ns;
        s->sums[device].bytes += s->runs[device][i].bytes;
        try_runs(s, device, run + 1, i, left - length);
        s->sums[device] = before;
        s->layout.runs[device][run] = 0;
    }
}

/* A run is weighed in the middle of the sequence: an attention's rows see more
 * the later they are. */
static void set_lengths(search *s)
{
    for (uint32_t d = 0; d < s->n_fixed; d++) {
        const clv_op_caps *caps = caps_of(s, 0, s->set.devices[d]);
        uint32_t n = 0;
        for (uint32_t i = caps->n_static; i-- > 0 && n < MAX_LENGTHS;)
            if (caps->static_shapes[i] <= s->rows &&
                caps->static_shapes[i] * SHORTEST >= s->rows)
                s->lengths[d][n++] = caps->static_shapes[i];
        s->n_lengths[d] = n;
        for (uint32_t i = 0; i < n; i++) {
            int64_t begin = (s->rows - s->lengths[d][i]) / 2;
            s->runs[d][i] =
                cost_of(s, s->set.devices[d], begin, begin + s->lengths[d][i]);
        }
    }
}

static void keep_best(search *s)
{
    for (uint32_t i = 0; i < s->n_best; i++) {
        s->best[i].rank = s->best[i].ns / s->best[0].ns;
        uint32_t at = s->n_kept, max = sizeof s->kept / sizeof *s->kept;
        if (at == max && s->kept[--at].rank <= s->best[i].rank)
            continue;
        if (at == s->n_kept)
            s->n_kept++;
        for (; at && s->kept[at - 1].rank > s->best[i].rank; at--)
            s->kept[at] = s->kept[at - 1];
        s->kept[at] = s->best[i];
    }
}

/* Looks for the layouts of the search's members. */
static void find_layouts(search *s)
{
    s->bandwidth = planner_maker_bandwidth(s->m, s->set.devices, s->set.n);
    for (int64_t i = 0; i <= s->rows; i++)
        s->rests[i].ns = -1;
    memset(&s->layout, 0, sizeof s->layout);
    memset(s->sums, 0, sizeof s->sums);
    s->n_best = 0;
    set_lengths(s);
    try_runs(s, 0, 0, 0, s->rows);
    keep_best(s);
}

/* ------------------------------------------------------------------------ */
/* Teams and their members                                                   */

static bool is_fixed(const search *s, uint32_t class, uint32_t device)
{
    return planner_maker_caps(s->m, class, device)->answer == CLV_ANSWER_STATIC;
}

/* Fixed devices first, and at most one that takes any length. */
static bool sort_devices(search *s, uint32_t class,
                         const planner_device_set *set)
{
    s->set = (planner_device_set){.n = 0};
    for (uint32_t i = 0; i < set->n; i++)
        if (is_fixed(s, class, set->devices[i]))
            s->set.devices[s->set.n++] = set->devices[i];
    s->n_fixed = s->set.n;
    for (uint32_t i = 0; i < set->n; i++)
        if (!is_fixed(s, class, set->devices[i]))
            s->set.devices[s->set.n++] = set->devices[i];
    return s->n_fixed && s->set.n <= s->n_fixed + 1;
}

static bool takes_part(const search *s, const planner_member *member)
{
    int64_t rows =
        core_cut_extent(s->m->graph, s->m->classes.classes[member->class].first,
                        CORE_AXIS_SEQUENCE);
    if (member->axis != CORE_AXIS_SEQUENCE || rows != s->rows)
        return false;
    for (uint32_t i = 0; i < s->set.n; i++) {
        uint32_t d = s->set.devices[i];
        if (!planner_maker_splits(s->m, member->class, d, CORE_AXIS_SEQUENCE) ||
            is_fixed(s, member->class, d) != (i < s->n_fixed))
            return false;
        if (i < s->n_fixed && s->n_members &&
            planner_maker_caps(s->m, member->class, d)->static_shapes !=
                caps_of(s, 0, d)->static_shapes)
            return false;
    }
    return true;
}

static void collect_members(search *s, const planner_device_set *set)
{
    const planner_link *link = &s->m->classes.links[s->link];
    s->n_members = 0;
    for (uint32_t i = 0; i < link->n_members && s->n_members < 64; i++) {
        const planner_member *member =
            &s->m->classes.members[link->first_member + i];
        if (!s->n_members) {
            s->rows = core_cut_extent(
                s->m->graph, s->m->classes.classes[member->class].first,
                CORE_AXIS_SEQUENCE);
            if (member->axis != CORE_AXIS_SEQUENCE || s->rows > MAX_ROWS ||
                !sort_devices(s, member->class, set))
                continue;
        }
        if (takes_part(s, member))
            s->members[s->n_members++] = member;
    }
}

static clv_status search_devices(planner_maker *m,
                                 const planner_device_set *set, void *ctx)
{
    search *s = ctx;
    (void)m;
    collect_members(s, set);
    if (!s->n_members)
        return CLV_OK;
    s->rests = calloc((size_t)s->rows + 1, sizeof *s->rests);
    if (!s->rests)
        return core_no_memory("for a plan");
    find_layouts(s);
    free(s->rests);
    s->rests = NULL;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Candidates */

static bool make_candidate(const search *s, const planner_member *member,
                           const found *f, planner_candidate *candidate)
{
    int64_t begin = 0;
    core_piece piece = {.node = s->m->classes.classes[member->class].first};
    *candidate = (planner_candidate){.n = 0};
    for (uint32_t d = 0; d < f->set.n; d++) {
        piece.device = f->set.devices[d];
        for (uint32_t i = 0; i < PLANNER_MAX_RUNS; i++) {
            int64_t rows = f->layout.runs[d][i];
            if (f->layout.rest && d == f->layout.rest_on)
                rows = i ? 0 : f->layout.rest;
            if (!rows)
                continue;
            if (candidate->n == PLANNER_CANDIDATE_PIECES)
                return false;
            piece.ranges[CORE_AXIS_SEQUENCE] =
                (core_range){begin, begin + rows};
            begin += rows;
            candidate->cuts[candidate->n++] = piece;
        }
    }
    return begin == s->rows;
}

static clv_status add_link(search *s)
{
    const planner_link *link = &s->m->classes.links[s->link];
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < link->n_members && !status; i++) {
        const planner_member *member =
            &s->m->classes.members[link->first_member + i];
        uint32_t n = 0;
        for (uint32_t j = 0; j < s->n_kept && n < KEEP_LAYOUTS && !status;
             j++) {
            planner_candidate candidate;
            s->set = s->kept[j].set;
            s->n_fixed = 0;
            while (s->n_fixed < s->set.n &&
                   is_fixed(s, member->class, s->set.devices[s->n_fixed]))
                s->n_fixed++;
            s->n_members = 0;
            s->rows = core_cut_extent(
                s->m->graph, s->m->classes.classes[member->class].first,
                CORE_AXIS_SEQUENCE);
            if (takes_part(s, member) &&
                make_candidate(s, member, &s->kept[j], &candidate)) {
                status = planner_candidate_add(s->m, member->class, &candidate);
                n++;
            }
        }
    }
    return status;
}

clv_status planner_add_sequences(planner_maker *m)
{
    search *s = calloc(1, sizeof *s);
    if (!s)
        return core_no_memory("for a plan");
    s->m = m;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < m->classes.n_links && !status; i++) {
        s->link = i;
        s->n_kept = 0;
        status = planner_each_device_set(m, true, search_devices, s);
        if (!status)
            status = add_link(s);
    }
    free(s);
    return status;
}
