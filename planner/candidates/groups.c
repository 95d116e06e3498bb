#include "groups.h"

#include <math.h>

static int64_t extent_of(const planner_maker *m, const planner_member *member)
{
    return core_cut_extent(m->graph, m->kinds.kinds[member->kind].first,
                           member->axis);
}

int64_t planner_sequence_of(const planner_maker *m, uint32_t kind)
{
    return core_cut_extent(m->graph, m->kinds.kinds[kind].first,
                           CORE_AXIS_SEQUENCE);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool planner_takes_part(const planner_maker *m, const planner_member *member,
                        const planner_team *team)
{
    for (uint32_t i = 0; i < team->n; i++) {
        uint32_t d = team->devices[i];
        if (!planner_maker_splits(m, member->kind, d, member->axis) ||
            (member->axis == CORE_AXIS_SEQUENCE &&
             planner_maker_caps(m, member->kind, d)->answer ==
                 CLV_ANSWER_STATIC))
            return false;
    }
    return true;
}

uint32_t planner_find_static(const planner_maker *m, uint32_t kind,
                             const planner_team *team)
{
    uint32_t i = 0;
    while (i < team->n &&
           !planner_maker_needs_length(m, kind, team->devices[i]))
        i++;
    return i;
}

/* A hybrid is of two devices, one of which takes any length, and members have
 * one length of sequence. */
bool planner_group_hybrid(const planner_maker *m, const planner_group *g)
{
    uint32_t kind = g->members[0]->kind;
    uint32_t at = planner_find_static(m, kind, g->team);
    if (g->team->n != 2 ||
        planner_maker_caps(m, kind, g->team->devices[!at])->answer ==
            CLV_ANSWER_STATIC)
        return false;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t k = g->members[i]->kind;
        if (planner_find_static(m, k, g->team) != at ||
            planner_sequence_of(m, k) != planner_sequence_of(m, kind) ||
            planner_maker_caps(m, k, g->team->devices[at])->static_shapes !=
                planner_maker_caps(m, kind, g->team->devices[at])
                    ->static_shapes ||
            !planner_maker_splits(m, k, g->team->devices[!at],
                                  CORE_AXIS_SEQUENCE))
            return false;
    }
    return true;
}

bool planner_group_set_steps(const planner_maker *m, planner_group *g)
{
    uint32_t most =
        m->n_devices > 2 ? PLANNER_MAX_STEPS / 2 : PLANNER_MAX_STEPS;
    g->unit = 0;
    g->step = 1;
    for (uint32_t i = 0; i < g->n; i++)
        g->unit = common_divisor(g->unit, extent_of(m, g->members[i]));
    for (uint32_t i = 0; i < g->n; i++) {
        const planner_member *member = g->members[i];
        int64_t step = planner_step_of(m, member->kind, member->axis, g->team);
        int64_t scale = extent_of(m, member) / g->unit;
        if (!step)
            return false;
        step /= common_divisor(step, scale);
        if (__builtin_mul_overflow(g->step / common_divisor(g->step, step),
                                   step, &g->step))
            return false;
    }
    while ((g->unit + g->step - 1) / g->step > most)
        g->step *= 2;
    g->steps = (uint32_t)((g->unit + g->step - 1) / g->step);
    return g->steps > 1;
}

/* ------------------------------------------------------------------------ */
/* Tables                                                                    */

/* Adds what a piece costs, count times; no cost is INFINITY. */
void planner_add_cost(const planner_maker *m, const core_piece *piece,
                      uint32_t count, planner_demand *to)
{
    planner_cost cost;
    planner_demand demand;
    if (!planner_maker_cost(m, piece, &cost, &demand)) {
        to->ns = INFINITY;
        return;
    }
    to->ns += count * demand.ns;
    to->bytes += count * demand.bytes;
}

/* The first j steps of a member, on the team's device at. */
static void add_steps(const planner_maker *m, const planner_group *g,
                      const planner_member *member, uint32_t at, uint32_t j,
                      planner_demand *to)
{
    int64_t extent = extent_of(m, member), end = j * g->step;
    core_piece piece = {.node = m->kinds.kinds[member->kind].first,
                        .device = g->team->devices[at]};
    end = (end < g->unit ? end : g->unit) * (extent / g->unit);
    if (end < extent)
        piece.ranges[member->axis].end = end;
    if (!g->hybrid) {
        planner_add_cost(m, &piece, member->count, to);
        return;
    }
    int64_t begin = 0;
    for (uint32_t i = 0; i < PLANNER_MAX_RUNS && g->layout.runs[0][i]; i++) {
        piece.ranges[CORE_AXIS_SEQUENCE] =
            (core_range){begin, begin + g->layout.runs[0][i]};
        begin += g->layout.runs[0][i];
        planner_add_cost(m, &piece, member->count, to);
    }
}

void planner_group_table(const planner_maker *m, const planner_group *g,
                         uint32_t at, planner_demand *table)
{
    for (uint32_t j = 0; j <= g->steps; j++) {
        table[j] = (planner_demand){0};
        for (uint32_t i = 0; i < g->n && j; i++)
            add_steps(m, g, g->members[i], at, j, &table[j]);
    }
}

/* What the device with any length has to do beside: the rest of the rows. */
planner_demand planner_group_rest(const planner_maker *m,
                                  const planner_group *g)
{
    planner_demand sum = {0};
    for (uint32_t i = 0; i < g->n && g->hybrid && g->layout.rest; i++) {
        core_piece piece = {.node = m->kinds.kinds[g->members[i]->kind].first,
                            .device = g->team->devices[g->layout.rest_on]};
        int64_t end = planner_sequence_of(m, g->members[i]->kind);
        piece.ranges[CORE_AXIS_SEQUENCE] =
            (core_range){end - g->layout.rest, end};
        planner_add_cost(m, &piece, g->members[i]->count, &sum);
    }
    return sum;
}

/* Sequences of the static device in a hybrid: its longest program alone, and as
 * many rows as its programs reach. */
uint32_t planner_group_layouts(const planner_maker *m, const planner_group *g,
                               planner_layout out[2])
{
    uint32_t kind = g->members[0]->kind;
    uint32_t at = planner_find_static(m, kind, g->team);
    const clv_op_caps *caps = planner_maker_caps(m, kind, g->team->devices[at]);
    int64_t rows = planner_sequence_of(m, kind), left = rows;
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
