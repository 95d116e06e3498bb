#include "order.h"
#include "../base/error.h"
#include "../base/grow.h"

#include <stdlib.h>
#include <string.h>

clv_status core_order_begin(clv_exec *exec)
{
    return core_plan_accesses(exec->plan, &exec->accesses, &exec->n_accesses);
}

/* ------------------------------------------------------------------------ */
/* Between runs                                                              */

/* The accesses of one state: list[begin .. end). */
typedef struct span {
    uint32_t begin, end;
} span;

static bool next_state(const clv_exec *exec, span *s)
{
    const core_access *list = exec->accesses;
    s->begin = s->end;
    while (s->end < exec->n_accesses &&
           list[s->end].state == list[s->begin].state)
        s->end++;
    return s->begin < s->end;
}

static const clv_tensor *tensor_of(const clv_exec *exec, const span *s)
{
    return exec->states[exec->accesses[s->begin].state];
}

static bool find_state(const clv_exec *exec, const clv_tensor *tensor, span *s)
{
    *s = (span){0};
    while (next_state(exec, s))
        if (tensor_of(exec, s) == tensor)
            return true;
    return false;
}

bool core_order_related(const clv_exec *a, const clv_exec *b)
{
    span s = {0}, other;
    while (next_state(a, &s))
        if (a == b || find_state(b, tensor_of(a, &s), &other))
            return true;
    return false;
}

/* Leaves the rows that the indices name. */
static void narrow_to_ids(const clv_run *run, const core_access *a,
                          core_bounds *box)
{
    const clv_tensor_desc *desc = &run->exec->plan->graph->tensors[a->ids];
    const int32_t *ids = run->tensors[a->ids]->memory->data;
    const uint32_t symbol = desc->symbols[0];
    int64_t end = a->end_id, low = INT64_MAX, high = -1;
    if (symbol && end > run->symbols[symbol - 1])
        end = run->symbols[symbol - 1];
    for (int64_t i = a->first_id; i < end; i++) {
        low = ids[i] < low ? ids[i] : low;
        high = ids[i] > high ? ids[i] : high;
    }
    const int64_t origin = box->begin[0];
    if (origin + high + 1 < box->end[0])
        box->end[0] = origin + high + 1;
    if (low > 0)
        box->begin[0] = low < box->end[0] - origin ? origin + low : box->end[0];
}

/* What of the state this run touches. */
static core_bounds touched(const clv_run *run, const core_access *a)
{
    core_bounds box = a->box;
    if (a->ids != CLV_NO_TENSOR)
        narrow_to_ids(run, a, &box);
    if (a->rows_symbol && box.end[0] > run->symbols[a->rows_symbol - 1])
        box.end[0] = run->symbols[a->rows_symbol - 1];
    return box;
}

static bool meet(const core_bounds *a, const core_bounds *b, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (a->begin[i] >= b->end[i] || b->begin[i] >= a->end[i])
            return false;
    return true;
}

static clv_status add_need(clv_run *run, uint32_t step, clv_run *on,
                           uint32_t on_step)
{
    const core_step *other = &on->exec->plan->steps[on_step];
    if (!core_grow(&run->needs, &run->needs_capacity, run->n_needs + 1ull,
                   sizeof *run->needs))
        return core_no_memory("for a run");
    run->needs[run->n_needs++] =
        (core_need){.step = step,
                    .on = on,
                    .device = other->device,
                    .value = on->queues[other->device].base + other->signal};
    return CLV_OK;
}

/* One state: a of the run, b of the older one. */
static clv_status compare(clv_run *run, const span *a, clv_run *older,
                          const span *b)
{
    const core_access *mine = run->exec->accesses;
    const core_access *others = older->exec->accesses;
    const uint32_t rank =
        run->exec->plan->graph->tensors[mine[a->begin].state].rank;
    for (uint32_t j = b->begin; j < b->end; j++) {
        const core_bounds theirs = touched(older, &others[j]);
        for (uint32_t i = a->begin; i < a->end; i++) {
            if (!mine[i].write && !others[j].write)
                continue;
            const core_bounds box = touched(run, &mine[i]);
            if (meet(&box, &theirs, rank))
                CLV_TRY(add_need(run, mine[i].step, older, others[j].step));
        }
    }
    return CLV_OK;
}

static int by_step(const void *a, const void *b)
{
    const core_need *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->value < y->value) - (x->value > y->value);
}

bool core_need_is_queued(const clv_run *run, const core_need *need)
{
    const clv_plan *plan = run->exec->plan;
    const uint32_t device = plan->steps[need->step].device;
    return need->on->queues[need->device].line == run->queues[device].line &&
           !plan->devices[device].staged;
}

/* Whether an earlier step of the run has what this one needs: it waited until
 * that was done, or this one only needs it to be submitted. */
static bool covers(const clv_run *run, const core_need *earlier,
                   const core_need *need)
{
    return earlier->device == need->device && earlier->value >= need->value &&
           (!core_need_is_queued(run, earlier) ||
            core_need_is_queued(run, need));
}

/* Leaves out, of those from `first` on, what an earlier step has. */
static void prune(clv_run *run, uint32_t first)
{
    uint32_t n = first;
    if (run->n_needs == first)
        return;
    qsort(run->needs + first, run->n_needs - first, sizeof *run->needs,
          by_step);
    for (uint32_t i = first; i < run->n_needs; i++) {
        const core_need *need = &run->needs[i];
        uint32_t k = first;
        while (k < n && !covers(run, &run->needs[k], need))
            k++;
        if (k == n)
            run->needs[n++] = *need;
    }
    run->n_needs = n;
}

clv_status core_order_after(clv_run *run, clv_run *older)
{
    const uint32_t first = run->n_needs;
    span a = {0}, b = {0};
    while (next_state(run->exec, &a)) {
        if (run->exec == older->exec)
            b = a;
        else if (!find_state(older->exec, tensor_of(run->exec, &a), &b))
            continue;
        CLV_TRY(compare(run, &a, older, &b));
    }
    prune(run, first);
    return CLV_OK;
}

void core_order_finish(clv_run *run)
{
    if (run->n_needs)
        qsort(run->needs, run->n_needs, sizeof *run->needs, by_step);
    run->need = 0;
}
