/*
 * Candidates near those of a plan. Points divide each link as is best for it
 * alone. Beside others another division may be better: they share links, rings
 * and memory. So a part of what one device has goes to another one, for each
 * two of them.
 */
#include "maker.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Divisions of a link that others are made from, at most. */
#define CENTERS 4
#define MEMBERS 64

/* A division that the plan has: parts of an extent. */
typedef struct center {
    planner_device_set set;
    double parts[PLANNER_SHARE_DEVICES];
} center;

typedef struct center_list {
    center list[CENTERS];
    uint32_t n;
} center_list;

static uint32_t lane_of(const planner_maker *m, const core_piece *cut)
{
    uint32_t lane = cut->streamed ? m->plan->n_devices : 0;
    while (m->owners[lane] != cut->device)
        lane++;
    return lane;
}

/* ------------------------------------------------------------------------ */
/* The plan's own                                                            */

/* The plan's option of a node, as a candidate; false: it has too many parts. */
static bool candidate_of(const planner_maker *m, uint32_t node,
                         planner_candidate *out)
{
    const planner_candidates *c = m->near->candidates;
    const planner_solve_option *o = &c->options[m->near->options[node]];
    *out = (planner_candidate){.near = true};
    for (uint32_t i = 0; i < o->n_pieces; i++) {
        const core_piece *cut = &c->cuts[o->first_piece + i];
        if (cut->node == CORE_NO_PIECE)
            continue;
        if (out->n == PLANNER_CANDIDATE_PIECES)
            return false;
        out->cuts[out->n] = *cut;
        out->cuts[out->n].device = lane_of(m, cut);
        out->cuts[out->n++].streamed = false;
    }
    return true;
}

/* Whether the parts follow one another along the axis, and nothing else is
 * divided. A whole node is one part. */
static bool center_of(const planner_candidate *candidate, uint32_t axis,
                      int64_t extent, center *out)
{
    *out = (center){.set = {.n = 0}};
    for (int64_t at = 0; at < extent;) {
        uint32_t i = 0;
        while (i < candidate->n && candidate->cuts[i].ranges[axis].begin != at)
            i++;
        if (i == candidate->n || out->set.n == PLANNER_SHARE_DEVICES)
            return false;
        const core_piece *cut = &candidate->cuts[i];
        const int64_t end =
            cut->ranges[axis].end ? cut->ranges[axis].end : extent;
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
            if (a != axis && cut->ranges[a].end)
                return false;
        out->set.devices[out->set.n] = cut->device;
        out->parts[out->set.n++] = (double)(end - at) / (double)extent;
        at = end;
    }
    return out->set.n == candidate->n;
}

static bool same_center(const center *a, const center *b)
{
    return !memcmp(&a->set, &b->set, sizeof a->set) &&
           !memcmp(a->parts, b->parts, sizeof a->parts);
}

static void note_center(center_list *to, const center *c)
{
    for (uint32_t i = 0; i < to->n; i++)
        if (same_center(&to->list[i], c))
            return;
    if (to->n < CENTERS)
        to->list[to->n++] = *c;
}

/* Adds what the plan has for each class, and notes how links are divided. */
static clv_status add_centers(planner_maker *m, center_list *lists)
{
    for (uint32_t i = 0; i < m->graph->n_nodes; i++) {
        const uint32_t k = m->classes.of[i];
        planner_candidate candidate;
        if (!candidate_of(m, i, &candidate))
            continue;
        CLV_TRY(planner_candidate_add(m, k, &candidate));
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
            const uint32_t link = m->classes.classes[k].links[a];
            center c;
            if (link != PLANNER_NO_LINK &&
                center_of(&candidate, a, core_cut_extent(m->graph, i, a), &c))
                note_center(&lists[link], &c);
        }
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Others                                                                    */

/* The place of a device in the set; the set's n: it is not there. */
static uint32_t place_of(const center *c, uint32_t device)
{
    uint32_t at = 0;
    while (at < c->set.n && c->set.devices[at] != device)
        at++;
    return at;
}

/* With another device in the set, which is in the order of devices. */
static void put_in(center *c, uint32_t device)
{
    uint32_t at = 0;
    while (at < c->set.n && c->set.devices[at] < device)
        at++;
    for (uint32_t i = c->set.n++; i > at; i--) {
        c->set.devices[i] = c->set.devices[i - 1];
        c->parts[i] = c->parts[i - 1];
    }
    c->set.devices[at] = device;
    c->parts[at] = 0;
}

/* Divided as c at what the members allow; a device may have nothing. */
static bool point_of(const center *c, int64_t unit, int64_t step,
                     planner_cut_point *out)
{
    const int64_t steps = (unit + step - 1) / step;
    double sum = 0;
    int64_t before = 0;
    *out = (planner_cut_point){.den = unit, .near = true};
    for (uint32_t i = 0; i < c->set.n; i++) {
        sum += c->parts[i];
        const int64_t end =
            i + 1 == c->set.n ? steps : (int64_t)(sum * (double)steps + 0.5);
        if (end <= before)
            continue;
        out->set.devices[out->set.n] = c->set.devices[i];
        out->num[out->set.n++] = end == steps ? unit : end * step;
        before = end;
    }
    return out->set.n > 1;
}

/* Moves a part of c, whose set has both devices, from one to the other. */
static clv_status add_division(planner_maker *m, const planner_link *link,
                               center c, uint32_t from, uint32_t to)
{
    const planner_member *all = &m->classes.members[link->first_member];
    const planner_member *members[MEMBERS];
    planner_cut_point point;
    uint32_t n = 0;
    int64_t unit, step;
    for (uint32_t i = 0; i < link->n_members && n < MEMBERS; i++)
        if (planner_takes_part(m, &all[i], &c.set))
            members[n++] = &all[i];
    if (!n || !planner_point_steps(m, members, n, &c.set, &unit, &step))
        return CLV_OK;
    double *rest = &c.parts[place_of(&c, from)];
    const double part =
        fmin(*rest, fmax(1.0 / m->near->parts, (double)step / (double)unit));
    *rest -= part;
    c.parts[place_of(&c, to)] += part;
    if (!point_of(&c, unit, step, &point))
        return CLV_OK;
    for (uint32_t i = 0; i < n; i++)
        CLV_TRY(planner_point_add(m, members[i], &point));
    return CLV_OK;
}

static clv_status add_around(planner_maker *m, const planner_link *link,
                             const center *c)
{
    for (uint32_t i = 0; i < c->set.n; i++)
        for (uint32_t d = 0; d < m->n_devices; d++) {
            center other = *c;
            if (place_of(c, d) == c->set.n) {
                if (c->set.n == PLANNER_SHARE_DEVICES)
                    continue;
                put_in(&other, d);
            }
            if (d != c->set.devices[i])
                CLV_TRY(add_division(m, link, other, c->set.devices[i], d));
        }
    return CLV_OK;
}

clv_status planner_add_near(planner_maker *m)
{
    center_list *lists = calloc(m->classes.n_links + 1u, sizeof *lists);
    clv_status status =
        lists ? add_centers(m, lists) : core_no_memory("for a plan");
    for (uint32_t i = 0; i < m->classes.n_links && !status; i++)
        for (uint32_t j = 0; j < lists[i].n && !status; j++)
            status = add_around(m, &m->classes.links[i], &lists[i].list[j]);
    free(lists);
    return status;
}

bool planner_near_options(const planner_maker *m,
                          const planner_solve_node *nodes, uint32_t *options)
{
    for (uint32_t i = 0; i < m->graph->n_nodes; i++) {
        planner_candidate candidate;
        if (!candidate_of(m, i, &candidate))
            return false;
        const uint32_t at =
            planner_candidate_find(m, m->classes.of[i], &candidate);
        if (at == nodes[i].n_options)
            return false;
        options[i] = nodes[i].first_option + at;
    }
    return true;
}
