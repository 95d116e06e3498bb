/* The largest of each row: TOP_K by value, NONZERO by magnitude. */
#include "grid.h"

#include <math.h>

typedef struct task {
    cpu_grid grid;
    cpu_rows x, y;
    bool nonzero;
} task;

static float value_of(const task *t, float x)
{
    if (t->nonzero)
        return isnan(x) ? INFINITY : fabsf(x);
    return isnan(x) ? -INFINITY : x;
}

/* Ids of the y.c largest so far, sorted; a new one goes behind its equals. */
static void choose(const task *t, const float *x, int32_t *ids)
{
    const int64_t k = t->y.c;
    int64_t held = 0;
    for (int64_t id = 0; id < t->x.c; id++) {
        if (t->nonzero && x[id] == 0)
            continue;
        const float value = value_of(t, x[id]);
        int64_t at = held;
        if (held == k && !(value > value_of(t, x[ids[k - 1]])))
            continue;
        if (held < k)
            held++;
        else
            at--;
        for (; at > 0 && value > value_of(t, x[ids[at - 1]]); at--)
            ids[at] = ids[at - 1];
        ids[at] = (int32_t)id;
    }
    for (; held < k; held++)
        ids[held] = -1;
}

static void chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    cpu_range rows = cpu_grid_rows(&t->grid, index);
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++)
        choose(t, cpu_row_f32(&t->x, i),
               (int32_t *)(void *)(t->y.data + i * t->y.stride));
}

static void run(const cpu_run *run, const cpu_step *step, bool nonzero)
{
    task t = {.x = cpu_run_rows(run, step->in[0]),
              .y = cpu_run_rows(run, step->out[0]),
              .nonzero = nonzero};
    t.grid = cpu_grid_make(t.x.n, t.x.c);
    if (t.grid.across > 1) { /* rows are not divided */
        t.grid.column_step = t.x.c;
        t.grid.across = 1;
        t.grid.chunks = (uint32_t)cpu_ceil_div(t.x.n, t.grid.row_step);
    }
    cpu_pool_run(run->pool, t.grid.chunks, chunk, &t);
}

static void run_top_k(const cpu_run *r, const cpu_step *step)
{
    run(r, step, false);
}

static void run_nonzero(const cpu_run *r, const cpu_step *step)
{
    run(r, step, true);
}

static bool check_top_k(cpu_check *c)
{
    const cpu_tensor *x = &c->n.in[0];
    if (x->dims[1] > INT32_MAX)
        return clv_node_no(&c->n, "%lld columns; it takes 2^31 - 1 at most",
                           (long long)x->dims[1]);
    c->caps.error_class = CLV_ERROR_EXACT;
    return true;
}

const cpu_op cpu_op_top_k = {check_top_k, run_top_k, NULL, NULL};
const cpu_op cpu_op_nonzero = {check_top_k, run_nonzero, NULL, NULL};
