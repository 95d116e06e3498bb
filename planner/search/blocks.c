#include "blocks.h"
#include "../../core/base/error.h"

#include <stdlib.h>

/* Longest period looked for, in nodes. */
#define MAX_PERIOD 512

static bool same_node(const planner_solve_problem *p, uint32_t i, uint32_t j)
{
    const planner_solve_node *a = &p->nodes[i], *b = &p->nodes[j];
    if (a->class != b->class || a->n_deps != b->n_deps)
        return false;
    for (uint32_t k = 0; k < a->n_deps; k++)
        if (i - a->deps[k] != j - b->deps[k])
            return false;
    return true;
}

bool planner_block_find(const planner_solve_problem *p, uint32_t max_copies,
                        planner_block *out)
{
    uint32_t longest = 0;
    for (uint32_t period = 1;
         period <= MAX_PERIOD && period < p->n_nodes / (max_copies + 1) + 1;
         period++) {
        uint32_t run = 0;
        for (uint32_t i = 0; i + period < p->n_nodes; i++) {
            run = same_node(p, i, i + period) ? run + 1 : 0;
            if (run + period <= longest || run / period < max_copies)
                continue;
            longest = run + period;
            *out = (planner_block){i + 1 - run, period, run / period + 1};
        }
    }
    return longest > 0;
}

clv_status planner_block_reduce(const planner_solve_problem *p,
                                const planner_block *s, uint32_t copies,
                                planner_solve_node **nodes)
{
    uint32_t less = (s->copies - copies) * s->period;
    uint32_t end = s->begin + s->copies * s->period;
    planner_solve_node *out = calloc(p->n_nodes - less, sizeof *out);
    if (!out)
        return core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < end - less; i++)
        out[i] = p->nodes[i];
    for (uint32_t i = end; i < p->n_nodes; i++) {
        planner_solve_node *node = &out[i - less];
        *node = p->nodes[i];
        for (uint32_t k = 0; k < node->n_deps; k++) {
            if (node->deps[k] < s->begin)
                continue;
            if (node->deps[k] < s->begin + less) {
                free(out);
                return CLV_ERR_NOT_FOUND;
            }
            node->deps[k] -= less;
        }
    }
    *nodes = out;
    return CLV_OK;
}

uint32_t planner_block_map(const planner_block *s, uint32_t copies,
                           uint32_t repeated, uint32_t i)
{
    uint32_t skipped = s->copies - copies;
    if (i < s->begin)
        return i;
    uint32_t copy = (i - s->begin) / s->period, to = copy;
    if (copy > repeated + skipped)
        to = copy - skipped;
    else if (copy > repeated)
        to = repeated;
    return i - (copy - to) * s->period;
}
