#include "explain.h"

#include "../core/base/text.h"

/* "all on cpu", "rows: 0..384 on cpu:big, 384..512 on cpu:little". */
static clv_status option_text(const clv_plan *plan, const planner_candidates *c,
                              uint32_t option, char **out)
{
    const planner_solve_option *o = &c->options[option];
    core_text text = {0};
    const char *separator = "";
    for (uint32_t i = 0; i < o->n_pieces; i++) {
        const core_piece *cut = &c->cuts[o->first_piece + i];
        bool any = false;
        if (cut->node == CORE_NO_PIECE)
            continue;
        core_text_add(&text, "%s", separator);
        separator = ", ";
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
            if (!cut->ranges[a].end)
                continue;
            core_text_add(&text, "%s%s %lld..%lld", any ? " x " : "",
                          core_axis_name(a), (long long)cut->ranges[a].begin,
                          (long long)cut->ranges[a].end);
            any = true;
        }
        core_text_add(&text, "%s on %s%s", any ? "" : "all",
                      plan->devices[cut->device].dev->id,
                      cut->streamed ? ", streamed" : "");
    }
    return core_text_take(&text, out);
}

clv_status planner_explain(clv_plan *plan, const planner_candidates *c,
                           const planner_solution *solution,
                           const uint32_t *options)
{
    const double search_ns = solution->makespan_ns;
    clv_status status = CLV_OK;
    /* The search sees less than the forecast: differences are told. */
    const double more =
        plan->forecast ? plan->forecast->makespan_ns - search_ns : 0;
    for (uint32_t i = 0; i < c->problem.n_nodes && !status; i++) {
        core_choice *choice = &plan->choices[i];
        const planner_solve_choice *s = &solution->choices[i];
        const planner_solve_option *o = &c->options[options[i]];
        uint32_t other = s->alternative;
        for (uint32_t j = 0; j < o->n_pieces; j++)
            if (c->pieces[o->first_piece + j].ns > choice->ns)
                choice->ns = c->pieces[o->first_piece + j].ns;
        choice->alternative_ns = s->alternative_ns + more;
        if (options[i] != s->option) { /* the search chose another one */
            other = s->option;
            choice->alternative_ns = search_ns;
        }
        if (other != UINT32_MAX)
            status = option_text(plan, c, other, &choice->alternative);
        else
            choice->alternative_ns = 0;
    }
    return status;
}
