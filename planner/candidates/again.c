/*
 * Candidates that copy to a device what it holds already. While the device
 * computes, such copies cost nothing by themselves, so the search takes them
 * for some nodes and then has too many for all. They are refused where another
 * candidate copies only the rest.
 */
#include "maker.h"
#include "../../core/plan/held.h"

static uint64_t overlap(uint64_t a, uint64_t a_size, uint64_t b,
                        uint64_t b_size)
{
    const uint64_t begin = a > b ? a : b;
    const uint64_t end = a + a_size < b + b_size ? a + a_size : b + b_size;
    return end > begin ? end - begin : 0;
}

/* Bytes that two ranges of a weight have in common. */
static double common_bytes(const core_runs *a, const core_runs *b,
                           uint64_t total)
{
    if (a->n == b->n && a->pitch == b->pitch)
        return (double)a->n *
               (double)overlap(a->offset, a->bytes, b->offset, b->bytes);
    /* Rows and columns. */
    return (double)(a->n * a->bytes) / (double)total *
           (double)(b->n * b->bytes);
}

/* ns that the candidate's copies take of what is held. */
static double again_ns(const planner_maker *m, const planner_candidate *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t lane = c->cuts[i].device;
        core_runs range, held;
        if (!planner_maker_streams(m, lane) ||
            !planner_maker_weight_range(m, &c->cuts[i], &range))
            continue;
        clv_tensor *weight = planner_maker_tensor(m, c->cuts[i].node);
        const core_plan_device *of = &m->plan->devices[m->owners[lane]];
        for (uint32_t j = 0; core_held_at(of, weight, j, &held); j++)
            sum += m->devices[lane].copy_byte_ns *
                   common_bytes(&range, &held, clv_tensor_size(weight));
    }
    return sum;
}

/* Whether it uses no device but those of the other. */
static bool is_within(const planner_maker *m, const planner_candidate *c,
                      const planner_candidate *other)
{
    uint32_t devices = 0, others = 0;
    for (uint32_t i = 0; i < c->n; i++)
        devices |= 1u << m->owners[c->cuts[i].device];
    for (uint32_t i = 0; i < other->n; i++)
        others |= 1u << m->owners[other->cuts[i].device];
    return !(devices & ~others);
}

static bool needs_memory(const planner_candidate *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->weight_bytes[i])
            return true;
    return false;
}

void planner_refuse_copied_again(const planner_maker *m, uint32_t class)
{
    planner_candidate_set *set = &m->sets[class];
    for (uint32_t i = 0; i < set->n; i++) {
        planner_candidate *c = &set->list[i];
        const double again = again_ns(m, c);
        bool refused = false;
        for (uint32_t j = 0; j < set->n && again > 0 && !refused; j++) {
            const planner_candidate *o = &set->list[j];
            refused = o->n && !needs_memory(o) && is_within(m, o, c) &&
                      o->time < c->time + again && !(again_ns(m, o) > 0);
        }
        if (refused)
            c->n = 0;
    }
}
