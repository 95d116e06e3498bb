#include "copies.h"

#define HOST 1u /* memory 0, in planner_slot.memories */

static const planner_solve_piece *
piece_of(const planner_schedule *s, uint32_t node, uint32_t option, uint32_t at)
{
    const planner_solve_problem *p = s->tables->problem;
    const planner_solve_option *o =
        &p->options[p->nodes[node].first_option + option];
    return &p->pieces[o->first_piece + at];
}

static planner_box intersection(const planner_box *a, const planner_box *b)
{
    planner_box out = *a;
    for (int i = 0; i < 2; i++) {
        if (b->begin[i] > out.begin[i])
            out.begin[i] = b->begin[i];
        if (b->end[i] < out.end[i])
            out.end[i] = b->end[i];
    }
    return out;
}

/* Part of a node's result, whose rows are `columns` long; a copy of some
 * columns is one of each row. */
static double copy_ns(const planner_solve_device *dev, const planner_box *box,
                      int64_t columns, double bytes)
{
    int64_t rows = box->end[0] - box->begin[0];
    int64_t length = box->end[1] - box->begin[1];
    double runs = length < columns ? (double)rows : 1;
    return dev->copy_ns * runs +
           dev->copy_byte_ns * bytes * (double)rows * (double)length;
}

/* The step that made the slot's result goes on with a copy of it. */
static void copy_out(const planner_schedule *s, planner_state *state,
                     planner_slot *slot, double ns)
{
    uint32_t device = slot->device;
    double end = planner_state_free(s, state)[device] += ns;
    if (slot->step != planner_state_steps(s, state)[device])
        slot->at += ns;
    else
        planner_state_put_off(s, state, device, end);
}

/* A box of the slot's result comes to the device's memory; what is left to do
 * there. */
static double bring(const planner_schedule *s, planner_state *state,
                    planner_slot *slot, uint32_t device, const planner_box *box,
                    int64_t columns, double bytes)
{
    const planner_solve_device *devices = s->tables->problem->devices;
    uint32_t memory = devices[device].memory_index;
    if (slot->memories >> memory & 1)
        return 0;
    if (!(slot->memories & HOST)) {
        copy_out(s, state, slot,
                 copy_ns(&devices[slot->device], box, columns, bytes));
        slot->memories |= HOST;
    }
    if (!memory)
        return 0;
    slot->memories |= 1u << memory;
    return copy_ns(&devices[device], box, columns, bytes);
}

/* The partial sums that the part joins. */
static double bring_partial(const planner_schedule *s, planner_state *state,
                            uint32_t node, uint32_t option, uint32_t at,
                            uint32_t first)
{
    const planner_solve_node *n = &s->tables->problem->nodes[node];
    uint32_t device = piece_of(s, node, option, at)->device;
    double ns = 0;
    for (uint32_t i = 0; i < at; i++) {
        const planner_solve_piece *piece = piece_of(s, node, option, i);
        if (piece->partial)
            ns += bring(s, state, planner_state_slot(s, state, first + i),
                        device, &piece->out, n->columns, n->element_bytes);
    }
    return ns;
}

double planner_copies_bring(const planner_schedule *s, planner_state *state,
                            uint32_t index, uint32_t option, uint32_t at,
                            uint32_t first)
{
    const planner_tables *t = s->tables;
    const planner_step_node *node = &t->nodes[index];
    const planner_part_need *part =
        &t->parts[planner_tables_parts(t, index, option)->first + at];
    const planner_solve_node *source = &t->problem->nodes[index];
    const planner_live *live = planner_state_live(s, state);
    double ns = 0;
    if (!s->several)
        return 0;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        planner_live dep = live[node->live[k]];
        planner_overlap o = planner_tables_overlap(node, part, k, dep.option);
        const planner_box *need =
            &t->boxes[t->kinds[node->kind].first_box[k] + part->boxes[k]];
        for (; o.some && source->read_bytes[k] > 0; o.some &= o.some - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(o.some);
            const planner_box box =
                intersection(need, &piece_of(s, dep.node, dep.option, i)->out);
            ns += bring(s, state,
                        planner_state_slot(s, state, dep.first_slot + i),
                        part->device, &box, t->problem->nodes[dep.node].columns,
                        source->read_bytes[k]);
        }
    }
    return part->joins ? ns + bring_partial(s, state, index, option, at, first)
                       : ns;
}

double planner_copies_hand_over(const planner_schedule *s, uint32_t node,
                                uint32_t option, uint32_t at)
{
    const planner_solve_node *n = &s->tables->problem->nodes[node];
    const planner_solve_piece *piece = piece_of(s, node, option, at);
    const planner_solve_device *dev =
        &s->tables->problem->devices[piece->device];
    if (!n->wanted || !dev->memory_index || piece->partial)
        return 0;
    return copy_ns(dev, &piece->out, n->columns, n->element_bytes);
}
