/* Attention and the rotation of its inputs. */
#include "grid.h"

#include <math.h>
#include <string.h>

#define QUERIES 32 /* in a chunk */

typedef struct attention {
    const cpu_run *run;
    cpu_attention_fn fn;
    cpu_attention_args args;
    int64_t n, heads_step;
    uint32_t across;
} attention;

/* Late queries see most: they come first, the short ones fill the end. */
static void attention_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const attention *t = ctx;
    cpu_attention_args a = t->args;
    uint32_t blocks = (uint32_t)cpu_ceil_div(t->n, QUERIES);
    cpu_range heads = cpu_part(a.heads, t->heads_step, index % t->across);
    cpu_range queries = cpu_part(t->n, QUERIES, blocks - 1 - index / t->across);
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
    int64_t size = dtype == CLV_DTYPE_F32 ? 4 : 2;
    int64_t head_dim = step->attr.attention.head_dim;
    attention t = {.run = run,
                   .fn = run->kernels->attention[dtype],
                   .args = {.q = (const float *)(const void *)q.data,
                            .k = k.data,
                            .v = run->data[step->in[2]],
                            .pos = run->data[step->in[3]],
                            .y = (float *)(void *)y.data,
                            .rows = rows_in_use(run, step, k.n),
                            .heads = q.c / head_dim,
                            .kv_heads = k.c / head_dim,
                            .head_dim = head_dim,
                            .q_stride = q.stride / (int64_t)sizeof(float),
                            .kv_stride = k.stride / size,
                            .y_stride = y.stride / (int64_t)sizeof(float),
                            .scale = step->attr.attention.scale,
                            .softcap = step->attr.attention.softcap,
                            .window = step->attr.attention.window},
                   .n = q.n};
    if (!q.n)
        return;
    /* Heads of a group read the same cache rows: together, unless threads
     * would be left over. */
    int64_t group = t.args.heads / t.args.kv_heads;
    bool enough = cpu_ceil_div(q.n, QUERIES) * t.args.kv_heads >=
                  cpu_pool_threads(run->pool);
    t.heads_step = enough ? group : 1;
    t.across = (uint32_t)cpu_ceil_div(t.args.heads, t.heads_step);
    cpu_pool_run(run->pool, t.across * (uint32_t)cpu_ceil_div(q.n, QUERIES),
                 attention_chunk, &t);
}

static bool check_heads(cpu_check *c, uint32_t head_dim)
{
    const cpu_tensor *q = &c->in[0], *k = &c->in[1];
    if (head_dim < 1 || head_dim > CPU_MAX_HEAD_DIM)
        return cpu_no(c, "head_dim %u is not in 1..%d", head_dim,
                      CPU_MAX_HEAD_DIM);
    if (q->symbols[1] || k->symbols[1] || !q->dims[1] || !k->dims[1] ||
        q->dims[1] % head_dim || k->dims[1] % head_dim ||
        q->dims[1] % k->dims[1])
        return cpu_no(c, "q and k are not whole heads and groups of %u",
                      head_dim);
    return true;
}

static bool check_attention(cpu_check *c)
{
    const uint32_t f32 = CPU_BIT(CLV_DTYPE_F32);
    const uint32_t cache = f32 | CPU_BIT(CLV_DTYPE_F16);
    const cpu_tensor *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    if (!cpu_need(c, q, "q", f32, 2) || !cpu_need(c, k, "k", cache, 2) ||
        !cpu_need(c, v, "v", cache, 2) ||
        !cpu_need(c, &c->in[3], "pos", CPU_BIT(CLV_DTYPE_I32), 1) ||
        !cpu_need(c, &c->out[0], "output 0", f32, 2))
        return false;
    if (k->dtype != v->dtype || !cpu_tensor_same_dims(k, v) ||
        k->strides[0] != v->strides[0])
        return cpu_no(c, "k and v differ in dtype, dimensions or strides");
    if (!cpu_tensor_same_dims(q, &c->out[0]) ||
        !cpu_tensor_same_dim(q, 0, &c->in[3], 0))
        return cpu_no(c, "output 0 is not as q, or pos has not one entry a "
                         "query");
    if (!check_heads(c, c->node.attr.attention.head_dim))
        return false;
    if (c->node.attr.attention.window < 0)
        return cpu_no(c, "window %d is negative",
                      (int)c->node.attr.attention.window);
    if (c->node.attr.attention.rows_symbol > c->n_symbols)
        return cpu_no(c, "rows_symbol names no symbol");
    c->caps.split_axes = CLV_SPLIT_SEQUENCE | CLV_SPLIT_HEADS;
    c->caps.split_granularity[3] = q->dims[1] / k->dims[1];
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

static bool check_rope(cpu_check *c)
{
    const uint32_t f32 = CPU_BIT(CLV_DTYPE_F32);
    const cpu_tensor *x = &c->in[0], *freq = &c->in[2];
    int64_t head_dim = c->node.attr.rope.head_dim;
    if (!cpu_need(c, x, "x", f32, 2) ||
        !cpu_need(c, &c->in[1], "pos", CPU_BIT(CLV_DTYPE_I32), 1) ||
        !cpu_need(c, freq, "inv_freq", f32, 1) ||
        !cpu_need(c, &c->out[0], "output 0", f32, 2))
        return false;
    if (!cpu_tensor_same_dims(x, &c->out[0]) ||
        !cpu_tensor_same_dim(x, 0, &c->in[1], 0))
        return cpu_no(c, "output 0 is not as x, or pos has not one entry a "
                         "row");
    if (!head_dim || x->symbols[1] || x->dims[1] % head_dim)
        return cpu_no(c, "x is not whole heads of %u",
                      c->node.attr.rope.head_dim);
    if (freq->symbols[0] || freq->dims[0] < 1 || freq->dims[0] > head_dim / 2)
        return cpu_no(c, "inv_freq must have 1 to head_dim / 2 entries");
    if (c->node.attr.rope.mode > CLV_ROPE_PAIRS)
        return cpu_no(c, "mode %u is not known", c->node.attr.rope.mode);
    c->caps.alias_inputs = 1;
    c->caps.split_axes = CLV_SPLIT_SEQUENCE | CLV_SPLIT_HEADS;
    return true;
}

const cpu_op cpu_op_attention = {"attention",   4,    4,   1, check_attention,
                                 run_attention, NULL, NULL};
const cpu_op cpu_op_rope = {"rope",     3,        3,          1,
                            check_rope, run_rope, rope_share, rope_share_size};
