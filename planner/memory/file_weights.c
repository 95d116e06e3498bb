#include "file_weights.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>

/* Asked for ahead: enough for the disk to be at work all the time, as what is
 * asked for takes memory from what is kept. */
#define AHEAD_MOST ((uint64_t)256 << 20)
#define AHEAD_PART 32 /* of the room, */
#define AHEAD_PART_MOST 8
#define AHEAD_STEPS 4

/* A weight that is used in a file. */
typedef struct file_weight {
    clv_value base;
    uint64_t bytes;
    bool experts; /* runs use some of them only */
} file_weight;

typedef struct finder {
    const clv_plan *plan;
    file_weight *weights; /* [graph->n_tensors] in the order of first uses */
    uint32_t *indices;    /* [graph->n_tensors] of bases, + 1 */
    bool *seen;           /* [graph->n_tensors] values */
    uint32_t n;
    uint64_t whole, some; /* bytes of those without and with experts */
} finder;

/* Pieces of a weight count once each, and no more than the weight in all. */
static void add(finder *f, uint32_t part, clv_value value, uint64_t bytes)
{
    const core_value *v = &f->plan->graph->values[value];
    const uint64_t most = clv_tensor_size(v->weight);
    const bool experts = core_plan_reads_experts(f->plan, part);
    if (!f->indices[v->base]) {
        f->weights[f->n] = (file_weight){.base = v->base, .experts = experts};
        f->indices[v->base] = ++f->n;
    }
    file_weight *w = &f->weights[f->indices[v->base] - 1];
    w->experts &= experts;
    w->bytes = bytes < most - w->bytes ? w->bytes + bytes : most;
}

static void find(finder *f)
{
    const clv_plan *plan = f->plan;
    const char *data;
    for (uint32_t p = 0; p < plan->n_parts; p++) {
        const clv_node *node = &plan->graph->nodes[plan->parts[p].node];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const clv_value value = node->inputs[i];
            const uint64_t bytes =
                core_plan_file_operand(plan, p, value, &data);
            if (bytes && !f->seen[value])
                add(f, p, value, bytes);
            if (bytes)
                f->seen[value] = true;
        }
    }
    for (uint32_t i = 0; i < f->n; i++)
        *(f->weights[i].experts ? &f->some : &f->whole) += f->weights[i].bytes;
}

/* The largest of those that are read whole, but for one; NULL: none. */
static const file_weight *largest(const finder *f, const file_weight *but)
{
    const file_weight *most = NULL;
    for (uint32_t i = 0; i < f->n; i++) {
        const file_weight *w = &f->weights[i];
        if (!w->experts && w != but && (!most || w->bytes > most->bytes))
            most = w;
    }
    return most;
}

/* Beside what is kept there is room for what is asked for and for what is in
 * use, one weight. So one that is much larger than all others, as the matrix of
 * the outputs may be, is kept if that leaves room for the next one. */
static const file_weight *find_kept(const finder *f, const core_plan_file *file,
                                    double *room)
{
    const file_weight *first = largest(f, NULL);
    const file_weight *next = largest(f, first);
    const double all = (double)file->room - (double)file->ahead;
    if (next && first->bytes / 2 >= next->bytes &&
        (double)(first->bytes + next->bytes) <= all) {
        *room = all - (double)(first->bytes + next->bytes);
        return first;
    }
    *room = fmax(0, all - (double)first->bytes);
    return NULL;
}

/* Those that are read lie evenly among those that are kept, so that the file is
 * read all the time. */
static void choose(const finder *f, core_plan_file *file)
{
    double room, kept = 0, so_far = 0;
    const file_weight *first = find_kept(f, file, &room);
    const double all = (double)(f->whole - (first ? first->bytes : 0));
    for (uint32_t i = 0; i < f->n; i++) {
        const file_weight *w = &f->weights[i];
        if (w->experts || w == first)
            continue;
        so_far += (double)w->bytes;
        if (kept + (double)w->bytes <= room * so_far / all)
            kept += (double)w->bytes;
        else
            file->read[w->base] = true;
    }
}

/* Two weights, so that one is asked for while another one comes, where that
 * takes little of the room. */
static uint64_t ahead(const finder *f, uint64_t room)
{
    const uint64_t part = room / AHEAD_PART;
    const uint64_t two = f->whole ? 2 * largest(f, NULL)->bytes : 0;
    const uint64_t bytes =
        two > part && two <= room / AHEAD_PART_MOST ? two : part;
    return bytes < AHEAD_MOST ? bytes : AHEAD_MOST;
}

static clv_status divide(const finder *f, core_plan_file *file)
{
    file->used = f->whole + f->some;
    if (file->used <= file->room)
        return CLV_OK;
    file->read = calloc(f->plan->graph->n_tensors, sizeof *file->read);
    if (!file->read)
        return core_no_memory("for a plan");
    file->ahead = ahead(f, file->room);
    const uint64_t left = file->room > f->whole ? file->room - f->whole : 0;
    file->missed = f->some ? 1 - (double)left / (double)f->some : 0;
    if (f->whole > file->room)
        choose(f, file);
    return CLV_OK;
}

clv_status planner_file_weights(clv_plan *plan, uint64_t room)
{
    const uint32_t n = plan->graph->n_tensors;
    finder f = {.plan = plan,
                .weights = calloc(n + 1u, sizeof *f.weights),
                .indices = calloc(n + 1u, sizeof *f.indices),
                .seen = calloc(n + 1u, sizeof *f.seen)};
    clv_status status = f.weights && f.indices && f.seen
                            ? CLV_OK
                            : core_no_memory("for a plan");
    plan->file.room = room;
    if (!status) {
        find(&f);
        status = divide(&f, &plan->file);
    }
    free(f.weights);
    free(f.indices);
    free(f.seen);
    return status;
}

uint64_t planner_file_step(const clv_plan *plan)
{
    return plan->file.ahead / AHEAD_STEPS;
}
