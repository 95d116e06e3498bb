#include "evaluate.h"
#include "../../core/base/error.h"

#include <stdlib.h>
#include <string.h>

double planner_evaluate(const planner_schedule *s, const uint32_t *options,
                        planner_state *state, double *begin, double *end)
{
    const planner_tables *t = s->tables;
    size_t at = 0;
    planner_state_begin(s, state);
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        planner_state_add(s, state, i, options[i], begin ? begin + at : NULL,
                          end ? end + at : NULL);
        at += planner_tables_parts(t, i, options[i])->n;
    }
    return planner_state_makespan(s, state);
}

clv_status planner_solve_evaluate(const planner_solve_problem *problem,
                                  const uint32_t *options, double *begin,
                                  double *end, double *makespan_ns)
{
    planner_tables tables;
    planner_schedule schedule;
    uint32_t n = problem->n_nodes;
    *makespan_ns = 0;
    clv_status status = planner_tables_make(problem, &tables);
    if (status)
        return status;
    planner_schedule_init(&schedule, &tables);
    planner_state *state = calloc(1, schedule.state_size);
    uint32_t *own = calloc(n, sizeof *own);
    if (!state || !own)
        status = core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < n && !status; i++) {
        own[i] = options[i] - problem->nodes[i].first_option;
        if (own[i] >= problem->nodes[i].n_options)
            status = clv_error(CLV_ERR_INVALID, "option %u is none of node %u",
                               options[i], i);
    }
    if (!status)
        *makespan_ns = planner_evaluate(&schedule, own, state, begin, end);
    free(own);
    free(state);
    planner_tables_finish(&tables);
    return status;
}
