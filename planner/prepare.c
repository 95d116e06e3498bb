#include "prepare.h"
#include "../core/base/error.h"

#include <math.h>
#include <stdlib.h>

/* Numbers a step's values in the order of their use. */
typedef struct reader {
    const clv_plan *plan;
    uint32_t step, n;
    uint32_t *used;  /* [graph->n_tensors] 1 + the step that used it last, */
    uint32_t *index; /* and its number there */
    planner_program program;
} reader;

static clv_status reader_make(const clv_plan *plan, reader *out)
{
    const size_t n = plan->graph->n_tensors + 1u;
    *out = (reader){.plan = plan,
                    .used = calloc(n, sizeof *out->used),
                    .index = calloc(n, sizeof *out->index)};
    return out->used && out->index ? CLV_OK : core_no_memory("for a plan");
}

static void reader_finish(reader *r)
{
    free(r->used);
    free(r->index);
}

static uint32_t take_tensor(reader *r, clv_value value)
{
    if (value == CLV_NO_TENSOR || r->used[value] == r->step + 1)
        return value == CLV_NO_TENSOR ? value : r->index[value];
    clv_tensor_desc desc = r->plan->graph->tensors[value];
    r->used[value] = r->step + 1;
    r->index[value] = r->n++;
    desc.usage = core_plan_usage(r->plan, r->step, value);
    if (desc.quant_scales)
        desc.quant_scales = 1 + take_tensor(r, desc.quant_scales - 1);
    planner_program_add_tensor(&r->program, &desc);
    return r->index[value];
}

/* The program of a step, as core/exec/program.c compiles it; without nodes
 * where the step only copies. */
static planner_program read_step(reader *r, uint32_t step)
{
    const core_step *s = &r->plan->steps[step];
    planner_program_begin(&r->program, r->plan->graph->symbols,
                          r->plan->graph->n_symbols);
    r->step = step;
    r->n = 0;
    for (uint32_t p = s->first_part; p < s->first_part + s->n_parts; p++) {
        if (core_part_copies(r->plan, p))
            continue;
        clv_node node = r->plan->graph->nodes[r->plan->parts[p].node];
        for (uint32_t i = 0; i < node.n_inputs; i++)
            node.inputs[i] = take_tensor(r, node.inputs[i]);
        for (uint32_t i = 0; i < node.n_outputs; i++)
            node.outputs[i] = take_tensor(r, node.outputs[i]);
        planner_program_add_node(&r->program, &node);
    }
    return r->program;
}

/* Whether an earlier step of the device has such a program. */
static bool is_again(const clv_plan *plan, const uint64_t *hashes,
                     uint32_t step)
{
    for (uint32_t s = 0; s < step; s++)
        if (hashes[s] == hashes[step] &&
            plan->steps[s].device == plan->steps[step].device)
            return true;
    return false;
}

clv_status planner_prepare_predict(const clv_plan *plan,
                                   const planner_profile *profile, double *ns)
{
    reader r;
    uint64_t *hashes = calloc(plan->n_steps + 1u, sizeof *hashes);
    clv_status status = reader_make(plan, &r);
    if (!hashes)
        status = core_no_memory("for a plan");
    *ns = 0;
    for (uint32_t s = 0; s < plan->n_steps && !status; s++) {
        const planner_program program = read_step(&r, s);
        hashes[s] = program.hash;
        if (program.nodes)
            *ns += planner_profile_program_ns(
                profile, plan->devices[plan->steps[s].device].dev, &program,
                is_again(plan, hashes, s));
    }
    reader_finish(&r);
    free(hashes);
    return status;
}

double planner_prepare_share(const clv_plan *plan)
{
    const int64_t runs =
        clv_config_get_int(plan->ctx->config, "core.expected_runs");
    return runs ? plan->prepare_ns / (double)runs : 0;
}

static double elements_of(const planner_box *box)
{
    return fmax((double)(box->end[0] - box->begin[0]), 0) *
           fmax((double)(box->end[1] - box->begin[1]), 0);
}

/* Of a program of this piece alone. */
static double piece_ns(const planner_solve_piece *piece,
                       const planner_profile *profile, const clv_device *dev)
{
    planner_program program = {.nodes = 1,
                               .elements = elements_of(&piece->out),
                               .weight_bytes = (double)piece->weight_bytes};
    for (uint32_t i = 0; i < PLANNER_SOLVE_DEPS; i++)
        program.elements += elements_of(&piece->needs[i]);
    return planner_profile_program_ns(profile, dev, &program, false);
}

/* What a piece of one of so many nodes alike adds to the preparation; joins and
 * copies of weights are no pieces of nodes, and copies may be on a queue. */
static double price_of(const clv_plan *plan, const planner_profile *profile,
                       const planner_candidates *candidates, uint32_t piece,
                       uint32_t alike)
{
    const planner_solve_piece *p = &candidates->pieces[piece];
    return candidates->cuts[piece].node == CORE_NO_PIECE
               ? 0
               : piece_ns(p, profile, plan->devices[p->device].dev) / alike;
}

void planner_prepare_prices(const clv_plan *plan, const uint32_t *options,
                            const planner_profile *profile,
                            planner_candidates *candidates)
{
    const planner_solve_problem *p = &candidates->problem;
    double sum = 0;
    for (uint32_t i = 0; i < p->n_pieces; i++)
        candidates->pieces[i].extra_ns = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const planner_solve_node *node = &p->nodes[i];
        uint32_t alike = 0;
        for (uint32_t j = 0; j < p->n_nodes; j++)
            alike += p->nodes[j].first_option == node->first_option;
        for (uint32_t o = 0; o < node->n_options; o++) {
            const uint32_t at = node->first_option + o;
            const planner_solve_option *option = &p->options[at];
            for (uint32_t k = 0; k < option->n_pieces; k++) {
                const uint32_t piece = option->first_piece + k;
                double *extra_ns = &candidates->pieces[piece].extra_ns;
                if (!(*extra_ns > 0))
                    *extra_ns =
                        price_of(plan, profile, candidates, piece, alike);
                sum += at == options[i] ? *extra_ns : 0;
            }
        }
    }
    const double scale = sum > 0 ? planner_prepare_share(plan) / sum : 0;
    for (uint32_t i = 0; i < p->n_pieces; i++)
        candidates->pieces[i].extra_ns *= scale;
}

clv_status planner_prepare_learn(const clv_exec *exec, planner_profile *profile)
{
    const clv_plan *plan = exec->plan;
    reader r;
    planner_program_time *times = calloc(plan->n_steps + 1u, sizeof *times);
    clv_status status = reader_make(plan, &r);
    if (!times)
        status = core_no_memory("for a profile");
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        uint32_t n = 0;
        for (uint32_t s = 0; s < plan->n_steps; s++) {
            const core_program *program = exec->steps[s].program;
            if (program && plan->steps[s].device == d)
                times[n++] = (planner_program_time){
                    read_step(&r, s), program->ready_ns, program->was_cached,
                    program->is_cached};
        }
        if (n)
            status = planner_profile_learn_programs(
                profile, plan->devices[d].dev, times, n);
    }
    reader_finish(&r);
    free(times);
    return status;
}
