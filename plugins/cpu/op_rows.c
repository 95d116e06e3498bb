/* Ops that move rows: gather, scatter, conversion. */
#include "grid.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool check_get_rows(cpu_check *c)
{
    c->caps.error_class = CLV_ERROR_EXACT;
    return true;
}

typedef struct gather {
    const cpu_kernels *kernels;
    cpu_grid grid;
    cpu_rows table, y;
    const int32_t *ids;
    uint32_t dtype;
    const float *scales; /* NULL: none beside the table */
    int64_t scale_stride, group;
} gather;

/* Multiplies columns of a row of integers by their scales. */
static void scale_row(const gather *t, int64_t row, cpu_range columns, float *y)
{
    const float *scales = t->scales + row * t->scale_stride;
    for (int64_t j = columns.begin; j < columns.end;) {
        int64_t end = (j / t->group + 1) * t->group;
        float scale = scales[j / t->group];
        for (end = end < columns.end ? end : columns.end; j < end; j++)
            y[j] *= scale;
    }
}

static void gather_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const gather *t = ctx;
    cpu_range rows = cpu_grid_rows(&t->grid, index);
    cpu_range columns = cpu_grid_columns(&t->grid, index);
    cpu_block block = cpu_dtype_block(t->dtype);
    (void)worker;
    for (int64_t i = rows.begin; i < rows.end; i++) {
        float *y = cpu_row_f32(&t->y, i);
        int32_t id = t->ids[i];
        if (id < 0 || id >= t->table.n) {
            for (int64_t j = columns.begin; j < columns.end; j++)
                y[j] = NAN;
        } else {
            t->kernels->formats[t->dtype].to_f32(
                t->table.data + id * t->table.stride +
                    columns.begin / block.elements * block.bytes,
                y + columns.begin, columns.end - columns.begin);
            if (t->scales)
                scale_row(t, id, columns, y);
        }
    }
}

static void run_get_rows(const cpu_run *run, const cpu_step *step)
{
    gather t = {.kernels = run->kernels,
                .table = cpu_run_rows(run, step->in[0]),
                .y = cpu_run_rows(run, step->out[0]),
                .ids = run->data[step->in[1]],
                .dtype = run->tensors[step->in[0]].dtype,
                .group = cpu_tensor_group(&run->tensors[step->in[0]])};
    t.scales = cpu_run_scales(run, step->in[0], &t.scale_stride);
    t.grid = cpu_grid_make(t.y.n, t.y.c);
    cpu_pool_run(run->pool, t.grid.chunks, gather_chunk, &t);
}

/* Divided by columns, so that of equal ids the last one wins. */
typedef struct scatter {
    const cpu_kernels *kernels;
    cpu_rows state, src;
    const int32_t *ids;
    uint32_t dtype;
    int64_t step;
} scatter;

static void scatter_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const scatter *t = ctx;
    cpu_range columns = cpu_part(t->src.c, t->step, index);
    cpu_block block = cpu_dtype_block(t->dtype);
    (void)worker;
    for (int64_t i = 0; i < t->src.n; i++) {
        int32_t id = t->ids[i];
        if (id < 0 || id >= t->state.n)
            continue;
        t->kernels->formats[t->dtype].from_f32(
            cpu_row_f32(&t->src, i) + columns.begin,
            t->state.data + id * t->state.stride +
                columns.begin / block.elements * block.bytes,
            columns.end - columns.begin);
    }
}

static void run_set_rows(const cpu_run *run, const cpu_step *step)
{
    scatter t = {.kernels = run->kernels,
                 .state = cpu_run_rows(run, step->in[0]),
                 .src = cpu_run_rows(run, step->in[1]),
                 .ids = run->data[step->in[2]],
                 .dtype = run->tensors[step->in[0]].dtype};
    if (!t.src.n || !t.src.c)
        return;
    int64_t blocks = CPU_GRAIN / CPU_COLUMN_STEP / t.src.n;
    t.step = CPU_COLUMN_STEP * (blocks > 4 ? blocks : 4);
    cpu_pool_run(run->pool, (uint32_t)cpu_ceil_div(t.src.c, t.step),
                 scatter_chunk, &t);
}

/* Elements converted at a time: in, as floats and out fit the scratch. */
#define PIECE (CPU_SCRATCH_SIZE / 16)

typedef struct conversion {
    const cpu_run *run;
    cpu_grid grid;
    cpu_shape x, y;
    char *from, *to;
} conversion;

/* Where row i of all but the last dimension begins. */
static int64_t row_offset(const cpu_shape *s, int64_t i)
{
    int64_t offset = 0;
    for (uint32_t d = s->rank - 1; d-- > 0; i /= s->dims[d])
        offset += i % s->dims[d] * s->strides[d];
    return offset;
}

static bool is_packed(const cpu_shape *s)
{
    return s->strides[s->rank - 1] == cpu_dtype_block(s->dtype).bytes;
}

/* Elements size bytes long, from one stride to another. */
static void copy_strided(const char *src, int64_t src_stride, char *dst,
                         int64_t dst_stride, int64_t n, int64_t size)
{
    if (src_stride == size && dst_stride == size) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * dst_stride, src + i * src_stride, (size_t)size);
}

/* n elements of a row: packed if need be, widened, narrowed, spread out. */
static void convert_piece(const conversion *t, const char *from, char *to,
                          int64_t n, char *scratch)
{
    const cpu_kernels *k = t->run->kernels;
    cpu_block in = cpu_dtype_block(t->x.dtype);
    cpu_block out = cpu_dtype_block(t->y.dtype);
    int64_t in_stride = t->x.strides[t->x.rank - 1];
    int64_t out_stride = t->y.strides[t->y.rank - 1];
    char *packed = scratch, *wide = scratch + 4 * PIECE;
    char *narrow = scratch + 8 * PIECE;
    if (t->x.dtype == t->y.dtype) {
        copy_strided(from, in_stride, to, out_stride, n / in.elements,
                     in.bytes);
        return;
    }
    if (!is_packed(&t->x)) {
        copy_strided(from, in_stride, packed, in.bytes, n / in.elements,
                     in.bytes);
        from = packed;
    }
    k->formats[t->x.dtype].to_f32(from, (float *)(void *)wide, n);
    bool direct = is_packed(&t->y);
    k->formats[t->y.dtype].from_f32((float *)(void *)wide, direct ? to : narrow,
                                    n);
    if (!direct)
        copy_strided(narrow, out.bytes, to, out_stride, n / out.elements,
                     out.bytes);
}

static int64_t element_offset(const cpu_shape *s, int64_t i)
{
    return i / cpu_dtype_block(s->dtype).elements * s->strides[s->rank - 1];
}

static void convert_chunk(void *ctx, uint32_t index, uint32_t worker)
{
    const conversion *t = ctx;
    cpu_range rows = cpu_grid_rows(&t->grid, index);
    cpu_range columns = cpu_grid_columns(&t->grid, index);
    char *scratch = cpu_pool_scratch(t->run->pool, worker);
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const char *from = t->from + row_offset(&t->x, i);
        char *to = t->to + row_offset(&t->y, i);
        for (int64_t j = columns.begin; j < columns.end; j += PIECE) {
            int64_t n = columns.end - j < PIECE ? columns.end - j : PIECE;
            convert_piece(t, from + element_offset(&t->x, j),
                          to + element_offset(&t->y, j), n, scratch);
        }
    }
}

static void run_convert(const cpu_run *run, const cpu_step *step)
{
    conversion t = {.run = run,
                    .from = run->data[step->in[0]],
                    .to = run->data[step->out[0]]};
    cpu_run_shape(run, step->in[0], &t.x);
    cpu_run_shape(run, step->out[0], &t.y);
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < t.x.rank; i++)
        n *= t.x.dims[i];
    t.grid = cpu_grid_make(n, t.x.dims[t.x.rank - 1]);
    cpu_pool_run(run->pool, t.grid.chunks, convert_chunk, &t);
}

static bool check_convert(cpu_check *c)
{
    if (c->n.in[0].dtype == c->n.out.dtype)
        c->caps.error_class = CLV_ERROR_EXACT;
    return true;
}

const cpu_op cpu_op_get_rows = {check_get_rows, run_get_rows, NULL, NULL};
const cpu_op cpu_op_set_rows = {NULL, run_set_rows, NULL, NULL};
const cpu_op cpu_op_convert = {check_convert, run_convert, NULL, NULL};
