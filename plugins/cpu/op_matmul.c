#include "grid.h"
#include "parts.h"
#include "prepared.h"

/*
 * Output columns are cut at multiples of COLUMNS_STEP and rows at multiples of
 * ROWS_STEP whatever the number of threads, so that a kernel's blocks, and with
 * them the order of its sums, do not depend on it.
 */
#define COLUMNS_STEP 16
#define COLUMNS_MAX 128 /* of a chunk with several rows */
#define ROWS_STEP 256   /* prepared, they stay in a core's second cache */
#define GRAIN 16384     /* products that are worth a thread's while */

/* Of products whose kernel rounds x to 8 bits by block: x stays as it is. */
#define VARIANT_FLOAT 1

typedef struct task {
    const cpu_run *run;
    const cpu_product *product;
    cpu_matmul_args args;
    size_t prepared_size; /* of a row */
    char *prepared;
    cpu_prepare_grid grid;
    float scale; /* of x, 0: not known */
    cpu_parts columns;
    uint32_t across; /* parts of the columns */
} task;

/* Whether the format's own kernel takes w: not where integers have scales for
 * parts of a block. */
static bool in_blocks(const cpu_tensor *w)
{
    return !w->quant || (w->dims[1] % CPU_BLOCK == 0 &&
                         cpu_tensor_group(w) % CPU_BLOCK == 0);
}

/* A format's products of w; NULL: it is multiplied as it is. */
static const cpu_format *find_format(const cpu_kernels *kernels,
                                     const cpu_tensor *w, uint32_t variant)
{
    const cpu_format *format = &kernels->formats[w->dtype];
    return in_blocks(w) && variant != VARIANT_FLOAT ? format : NULL;
}

/* Products of x that is whole numbers are exact: not by `many`. */
static bool can_be_many(const cpu_step *step)
{
    return !(step->attr.matmul.input_scale > 0);
}

static void prepare_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    const cpu_prepare_part part = cpu_prepare_part_at(&t->grid, index);
    const float *x[CPU_PREPARE_ROWS];
    const int64_t n = part.rows.end - part.rows.begin;
    (void)worker;
    for (int64_t i = 0; i < n; i++)
        x[i] = t->args.x + (part.rows.begin + i) * t->args.x_stride;
    t->product->prepare.rows(&(cpu_prepare_args){
        .x = x,
        .n = n,
        .k = t->args.k,
        .begin = part.elements.begin,
        .end = part.elements.end,
        .scale = t->scale,
        .out = t->prepared + (size_t)part.rows.begin * t->prepared_size});
}

static void chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const task *t = ctx;
    cpu_range columns = cpu_parts_at(&t->columns, index % t->across);
    cpu_range rows = cpu_part(t->args.n, ROWS_STEP, index / t->across);
    cpu_matmul_args a = t->args;
    a.x += rows.begin * a.x_stride;
    a.y += rows.begin * a.y_stride;
    a.n = rows.end - rows.begin;
    if (t->product->prepare.rows)
        a.xp = t->prepared + (size_t)rows.begin * t->prepared_size;
    a.xp_row = rows.begin;
    a.o_begin = columns.begin;
    a.o_end = columns.end;
    a.scratch = cpu_pool_scratch(t->run->pool, worker);
    t->product->matmul(&a);
}

static cpu_parts columns_of(const task *t, int64_t columns)
{
    int64_t rows = t->args.n < ROWS_STEP ? t->args.n : ROWS_STEP;
    int64_t step = cpu_ceil_div(GRAIN, rows * t->args.k);
    /* Several rows go by blocks of columns that are packed. */
    int64_t least = rows > 1 ? 2 * COLUMNS_STEP : COLUMNS_STEP;
    step = cpu_ceil_div(step, least) * least;
    int64_t most = (rows > 1 ? 1 : 4) * COLUMNS_MAX / step * step;
    return (cpu_parts){.n = columns,
                       .step = step,
                       .most = most > step ? most : step,
                       .threads = cpu_pool_threads(t->run->pool)};
}

static void run_matmul(const cpu_run *run, const cpu_step *step)
{
    cpu_rows x = cpu_run_rows(run, step->in[0]);
    cpu_rows w = cpu_run_rows(run, step->in[1]);
    cpu_rows y = cpu_run_rows(run, step->out[0]);
    const cpu_tensor *weight = &run->tensors[step->in[1]];
    const cpu_product any = {.matmul = run->kernels->matmul_any};
    const cpu_format *format = find_format(run->kernels, weight, step->variant);
    task t = {.run = run,
              .product =
                  format ? cpu_product_for(format, can_be_many(step) ? x.n : 0)
                         : &any,
              .args = {.dtype = weight->dtype,
                       .x = (const float *)(const void *)x.data,
                       .w = w.data,
                       .y = (float *)(void *)y.data,
                       .n = x.n,
                       .k = x.c,
                       .x_stride = x.stride / (int64_t)sizeof(float),
                       .y_stride = y.stride / (int64_t)sizeof(float),
                       .w_stride = w.stride},
              .prepared = run->regions[CPU_REGION_MATMUL],
              .scale = step->attr.matmul.input_scale};
    if (step->in[2] != CLV_NO_TENSOR)
        t.args.bias = run->data[step->in[2]];
    t.args.scales = cpu_run_scales(run, step->in[1], &t.args.scale_stride);
    t.args.group = cpu_tensor_group(weight);
    if (!x.n)
        return;
    if (t.product->prepare.rows) {
        t.prepared_size = t.product->prepare.row_size(x.c);
        t.grid = cpu_prepare_grid_of(&t.product->prepare, x.n, x.c);
        if (!step->reuse)
            cpu_pool_run(run->pool, t.grid.across * t.grid.down, prepare_chunk,
                         &t);
    }
    t.columns = columns_of(&t, w.n);
    t.across = cpu_parts_count(&t.columns);
    cpu_pool_run(run->pool, t.across * (uint32_t)cpu_ceil_div(x.n, ROWS_STEP),
                 chunk, &t);
}

static void share(const cpu_kernels *kernels, const cpu_tensor *tensors,
                  const cpu_step *step, cpu_share *out)
{
    const cpu_format *format =
        find_format(kernels, &tensors[step->in[1]], step->variant);
    if (!format || !format->product.prepare.rows)
        return;
    out->region = CPU_REGION_MATMUL;
    out->tensors[0] = step->in[0];
    out->variant = cpu_format_form(format);
    out->shape = clv_float_bits(step->attr.matmul.input_scale);
}

static uint64_t share_size(const cpu_run *run, const cpu_step *step)
{
    cpu_rows x = cpu_run_rows(run, step->in[0]);
    const cpu_format *format =
        find_format(run->kernels, &run->tensors[step->in[1]], step->variant);
    return cpu_format_rows_size(format, x.n, x.c);
}

/* Of a product whose plain kernel rounds x. */
static bool check_variants(cpu_check *c)
{
    const clv_variant floats = {VARIANT_FLOAT, CLV_ERROR_F32, "float"};
    const uint32_t variant = c->n.node.variant;
    c->caps.n_variants = 1;
    c->caps.variants[0] = floats;
    c->caps.error_class =
        variant == VARIANT_FLOAT ? floats.error_class : CLV_ERROR_Q8;
    return variant <= VARIANT_FLOAT ||
           clv_node_no(&c->n, "variant %u of it is not known here",
                       (unsigned)variant);
}

static bool check_matmul(cpu_check *c)
{
    const cpu_tensor *w = &c->n.in[1];
    /* Pieces of whole blocks are as fast as the whole. */
    if (w->quant && w->quant != CLV_QUANT_PER_GROUP && in_blocks(w))
        c->caps.split_granularity[CLV_CUT_CHANNELS] = CPU_BLOCK;
    const cpu_format *format = find_format(c->kernels, w, 0);
    const bool whole = c->n.node.attr.matmul.input_scale > 0;
    if (format && format->product.prepare.rows &&
        !(whole && format->product.prepare.exact))
        return check_variants(c);
    return !c->n.node.variant || clv_node_no(&c->n, "it has no variants here");
}

const cpu_op cpu_op_matmul = {check_matmul, run_matmul, share, share_size};
