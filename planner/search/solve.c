#include "constrain.h"
#include "../../core/base/error.h"
#include "exact.h"
#include "find.h"

#include <stdlib.h>

/* Schedules that the beam keeps. */
#define WIDTH 24
/* Rounds of improvement under constraints. */
#define MAX_ROUNDS 2

static void fill(const planner_solve_problem *p, const planner_finding *found,
                 planner_solution *out)
{
    out->makespan_ns = found->ns;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t first = p->nodes[i].first_option;
        const planner_alternative *a = &found->alternatives[i];
        const planner_solve_option *option =
            &p->options[first + found->options[i]];
        out->choices[i] = (planner_solve_choice){
            .option = first + found->options[i],
            .alternative =
                a->option == UINT32_MAX ? a->option : first + a->option,
            .alternative_ns = a->option == UINT32_MAX ? 0 : a->ns,
        };
        for (uint32_t k = 0; k < option->n_pieces; k++)
            out->energy_nj += p->pieces[option->first_piece + k].energy_nj;
    }
}

/* The choice under the problem's own constraints. */
static clv_status settle(const planner_schedule *s, planner_finding *found,
                         planner_solution *out)
{
    const planner_tables *t = s->tables;
    planner_totals totals = planner_totals_of(t, found->options);
    core_value value = planner_value_of(t->problem, &totals, found->ns);
    planner_improve_params rest = {.max_rounds = 0};
    clv_status status = CLV_OK;
    out->optimal = planner_exact_possible(t);
    if (out->optimal)
        status = planner_exact_search(s, found->options);
    else if (planner_value_legal(value))
        return CLV_OK;
    else
        status = planner_constrain(s, WIDTH, found);
    if (!status && !out->optimal) {
        rest.max_rounds = MAX_ROUNDS;
        planner_stretch_find(t->problem, 2, &rest.stretch);
    }
    if (!status)
        status = planner_improve(s, &rest, found->options, found->alternatives,
                                 &value);
    found->ns = value.ns;
    if (!status && value.memory > 0)
        status = clv_error(CLV_ERR_LIMIT,
                           "the weights do not fit the devices' "
                           "memory: %.0f MiB are too many%s; give devices more "
                           "or use more of them",
                           value.memory / 1048576,
                           out->optimal ? "" : " in the best division found");
    return status;
}

static clv_status solve(const planner_schedule *s, planner_finding *found,
                        planner_solution *out)
{
    const planner_solve_problem *p = s->tables->problem;
    planner_find_params params = {.width = WIDTH};
    clv_status status = planner_find(p, &params, found);
    if (!status)
        status = settle(s, found, out);
    if (status)
        return status;
    out->choices = calloc(p->n_nodes, sizeof *out->choices);
    if (!out->choices)
        return core_no_memory("to search for a plan");
    fill(p, found, out);
    return CLV_OK;
}

clv_status planner_search(const planner_solve_problem *problem,
                          planner_solution *out)
{
    planner_tables tables;
    planner_schedule schedule;
    planner_finding found = {0};
    *out = (planner_solution){0};
    clv_status status = planner_tables_make(problem, &tables);
    if (status)
        return status;
    planner_schedule_init(&schedule, &tables);
    found.options = calloc(problem->n_nodes, sizeof *found.options);
    found.alternatives = calloc(problem->n_nodes, sizeof *found.alternatives);
    status = found.options && found.alternatives
                 ? solve(&schedule, &found, out)
                 : core_no_memory("to search for a plan");
    free(found.options);
    free(found.alternatives);
    planner_tables_finish(&tables);
    return status;
}

void planner_solution_finish(planner_solution *solution)
{
    free(solution->choices);
    *solution = (planner_solution){0};
}
