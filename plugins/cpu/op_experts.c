/*
 * Products with the weights of experts that ids choose. Rows of x are sorted by
 * expert first, in a region that products of the same x and ids share; then
 * each thread computes some output columns of one expert after the other, so
 * that it alone adds up what they have in common. Experts of one input channel
 * are rows of weights, which are added up as they are.
 */
#include "grid.h"
#include "parts.h"
#include "prepared.h"

#include <string.h>

#define COLUMNS_STEP 16
#define COLUMNS_MAX 128
#define COLUMNS_MOST (4 * COLUMNS_MAX) /* of a chunk with one row */
#define ROWS_MAX 64                    /* of a product */
#define GRAIN 16384 /* products that are worth a thread's while */

typedef struct task {
    const cpu_run *run;
    uint32_t dtype; /* of w */
    const cpu_product *product;
    cpu_rows x, w, ids, scores, y;
    bool each; /* x has a part for each of a row's ids */
    bool scored;
    bool normalised;
    int64_t first, total;           /* expert that w begins with, and of all */
    int64_t experts, in, out, used; /* E, I, O, K */
    int64_t row_size;               /* bytes of a sorted row */
    int32_t *begin; /* [experts + 2] where the rows of each of w's begin; past
                       them those of others, and of ids that are none's */
    int32_t *order; /* [n * used] places i * used + k, by expert */
    char *sorted;   /* [n * used] rows of x */
    cpu_prepare_grid grid; /* of the sorted rows */
    cpu_parts columns;
} task;

/* Whether each expert is a row of weights. */
static bool are_rows(const cpu_tensor *w, const cpu_step *step)
{
    return w->dims[2] == 1 && step->in[3] != CLV_NO_TENSOR;
}

/* ------------------------------------------------------------------------ */
/* The region                                                                */

/* Bytes before the sorted rows. */
static uint64_t head_size(int64_t experts, int64_t places)
{
    return cpu_round_up((uint64_t)(experts + 2 + places) * sizeof(int32_t));
}

static void share(const cpu_kernels *kernels, const cpu_tensor *tensors,
                  const cpu_step *step, cpu_share *out)
{
    const cpu_tensor *w = &tensors[step->in[1]];
    if (are_rows(w, step))
        return;
    out->region = CPU_REGION_EXPERTS;
    out->tensors[0] = step->in[0];
    out->tensors[1] = step->in[2];
    out->variant = cpu_format_form(&kernels->formats[w->dtype]);
    out->shape = (uint64_t)w->dims[0] << 32 | (uint64_t)w->dims[2];
    out->first = (uint64_t)step->attr.experts.first;
}

static uint64_t share_size(const cpu_run *run, const cpu_step *step)
{
    const cpu_tensor *w = &run->tensors[step->in[1]];
    cpu_shape ids;
    cpu_run_shape(run, step->in[2], &ids);
    const int64_t places = ids.dims[0] * ids.dims[1];
    return head_size(w->dims[0], places) +
           cpu_format_rows_size(&run->kernels->formats[w->dtype], places,
                                w->dims[2]);
}

/* ------------------------------------------------------------------------ */
/* Sorting                                                                   */

static int64_t id_at(const task *t, int64_t place)
{
    const char *row = t->ids.data + place / t->used * t->ids.stride;
    return ((const int32_t *)(const void *)row)[place % t->used];
}

/* The expert of a place in w, t->experts for one that w does not have. */
static int64_t expert_at(const task *t, int64_t place)
{
    const int64_t at = id_at(t, place) - t->first;
    return at >= 0 && at < t->experts ? at : t->experts;
}

static void sort(const task *t)
{
    const int64_t places = t->ids.n * t->used;
    int32_t *begin = t->begin;
    memset(begin, 0, (size_t)(t->experts + 2) * sizeof *begin);
    for (int64_t p = 0; p < places; p++)
        begin[expert_at(t, p) + 1]++;
    for (int64_t e = 0; e <= t->experts; e++)
        begin[e + 1] += begin[e];
    for (int64_t p = 0; p < places; p++)
        t->order[begin[expert_at(t, p)]++] = (int32_t)p;
    for (int64_t e = t->experts; e >= 0; e--) /* back to where they began */
        begin[e + 1] = begin[e];
    begin[0] = 0;
}

static void copy_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    const cpu_prepare *prepare = &t->product->prepare;
    const cpu_prepare_part part = cpu_prepare_part_at(&t->grid, index);
    const int64_t n = part.rows.end - part.rows.begin;
    const float *x[CPU_PREPARE_ROWS];
    char *to = t->sorted + part.rows.begin * t->row_size;
    (void)worker;
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = t->order[part.rows.begin + i];
        x[i] = cpu_row_f32(&t->x, place / t->used) +
               (t->each ? place % t->used * t->in : 0);
    }
    if (prepare->rows)
        prepare->rows(&(cpu_prepare_args){.x = x,
                                          .n = n,
                                          .k = t->in,
                                          .begin = part.elements.begin,
                                          .end = part.elements.end,
                                          .out = to});
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * t->row_size, x[i], (size_t)t->in * sizeof *x[i]);
}

/* ------------------------------------------------------------------------ */
/* Products                                                                  */

/* What the product of a place is multiplied by. All that a row chose count in
 * its sum, whether or not w has them. */
static float factor_of(const task *t, int64_t place)
{
    const int64_t row = place / t->used;
    const float *scores = cpu_row_f32(&t->scores, row);
    const float own = scores[id_at(t, place)];
    float sum = 0;
    if (!t->normalised)
        return own;
    for (int64_t k = 0; k < t->used; k++) {
        const int64_t id = id_at(t, row * t->used + k);
        sum += id >= 0 && id < t->total ? scores[id] : 0;
    }
    return own / sum;
}

/* Where the columns of a place's product go. */
static float *target(const task *t, int64_t place, int64_t column)
{
    return cpu_row_f32(&t->y, place / t->used) + column +
           (t->scored ? 0 : place % t->used * t->out);
}

static void put_tile(const task *t, const float *tile, const int32_t *places,
                     int64_t n, cpu_range columns)
{
    const int64_t width = columns.end - columns.begin;
    for (int64_t i = 0; i < n; i++, tile += COLUMNS_MAX) {
        float *y = target(t, places[i], columns.begin);
        if (!t->scored) {
            memcpy(y, tile, (size_t)width * sizeof *y);
            continue;
        }
        const float factor = factor_of(t, places[i]);
        for (int64_t j = 0; j < width; j++)
            y[j] += factor * tile[j];
    }
}

/* Rows at..end of the sorted ones, all of one expert, and COLUMNS_MAX columns
 * at most. */
static void multiply_block(const task *t, int64_t expert, int64_t at,
                           int64_t end, cpu_range columns, void *scratch)
{
    float tile[ROWS_MAX * COLUMNS_MAX];
    cpu_matmul_args a = {.dtype = t->dtype,
                         .w = t->w.data +
                              (expert * t->out + columns.begin) * t->w.stride,
                         .y = tile,
                         .k = t->in,
                         .o_end = columns.end - columns.begin,
                         .x_stride = t->row_size / (int64_t)sizeof(float),
                         .y_stride = COLUMNS_MAX,
                         .w_stride = t->w.stride,
                         .group = t->in,
                         .scratch = scratch};
    for (; at < end; at += a.n) {
        a.n = end - at < ROWS_MAX ? end - at : ROWS_MAX;
        a.xp = t->sorted + at * t->row_size;
        a.xp_row = at;
        a.x = a.xp;
        t->product->matmul(&a);
        put_tile(t, tile, t->order + at, a.n, columns);
    }
}

static void multiply(const task *t, int64_t expert, cpu_range columns,
                     void *scratch)
{
    const int64_t begin = t->begin[expert], end = t->begin[expert + 1];
    const int64_t width = columns.end - columns.begin;
    for (uint32_t i = 0; begin < end && i * COLUMNS_MAX < width; i++) {
        cpu_range block = cpu_part(width, COLUMNS_MAX, i);
        block.begin += columns.begin;
        block.end += columns.begin;
        multiply_block(t, expert, begin, end, block, scratch);
    }
}

/* Sums begin with nothing, and products with experts of others stay so. */
static void clear(const task *t, cpu_range columns)
{
    const size_t size = (size_t)(columns.end - columns.begin) * sizeof(float);
    for (int64_t i = 0; t->scored && i < t->y.n; i++)
        memset(cpu_row_f32(&t->y, i) + columns.begin, 0, size);
    for (int64_t at = t->begin[t->experts];
         !t->scored && at < t->begin[t->experts + 1]; at++)
        memset(target(t, t->order[at], columns.begin), 0, size);
}

static void chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    const cpu_range columns = cpu_parts_at(&t->columns, index);
    void *scratch = cpu_pool_scratch(t->run->pool, worker);
    clear(t, columns);
    for (int64_t e = 0; e < t->experts; e++)
        multiply(t, e, columns, scratch);
}

/* Adds factor times columns of an expert's row to y. */
static void add_row(const task *t, int64_t expert, float factor,
                    cpu_range columns, float *y)
{
    const cpu_format *f = &t->run->kernels->formats[t->dtype];
    const int64_t width = columns.end - columns.begin;
    const char *w = t->w.data + (expert * t->out + columns.begin) * t->w.stride;
    float row[COLUMNS_MOST];
    if (t->w.stride == (int64_t)clv_format_of(t->dtype)->bytes)
        f->to_f32(w, row, width);
    else
        for (int64_t j = 0; j < width; j++)
            f->to_f32(w + j * t->w.stride, row + j, 1);
    for (int64_t j = 0; j < width; j++)
        y[j] += factor * row[j];
}

/* Some columns of all rows of y, each the sum of its experts' rows. */
static void row_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    const cpu_range columns = cpu_parts_at(&t->columns, index);
    (void)worker;
    for (int64_t i = 0; i < t->y.n; i++) {
        const float *x = cpu_row_f32(&t->x, i);
        float *y = cpu_row_f32(&t->y, i) + columns.begin;
        memset(y, 0, (size_t)(columns.end - columns.begin) * sizeof *y);
        for (int64_t k = 0; k < t->used; k++) {
            const int64_t place = i * t->used + k, e = expert_at(t, place);
            if (e < t->experts)
                add_row(t, e, factor_of(t, place) * x[t->each ? k : 0], columns,
                        y);
        }
    }
}

static cpu_parts columns_of(const task *t)
{
    const int64_t places = t->ids.n * t->used;
    const int64_t step = cpu_ceil_div(GRAIN, places * t->in);
    /* Several rows go by blocks of columns that are packed. */
    const int64_t least = t->ids.n > 1 ? 2 * COLUMNS_STEP : COLUMNS_STEP;
    const int64_t rounded = cpu_ceil_div(step, least) * least;
    const int64_t most = t->ids.n > 1 ? COLUMNS_MAX : COLUMNS_MOST;
    return (cpu_parts){.n = t->out,
                       .step = rounded < most ? rounded : most,
                       .most = most,
                       .threads = cpu_pool_threads(t->run->pool)};
}

static void place_region(task *t, void *region)
{
    const int64_t places = t->ids.n * t->used;
    t->begin = region;
    t->order = t->begin + t->experts + 2;
    t->sorted = (char *)region + head_size(t->experts, places);
}

static void run_experts(const cpu_run *run, const cpu_step *step)
{
    const cpu_tensor *w = &run->tensors[step->in[1]];
    task t = {.run = run,
              .dtype = w->dtype,
              .x = cpu_run_rows(run, step->in[0]),
              .w = cpu_run_rows(run, step->in[1]),
              .ids = cpu_run_rows(run, step->in[2]),
              .y = cpu_run_rows(run, step->out[0]),
              .scored = step->in[3] != CLV_NO_TENSOR,
              .normalised = step->attr.experts.normalised,
              .first = step->attr.experts.first,
              .total = clv_experts_total(&step->attr, w->dims[0]),
              .experts = w->dims[0],
              .in = w->dims[2],
              .out = w->dims[1]};
    t.used = t.ids.c;
    t.each = t.x.c != t.in;
    if (t.scored)
        t.scores = cpu_run_rows(run, step->in[3]);
    if (!t.x.n)
        return;
    t.columns = columns_of(&t);
    const uint32_t parts = cpu_parts_count(&t.columns);
    if (are_rows(w, step)) {
        cpu_pool_run(run->pool, parts, row_chunk, &t);
        return;
    }
    place_region(&t, run->regions[CPU_REGION_EXPERTS]);
    if (!step->reuse)
        sort(&t);
    /* By the rows of an expert on average: steps that share them agree. */
    t.product = cpu_product_for(&run->kernels->formats[w->dtype],
                                t.begin[t.experts] / t.experts);
    t.row_size = (int64_t)cpu_row_size(t.product, t.in);
    if (!step->reuse) {
        t.grid =
            cpu_prepare_grid_of(&t.product->prepare, t.begin[t.experts], t.in);
        cpu_pool_run(run->pool, t.grid.across * t.grid.down, copy_chunk, &t);
    }
    cpu_pool_run(run->pool, parts, chunk, &t);
}

/* ------------------------------------------------------------------------ */
/* What is taken                                                             */

static bool check_experts(cpu_check *c)
{
    const cpu_tensor *w = &c->n.in[1], *ids = &c->n.in[2];
    int64_t places;
    if (w->dims[0] >= INT32_MAX || w->dims[2] > UINT32_MAX ||
        __builtin_mul_overflow(ids->dims[0], ids->dims[1], &places) ||
        places > INT32_MAX - w->dims[0] - 2)
        return clv_node_no(
            &c->n,
            "%lld experts of rows of %lld, %lld by %lld ids; ids and experts "
            "are 2^31 at most, and rows 2^32",
            (long long)w->dims[0], (long long)w->dims[2],
            (long long)ids->dims[0], (long long)ids->dims[1]);
    if (c->kernels->formats[w->dtype].product.prepare.rows)
        c->caps.error_class = CLV_ERROR_Q8;
    return true;
}

const cpu_op cpu_op_matmul_experts = {check_experts, run_experts, share,
                                      share_size};
