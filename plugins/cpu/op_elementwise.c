/* Ops on single elements and on single rows. */
#include "grid.h"

typedef void (*unary_fn)(const float *x, float *y, int64_t n, float arg);
typedef void (*binary_fn)(const float *a, const float *b, float *y, int64_t n);

typedef struct task {
    int64_t grain; /* elements that are worth a thread's while */
    cpu_grid grid;
    cpu_rows a, b, y;
    unary_fn unary;
    float arg; /* of unary: the op's attribute */
    binary_fn binary;
} task;

static void chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    cpu_range rows = cpu_grid_rows(&t->grid, index);
    cpu_range columns = cpu_grid_columns(&t->grid, index);
    int64_t n = columns.end - columns.begin;
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const float *a = cpu_row_f32(&t->a, i) + columns.begin;
        float *y = cpu_row_f32(&t->y, i) + columns.begin;
        if (t->unary)
            t->unary(a, y, n, t->arg);
        else
            t->binary(a, cpu_row_f32(&t->b, i) + columns.begin, y, n);
    }
}

static bool is_dense(const cpu_rows *rows)
{
    return rows->n <= 1 || rows->stride == rows->c * (int64_t)sizeof(float);
}

static void flatten(cpu_rows *rows, int64_t n)
{
    rows->c = n;
    rows->n = 1;
    rows->stride = 0;
}

static void run_task(const cpu_run *run, task *t)
{
    int64_t n = t->y.n, c = t->y.c;
    if (is_dense(&t->a) && is_dense(&t->y) &&
        (t->unary || (t->b.n == n && is_dense(&t->b)))) {
        flatten(&t->a, n * c);
        flatten(&t->b, n * c);
        flatten(&t->y, n * c);
    }
    t->grid = cpu_grid_of(t->y.n, t->y.c, t->grain);
    cpu_pool_run(run->pool, t->grid.chunks, chunk, t);
}

static void run_unary(const cpu_run *run, const cpu_step *step, int64_t grain,
                      unary_fn fn, float arg)
{
    task t = {.grain = grain,
              .a = cpu_run_rows(run, step->in[0]),
              .y = cpu_run_rows(run, step->out[0]),
              .unary = fn,
              .arg = arg};
    run_task(run, &t);
}

/* A b of one row, [C], has stride 0 and so serves every row of a. */
static void run_binary(const cpu_run *run, const cpu_step *step, int64_t grain,
                       binary_fn fn)
{
    task t = {.grain = grain,
              .a = cpu_run_rows(run, step->in[0]),
              .b = cpu_run_rows(run, step->in[1]),
              .y = cpu_run_rows(run, step->out[0]),
              .binary = fn};
    run_task(run, &t);
}

static void run_add(const cpu_run *run, const cpu_step *step)
{
    run_binary(run, step, CPU_GRAIN, run->kernels->add);
}

static void run_mul(const cpu_run *run, const cpu_step *step)
{
    run_binary(run, step, CPU_GRAIN, run->kernels->mul);
}

static void run_silu(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN_SLOW, run->kernels->silu, 0);
}

static void run_gelu(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN_SLOW, run->kernels->gelu, 0);
}

static void run_sigmoid(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN_SLOW, run->kernels->sigmoid, 0);
}

static void run_scale(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN, run->kernels->scale,
              step->attr.scale.factor);
}

static void run_softcap(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN_SLOW, run->kernels->softcap,
              step->attr.softcap.cap);
}

static void run_round(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN, run->kernels->round,
              step->attr.round.scale);
}

static void run_excess(const cpu_run *run, const cpu_step *step)
{
    run_unary(run, step, CPU_GRAIN, run->kernels->excess,
              step->attr.excess.limit);
}

static void run_glu(const cpu_run *run, const cpu_step *step)
{
    run_binary(run, step, CPU_GRAIN_SLOW,
               step->attr.glu.activation == CLV_ACT_SILU
                   ? run->kernels->glu_silu
                   : run->kernels->glu_gelu);
}

typedef struct row_task {
    const cpu_kernels *kernels;
    cpu_rows x, y;
    const float *weight, *bias;
    float arg;        /* epsilon or jitter */
    int64_t head_dim; /* of HEAD_NORM */
    int64_t step;
    enum { RMS_NORM, LAYER_NORM, HEAD_NORM, SOFTMAX, SPARSE_MIXER } kind;
} row_task;

static void run_row(const row_task *t, const float *x, float *y)
{
    const cpu_kernels *k = t->kernels;
    switch (t->kind) {
    case RMS_NORM:
        k->rms_norm(x, t->weight, y, t->x.c, t->arg);
        break;
    case LAYER_NORM:
        k->layer_norm(x, t->weight, t->bias, y, t->x.c, t->arg);
        break;
    case HEAD_NORM:
        for (int64_t i = 0; i < t->x.c; i += t->head_dim)
            k->rms_norm(x + i, t->weight, y + i, t->head_dim, t->arg);
        break;
    case SOFTMAX:
        k->softmax(x, y, t->x.c);
        break;
    case SPARSE_MIXER:
        k->sparse_mixer(x, y, t->x.c, t->arg);
    }
}

static void row_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const row_task *t = ctx;
    cpu_range rows = cpu_part(t->x.n, t->step, index);
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++)
        run_row(t, cpu_row_f32(&t->x, i), cpu_row_f32(&t->y, i));
}

static void run_rows(const cpu_run *run, const cpu_step *step, row_task *t)
{
    t->kernels = run->kernels;
    t->x = cpu_run_rows(run, step->in[0]);
    t->y = cpu_run_rows(run, step->out[0]);
    if (!t->x.n || !t->x.c)
        return;
    t->step = cpu_grid_make(t->x.n, t->x.c).row_step;
    cpu_pool_run(run->pool, (uint32_t)cpu_ceil_div(t->x.n, t->step), row_chunk,
                 t);
}

static void run_rms_norm(const cpu_run *run, const cpu_step *step)
{
    row_task t = {.weight = run->data[step->in[1]],
                  .arg = step->attr.norm.eps,
                  .kind = RMS_NORM};
    run_rows(run, step, &t);
}

static void run_head_norm(const cpu_run *run, const cpu_step *step)
{
    row_task t = {.weight = run->data[step->in[1]],
                  .arg = step->attr.norm.eps,
                  .head_dim = step->attr.norm.head_dim,
                  .kind = HEAD_NORM};
    run_rows(run, step, &t);
}

static void run_layer_norm(const cpu_run *run, const cpu_step *step)
{
    row_task t = {.weight = run->data[step->in[1]],
                  .arg = step->attr.norm.eps,
                  .kind = LAYER_NORM};
    if (step->in[2] != CLV_NO_TENSOR)
        t.bias = run->data[step->in[2]];
    run_rows(run, step, &t);
}

static void run_softmax(const cpu_run *run, const cpu_step *step)
{
    row_task t = {.kind = SOFTMAX};
    run_rows(run, step, &t);
}

static void run_sparse_mixer(const cpu_run *run, const cpu_step *step)
{
    row_task t = {.arg = step->attr.mixer.jitter, .kind = SPARSE_MIXER};
    run_rows(run, step, &t);
}

const cpu_op cpu_op_add = {.run = run_add};
const cpu_op cpu_op_mul = {.run = run_mul};
const cpu_op cpu_op_silu = {.run = run_silu};
const cpu_op cpu_op_gelu = {.run = run_gelu};
const cpu_op cpu_op_glu = {.run = run_glu};
const cpu_op cpu_op_rms_norm = {.run = run_rms_norm};
const cpu_op cpu_op_layer_norm = {.run = run_layer_norm};
const cpu_op cpu_op_softmax = {.run = run_softmax};
const cpu_op cpu_op_sigmoid = {.run = run_sigmoid};
const cpu_op cpu_op_scale = {.run = run_scale};
const cpu_op cpu_op_softcap = {.run = run_softcap};
const cpu_op cpu_op_round = {.run = run_round};
const cpu_op cpu_op_excess = {.run = run_excess};
const cpu_op cpu_op_head_norm = {.run = run_head_norm};
const cpu_op cpu_op_sparse_mixer = {.run = run_sparse_mixer};
