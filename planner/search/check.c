/* Whether a problem is one. */
#include "check.h"

#include <math.h>

static clv_status bad(uint32_t node, const char *why)
{
    return clv_error(CLV_ERR_INVALID, "the search's node %u %s", node, why);
}

static bool is_time(double ns)
{
    return ns >= 0 && isfinite(ns);
}

static clv_status check_devices(const planner_solve_problem *p)
{
    if (!p->n_devices || p->n_devices > PLANNER_SOLVE_DEVICES)
        return clv_error(CLV_ERR_INVALID,
                         "the search is over 1..%d devices, "
                         "not %u",
                         PLANNER_SOLVE_DEVICES, p->n_devices);
    for (uint32_t d = 0; d < p->n_devices; d++) {
        const planner_solve_device *dev = &p->devices[d];
        if (!is_time(dev->submit_ns) || !is_time(dev->submit_idle_ns) ||
            !is_time(dev->dispatch_ns) || !is_time(dev->wait_ns) ||
            !is_time(dev->copy_ns) || !is_time(dev->copy_byte_ns) ||
            !(dev->max_share >= 0) ||
            dev->memory_index >= PLANNER_SOLVE_MEMORIES)
            return clv_error(CLV_ERR_INVALID,
                             "the search's device %u has "
                             "times, a share or a memory that are none",
                             d);
    }
    return CLV_OK;
}

static clv_status check_option(const planner_solve_problem *p, uint32_t node,
                               const planner_solve_option *option)
{
    if (!option->n_pieces || option->n_pieces > PLANNER_SOLVE_PIECES ||
        option->first_piece > p->n_pieces ||
        option->n_pieces > p->n_pieces - option->first_piece)
        return bad(node, "has an option without pieces, or with too many");
    bool joined = false;
    for (uint32_t i = 0; i < option->n_pieces; i++) {
        const planner_solve_piece *piece = &p->pieces[option->first_piece + i];
        if (piece->device >= p->n_devices || !is_time(piece->ns) ||
            !isfinite(piece->energy_nj))
            return bad(node, "has a piece of no device, or without a time");
        if (piece->partial && (joined || piece->joins))
            return bad(node, "joins partial sums before they are all there");
        joined |= piece->joins;
    }
    return CLV_OK;
}

static clv_status check_node(const planner_solve_problem *p, uint32_t i)
{
    const planner_solve_node *node = &p->nodes[i];
    if (node->n_deps > PLANNER_SOLVE_DEPS)
        return bad(i, "has too many deps");
    for (uint32_t k = 0; k < node->n_deps; k++) {
        if (node->deps[k] >= i)
            return bad(i, "depends on one that is not before it");
        if (!is_time(node->read_bytes[k]))
            return bad(i, "reads elements of no size");
    }
    if (!is_time(node->element_bytes))
        return bad(i, "has elements of no size");
    if (!node->n_options || node->first_option > p->n_options ||
        node->n_options > p->n_options - node->first_option)
        return bad(i, "has no options");
    return CLV_OK;
}

clv_status planner_solve_check(const planner_solve_problem *p)
{
    clv_status status = check_devices(p);
    if (!status && !p->n_nodes)
        status = clv_error(CLV_ERR_INVALID, "the search's problem is empty");
    for (uint32_t i = 0; i < p->n_nodes && !status; i++)
        status = check_node(p, i);
    return status;
}

clv_status planner_solve_check_kind(const planner_solve_problem *p, uint32_t i,
                                    uint32_t first)
{
    const planner_solve_node *node = &p->nodes[i], *other = &p->nodes[first];
    clv_status status = CLV_OK;
    if (node->n_options != other->n_options || node->n_deps != other->n_deps)
        return bad(i, "is not like the others of its kind");
    if (i != first && node->first_option == other->first_option)
        return CLV_OK;
    for (uint32_t o = 0; o < node->n_options && !status; o++) {
        const planner_solve_option *option =
            &p->options[node->first_option + o];
        status = check_option(p, i, option);
        if (!status &&
            option->n_pieces != p->options[other->first_option + o].n_pieces)
            status = bad(i, "is not like the others of its kind");
    }
    return status;
}
