/* Attention and the rotation of its inputs. */
#include "grid.h"

#include <math.h>
#include <string.h>

#define QUERIES 32 /* in a chunk */

typedef struct attention {
    const cpu_run *run;
    cpu_attention_fn fn;
    cpu_attention_args args;
    int64_t n, step, heads_step; /* queries and heads of a chunk */
    uint32_t across;
} attention;

/* Late queries see most: they come first, the short ones fill the end. */
static void attention_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const attention *t = ctx;
    cpu_attention_args a = t->args;
    uint32_t blocks = (uint32_t)cpu_ceil_div(t->n, t->step);
    cpu_range heads = cpu_part(a.heads, t->heads_step, index % t->across);
    cpu_range queries = cpu_part(t->n, t->step, blocks - 1 - index / t->across);
    a.q_begin = queries.begin;
    a.q_end = queries.end;
    a.h_begin = heads.begin;
    a.h_end = heads.end;
    a.scratch = cpu_pool_scratch(t->run->pool, worker);
    t->fn(&a);
}

static int64_t rows_in_use(const cpu_run *run, const cpu_step *step,
                           int64_t rows)
{
    uint32_t symbol = step->attr.attention.rows_symbol;
    if (symbol && run->symbols[symbol - 1] < rows)
        return run->symbols[symbol - 1];
    return rows;
}

static void run_attention(const cpu_run *run, const cpu_step *step)
{
    cpu_rows q = cpu_run_rows(run, step->in[0]);
    cpu_rows k = cpu_run_rows(run, step->in[1]);
    cpu_rows y = cpu_run_rows(run, step->out[0]);
    uint32_t dtype = run->tensors[step->in[1]].dtype;
    int64_t head_dim = step->attr.attention.head_dim;
    attention t = {.run = run,
                   .fn = run->kernels->attention[dtype],
                   .args = {.q = (const float *)(const void *)q.data,
                            .k = k.data,
                            .v = run->data[step->in[2]],
                            .pos = run->data[step->in[3]],
                            .first = step->in[4] == CLV_NO_TENSOR
                                         ? NULL
                                         : run->data[step->in[4]],
                            .y = (float *)(void *)y.data,
                            .rows = rows_in_use(run, step, k.n),
                            .heads = q.c / head_dim,
                            .kv_heads = k.c / head_dim,
                            .head_dim = head_dim,
                            .q_stride = q.stride / (int64_t)sizeof(float),
                            .kv_stride = k.stride,
                            .y_stride = y.stride / (int64_t)sizeof(float),
                            .scale = step->attr.attention.scale,
                            .softcap = step->attr.attention.softcap,
                            .window = step->attr.attention.window},
                   .n = q.n,
                   .step = QUERIES};
    if (!q.n)
        return;
    /* Heads of a group read the same cache rows: together, unless threads
     * would be left over. */
    int64_t group = t.args.heads / t.args.kv_heads;
    if (step->attr.attention.apart)
        t.step = 1;
    bool enough = cpu_ceil_div(q.n, t.step) * t.args.kv_heads >=
                  cpu_pool_threads(run->pool);
    t.heads_step = enough ? group : 1;
    t.across = (uint32_t)cpu_ceil_div(t.args.heads, t.heads_step);
    cpu_pool_run(run->pool, t.across * (uint32_t)cpu_ceil_div(q.n, t.step),
                 attention_chunk, &t);
}

static bool check_attention(cpu_check *c)
{
    const cpu_tensor *k = &c->n.in[1], *v = &c->n.in[2];
    if (c->n.node.attr.attention.head_dim > CPU_MAX_HEAD_DIM)
        return clv_node_no(&c->n, "head_dim %u is not in 1..%d",
                           c->n.node.attr.attention.head_dim, CPU_MAX_HEAD_DIM);
    if (k->strides[0] != v->strides[0])
        return clv_node_no(&c->n, "k and v differ in strides");
    return true;
}

typedef struct rope {
    const cpu_run *run;
    cpu_rows x, y;
    const int32_t *pos;
    const float *inv_freq;
    float *table; /* [n, n_rot / 2] pairs */
    float scale;
    int64_t head_dim, n_rot, step;
    uint32_t mode;
} rope;

static void table_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const rope *t = ctx;
    cpu_range rows = cpu_part(t->x.n, t->step, index);
    float *out = t->table + rows.begin * t->n_rot;
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = 0; j < t->n_rot / 2; j++) {
            float angle = (float)t->pos[i] * t->inv_freq[j];
            *out++ = t->scale * sinf(angle);
            *out++ = t->scale * cosf(angle);
        }
}

static void rope_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const rope *t = ctx;
    cpu_range rows = cpu_part(t->x.n, t->step, index);
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++)
        t->run->kernels->rope(cpu_row_f32(&t->x, i), t->table + i * t->n_rot,
                              cpu_row_f32(&t->y, i), t->x.c / t->head_dim,
                              t->head_dim, t->n_rot, t->mode);
}

static void run_rope(const cpu_run *run, const cpu_step *step)
{
    rope t = {.run = run,
              .x = cpu_run_rows(run, step->in[0]),
              .y = cpu_run_rows(run, step->out[0]),
              .pos = run->data[step->in[1]],
              .inv_freq = run->data[step->in[2]],
              .table = run->regions[CPU_REGION_ROPE],
              .scale = step->attr.rope.scale ? step->attr.rope.scale : 1,
              .head_dim = step->attr.rope.head_dim,
              .n_rot = 2 * run->tensors[step->in[2]].dims[0],
              .mode = step->attr.rope.mode};
    if (!t.x.n)
        return;
    if (!step->reuse) {
        t.step = cpu_grid_make(t.x.n, 8 * t.n_rot).row_step; /* slow ones */
        cpu_pool_run(run->pool, (uint32_t)cpu_ceil_div(t.x.n, t.step),
                     table_chunk, &t);
    }
    t.step = cpu_grid_make(t.x.n, t.x.c).row_step;
    cpu_pool_run(run->pool, (uint32_t)cpu_ceil_div(t.x.n, t.step), rope_chunk,
                 &t);
}

static void rope_share(const cpu_kernels *kernels, const cpu_tensor *tensors,
                       const cpu_step *step, cpu_share *out)
{
    uint32_t scale;
    (void)kernels;
    (void)tensors;
    memcpy(&scale, &step->attr.rope.scale, sizeof scale);
    out->region = CPU_REGION_ROPE;
    out->tensors[0] = step->in[1];
    out->tensors[1] = step->in[2];
    out->variant = scale;
}

static uint64_t rope_share_size(const cpu_run *run, const cpu_step *step)
{
    return (uint64_t)cpu_run_rows(run, step->in[1]).c * 2 *
           (uint64_t)run->tensors[step->in[2]].dims[0] * sizeof(float);
}

const cpu_op cpu_op_attention = {check_attention, run_attention, NULL, NULL};
const cpu_op cpu_op_rope = {NULL, run_rope, rope_share, rope_share_size};
