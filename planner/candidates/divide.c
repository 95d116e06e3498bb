/* Candidates of points: where a set of devices divides an axis of nodes. */
#include "maker.h"

#include <string.h>

int64_t planner_member_extent(const planner_maker *m,
                              const planner_member *member)
{
    return core_cut_extent(m->graph, m->classes.classes[member->class].first,
                           member->axis);
}

int64_t planner_class_sequence(const planner_maker *m, uint32_t class)
{
    return core_cut_extent(m->graph, m->classes.classes[class].first,
                           CORE_AXIS_SEQUENCE);
}

bool planner_takes_part(const planner_maker *m, const planner_member *member,
                        const planner_device_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t d = set->devices[i];
        if (!planner_maker_splits(m, member->class, d, member->axis) ||
            (member->axis == CORE_AXIS_SEQUENCE &&
             planner_maker_caps(m, member->class, d)->answer ==
                 CLV_ANSWER_STATIC))
            return false;
    }
    return true;
}

uint32_t planner_find_static(const planner_maker *m, uint32_t class,
                             const planner_device_set *set)
{
    uint32_t i = 0;
    while (i < set->n && !planner_maker_needs_length(m, class, set->devices[i]))
        i++;
    return i;
}

bool planner_point_steps(const planner_maker *m,
                         const planner_member *const *members, uint32_t n,
                         const planner_device_set *set, int64_t *unit,
                         int64_t *step)
{
    const uint32_t most =
        m->n_devices > 2 ? PLANNER_MAX_STEPS / 2 : PLANNER_MAX_STEPS;
    *unit = 0;
    *step = 1;
    for (uint32_t i = 0; i < n; i++)
        *unit =
            planner_common_divisor(*unit, planner_member_extent(m, members[i]));
    for (uint32_t i = 0; i < n; i++) {
        int64_t own =
            planner_step_of(m, members[i]->class, members[i]->axis, set);
        if (!own)
            return false;
        own /= planner_common_divisor(
            own, planner_member_extent(m, members[i]) / *unit);
        if (__builtin_mul_overflow(*step / planner_common_divisor(*step, own),
                                   own, step))
            return false;
    }
    while ((*unit + *step - 1) / *step > most)
        *step *= 2;
    return true;
}

static bool add_cut(planner_candidate *candidate, const core_piece *piece)
{
    if (candidate->n == PLANNER_CANDIDATE_PIECES)
        return false;
    candidate->cuts[candidate->n++] = *piece;
    return true;
}

/* The pieces of a hybrid: the part that is divided, run by run where its sums
 * must match, and the rest. */
static bool add_hybrid(const planner_cut_point *point, uint32_t axis,
                       uint32_t at, int64_t rows, core_piece piece,
                       planner_candidate *candidate)
{
    const planner_layout *layout = &point->layout;
    core_range *range = &piece.ranges[CORE_AXIS_SEQUENCE];
    bool by_runs = at != layout->rest_on || axis == CORE_AXIS_CHANNELS ||
                   axis == CORE_AXIS_EXPERTS;
    int64_t begin = 0;
    for (uint32_t i = 0; i < PLANNER_MAX_RUNS && layout->runs[0][i] && by_runs;
         i++) {
        *range = (core_range){begin, begin + layout->runs[0][i]};
        begin = range->end;
        if (!add_cut(candidate, &piece))
            return false;
    }
    if (!by_runs && rows > layout->rest) {
        *range = (core_range){0, rows - layout->rest};
        if (!layout->rest)
            *range = (core_range){0, 0};
        if (!add_cut(candidate, &piece))
            return false;
    }
    if (at != layout->rest_on || !layout->rest)
        return true;
    piece.ranges[axis] = (core_range){0, 0};
    *range = (core_range){rows - layout->rest, rows};
    return add_cut(candidate, &piece);
}

static bool make_candidate(const planner_maker *m, uint32_t class,
                           uint32_t axis, const planner_cut_point *point,
                           planner_candidate *candidate)
{
    uint32_t node = m->classes.classes[class].first;
    int64_t extent = core_cut_extent(m->graph, node, axis), begin = 0;
    int64_t step = planner_step_of(m, class, axis, &point->set);
    *candidate = (planner_candidate){.near = point->near};
    for (uint32_t i = 0; i < point->set.n; i++) {
        int64_t end;
        if (!step || __builtin_mul_overflow(extent, point->num[i], &end) ||
            end % point->den)
            return false;
        end /= point->den;
        if (end <= begin || end > extent || (end % step && end != extent))
            return false;
        core_piece piece = {.node = node, .device = point->set.devices[i]};
        piece.ranges[axis] = (core_range){begin, end};
        begin = end;
        if (point->hybrid
                ? !add_hybrid(point, axis, i, planner_class_sequence(m, class),
                              piece, candidate)
                : !add_cut(candidate, &piece))
            return false;
    }
    return begin == extent;
}

/* Puts the pieces of a device before the others. */
static void put_first(planner_candidate *candidate, uint32_t device)
{
    core_piece cuts[PLANNER_CANDIDATE_PIECES];
    uint32_t n = 0;
    for (int first = 1; first >= 0; first--)
        for (uint32_t i = 0; i < candidate->n; i++)
            if ((candidate->cuts[i].device == device) == first)
                cuts[n++] = candidate->cuts[i];
    memcpy(candidate->cuts, cuts, n * sizeof *cuts);
}

clv_status planner_point_add(planner_maker *m, const planner_member *member,
                             const planner_cut_point *point)
{
    planner_candidate candidate;
    if (!planner_takes_part(m, member, &point->set) ||
        !make_candidate(m, member->class, member->axis, point, &candidate))
        return CLV_OK;
    bool any_length =
        planner_find_static(m, member->class, &point->set) == point->set.n;
    if (any_length == point->hybrid)
        return CLV_OK;
    const uint32_t node = m->classes.classes[member->class].first;
    if (!planner_maker_sums(m, node, member->axis))
        return planner_candidate_add(m, member->class, &candidate);
    /* The first device adds the sums, or all of them do. */
    for (uint32_t i = 0; i < point->set.n; i++) {
        put_first(&candidate, point->set.devices[i]);
        CLV_TRY(planner_candidate_add(m, member->class, &candidate));
    }
    for (uint32_t i = 0; i < candidate.n; i++)
        candidate.cuts[i].adds = 1;
    return point->hybrid ? CLV_OK
                         : planner_candidate_add(m, member->class, &candidate);
}
