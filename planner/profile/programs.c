#include "programs.h"
#include "../../core/base/error.h"
#include "../../core/base/grow.h"
#include "../../core/base/hash.h"
#include "../../core/device/subgraph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 512 /* records of a device */

/* ------------------------------------------------------------------------ */
/* Programs                                                                 */

static void mix(planner_program *program, const void *data, size_t size)
{
    program->hash = core_hash(program->hash, data, size);
}

void planner_program_begin(planner_program *program,
                           const clv_symbol_range *symbols, uint32_t n)
{
    *program = (planner_program){.hash = CORE_HASH_SEED};
    mix(program, symbols, n * sizeof *symbols);
}

void planner_program_add_tensor(planner_program *program,
                                const clv_tensor_desc *desc)
{
    double elements = 1;
    uint64_t bytes;
    mix(program, desc, sizeof *desc);
    for (uint32_t d = 0; d < desc->rank; d++)
        elements *= (double)desc->dims[d];
    if (desc->usage != CLV_USAGE_WEIGHT)
        program->elements += elements;
    else if (!core_desc_size(desc, NULL, &bytes))
        program->weight_bytes += (double)bytes;
}

void planner_program_add_node(planner_program *program, const clv_node *node)
{
    mix(program, node, sizeof *node);
    program->nodes++;
}

planner_program planner_program_of(const clv_subgraph *graph)
{
    planner_program program;
    planner_program_begin(&program, graph->symbols, graph->n_symbols);
    for (uint32_t i = 0; i < graph->n_tensors; i++)
        planner_program_add_tensor(&program, core_subgraph_tensor(graph, i));
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        planner_program_add_node(&program, &graph->nodes[i]);
    return program;
}

/* ------------------------------------------------------------------------ */
/* Records                                                                  */

bool planner_programs_load(const clv_device *dev)
{
    return clv_config_get_int(dev->ctx->config, "core.program_cache") > 0;
}

void planner_programs_finish(planner_programs *programs)
{
    free(programs->items);
    *programs = (planner_programs){0};
}

static planner_program_record *find(const planner_programs *programs,
                                    uint64_t hash)
{
    for (uint32_t i = programs->n; i-- > 0;)
        if (programs->items[i].program.hash == hash)
            return &programs->items[i];
    return NULL;
}

/* The oldest one goes where there are too many. */
clv_status planner_programs_add(planner_programs *programs,
                                const planner_program_record *record)
{
    if (programs->n == MOST)
        memmove(programs->items, programs->items + 1,
                --programs->n * sizeof *programs->items);
    if (!core_grow(&programs->items, &programs->capacity, programs->n + 1ull,
                   sizeof *programs->items))
        return core_no_memory("for a profile");
    programs->items[programs->n++] = *record;
    return CLV_OK;
}

/* A device may have it ready that made it before, even if the cache has not. */
static bool note(planner_program_record *r, const planner_program_time *time,
                 bool loads)
{
    const bool again = r->met || time->was_cached;
    const bool is_cached = loads ? time->is_cached : r->is_cached;
    const bool changed =
        r->is_cached != is_cached || !((again ? r->again_ns : r->first_ns) > 0);
    if (!again)
        r->first_ns = fmax(time->ns, 1);
    else
        r->again_ns = fmax(
            r->again_ns > 0 ? (3 * r->again_ns + time->ns) / 4 : time->ns, 1);
    r->met = true;
    r->is_cached = is_cached;
    return changed;
}

clv_status planner_programs_note(planner_programs *programs,
                                 const planner_program_time *times, uint32_t n,
                                 bool loads, bool *changed)
{
    *changed = false;
    for (uint32_t i = 0; i < n; i++) {
        const planner_program_record fresh = {.program = times[i].program};
        planner_program_record *r = find(programs, fresh.program.hash);
        if (!r) {
            CLV_TRY(planner_programs_add(programs, &fresh));
            r = &programs->items[programs->n - 1];
        }
        *changed |= note(r, &times[i], loads);
    }
    return *changed ? planner_programs_fit(programs) : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Models                                                                   */

#define FEATURES 3

/* What a node costs is told only by programs of several. */
static planner_fit_sample sample_of(const planner_program *program, double ns)
{
    return (planner_fit_sample){
        .x = {program->nodes - 1, program->elements, program->weight_bytes},
        .ns = ns};
}

clv_status planner_programs_fit(planner_programs *programs)
{
    planner_fit_sample *samples = calloc(programs->n + 1u, sizeof *samples);
    clv_status status = samples ? CLV_OK : core_no_memory("for a profile");
    for (int again = 0; again < 2 && !status; again++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < programs->n; i++) {
            const planner_program_record *r = &programs->items[i];
            const double ns = again ? r->again_ns : r->first_ns;
            if (ns > 0)
                samples[n++] = sample_of(&r->program, ns);
        }
        *(again ? &programs->has_again : &programs->has_first) = n;
        if (n)
            status =
                planner_linear_fit(samples, n, FEATURES,
                                   again ? &programs->again : &programs->first);
    }
    free(samples);
    return status;
}

double planner_programs_ns(const planner_programs *programs,
                           const planner_program *program, bool again,
                           bool loads)
{
    const planner_program_record *r = find(programs, program->hash);
    again = again || (r && (r->met || (r->is_cached && loads)));
    if (r && (again ? r->again_ns : r->first_ns) > 0)
        return again ? r->again_ns : r->first_ns;
    if (!(again ? programs->has_again : programs->has_first))
        return 0;
    return planner_linear_predict(again ? &programs->again : &programs->first,
                                  sample_of(program, 1).x, FEATURES);
}
