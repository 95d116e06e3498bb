#include "recode.h"

#include "encode.h"
#include "integer.h"

#include <cleave/plugin_format.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 18 }; /* elements, unless one row has more */

/* Rows of a tensor that one thread converts. */
struct llm_recode_piece {
    const llm_recode_tensor *tensor;
    uint64_t begin, rows;
    float scale;   /* of integers with one for the whole tensor */
    float *scales; /* of the tensor's integers */
    float *values, *decoded;
    uint8_t *encoded;
    uint64_t capacity; /* elements of these three */
    double error, power;
    float bad; /* a value that cannot be stored; 0: none */
};

clv_status llm_recode_init(llm_recode *r, llm_gguf_writer *writer,
                           const char *what, uint64_t total, uint32_t n_threads,
                           clv_progress_fn progress, void *progress_ctx)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!n_threads)
        n_threads = processors > 0 ? (uint32_t)processors : 1;
    if (n_threads > LLM_RECODE_THREADS)
        n_threads = LLM_RECODE_THREADS;
    *r = (llm_recode){
        .writer = writer,
        .progress = progress,
        .progress_ctx = progress_ctx,
        .what = what,
        .total = total,
        .n_threads = n_threads,
        .pieces = calloc(n_threads, sizeof *r->pieces),
    };
    return r->pieces ? CLV_OK : llm_no_memory("converting tensors");
}

void llm_recode_finish(llm_recode *r)
{
    for (uint32_t i = 0; r->pieces && i < r->n_threads; i++) {
        free(r->pieces[i].values);
        free(r->pieces[i].decoded);
        free(r->pieces[i].encoded);
    }
    free(r->pieces);
    *r = (llm_recode){0};
}

uint32_t llm_recode_scales(const llm_target *to, uint64_t rows,
                           uint64_t columns, int64_t *dims)
{
    dims[0] = to->quant == CLV_QUANT_PER_TENSOR ? 1 : (int64_t)rows;
    dims[1] = to->group ? (int64_t)(columns / to->group) : 1;
    return to->quant == CLV_QUANT_NONE        ? 0
           : to->quant == CLV_QUANT_PER_GROUP ? 2
                                              : 1;
}

/* ------------------------------------------------------------------------ */
/* One piece, on any thread                                                 */

/* The row of the source that is written as number `row`. */
static uint64_t source_row(uint64_t row, uint32_t head)
{
    if (!head)
        return row;
    const uint64_t first = row / head * head, within = row % head;
    return first + within % 2 * (head / 2) + within / 2;
}

/* A row by its divisor and the factors of the columns. */
static void adjust(const llm_recode_tensor *t, uint64_t row, float *x)
{
    const float inverse = t->row_divisors ? 1 / t->row_divisors[row] : 1;
    for (uint64_t i = 0; i < t->columns; i++)
        x[i] *= inverse * (t->column_factors ? t->column_factors[i] : 1);
}

/* Whether the bytes stay what they are. */
static bool is_copied(const llm_recode_tensor *t)
{
    return t->from == t->to.dtype && !t->row_divisors && !t->column_factors;
}

static uint64_t row_size(const llm_recode_tensor *t)
{
    const clv_format *from = clv_format_of(t->from);
    return t->columns / from->elements * from->bytes;
}

void llm_recode_row(const llm_recode_tensor *t, uint64_t row, float *out)
{
    const uint64_t from = source_row(row, t->interleave);
    const uint8_t *data = t->data;
    clv_format_of(t->from)->decode(data + from * row_size(t), out,
                                   (int64_t)t->columns);
    if (t->row_divisors || t->column_factors)
        adjust(t, from, out);
}

static void read_rows(llm_recode_piece *p)
{
    const llm_recode_tensor *t = p->tensor;
    const uint64_t size = row_size(t);
    const uint8_t *data = t->data;
    for (uint64_t i = 0; i < p->rows; i++) {
        llm_recode_row(t, p->begin + i, p->values + i * t->columns);
        if (is_copied(t))
            memcpy(p->encoded + i * size,
                   data + source_row(p->begin + i, t->interleave) * size, size);
    }
}

/* The first value that is not finite or too large; 0: none. */
static float bad_value(const llm_recode_piece *p)
{
    const llm_recode_tensor *t = p->tensor;
    const clv_format *to = clv_format_of(t->to.dtype);
    const float largest = t->to.quant ? INFINITY : to->largest;
    for (uint64_t i = 0; i < p->rows * t->columns; i++)
        if (!isfinite(p->values[i]) || fabsf(p->values[i]) > largest)
            return p->values[i];
    return 0;
}

/* To integers; decodes them too. */
static void encode_integers(llm_recode_piece *p)
{
    const llm_recode_tensor *t = p->tensor;
    const uint64_t group = t->to.group ? t->to.group : t->columns;
    for (uint64_t i = 0; i < p->rows * t->columns; i += group) {
        const float *x = p->values + i;
        float scale = p->scale;
        if (t->to.quant != CLV_QUANT_PER_TENSOR) {
            scale = llm_integer_scale(t->to.dtype, x, group);
            p->scales[(p->begin * t->columns + i) / group] = scale;
        }
        llm_integer_round(t->to.dtype, x, group, scale, p->encoded, i);
    }
    clv_format_of(t->to.dtype)
        ->decode(p->encoded, p->decoded, (int64_t)(p->rows * t->columns));
    for (uint64_t i = 0; i < p->rows * t->columns; i++)
        p->decoded[i] *= p->scales[t->to.quant == CLV_QUANT_PER_TENSOR
                                       ? 0
                                       : (p->begin * t->columns + i) / group];
}

static void *convert_piece(void *arg)
{
    llm_recode_piece *p = arg;
    const llm_recode_tensor *t = p->tensor;
    const int64_t n = (int64_t)(p->rows * t->columns);
    read_rows(p);
    p->error = p->power = 0;
    p->bad = is_copied(t) ? 0 : bad_value(p);
    if (is_copied(t) || p->bad != 0)
        return NULL;
    if (t->to.quant) {
        encode_integers(p);
    } else {
        llm_encoder_of(t->to.dtype)(p->values, p->encoded, n);
        clv_format_of(t->to.dtype)->decode(p->encoded, p->decoded, n);
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)p->values[i], y = (double)p->decoded[i];
        p->error += (x - y) * (x - y);
        p->power += x * x;
    }
    return NULL;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static clv_status check_piece(const llm_recode_piece *p)
{
    const llm_recode_tensor *t = p->tensor;
    const clv_format *to = clv_format_of(t->to.dtype);
    if (p->bad == 0)
        return CLV_OK;
    if (!isfinite(p->bad))
        return clv_error(CLV_ERR_FORMAT,
                         "tensor '%s' holds a value that is not finite; "
                         "download the model again",
                         llm_str_show(t->name).text);
    return clv_error(CLV_ERR_FORMAT,
                     "tensor '%s' holds %g, %s reaches to %g; choose another "
                     "type",
                     llm_str_show(t->name).text, (double)p->bad, to->name,
                     (double)to->largest);
}

static clv_status write_piece(llm_recode *r, const llm_recode_piece *p,
                              llm_recode_result *result)
{
    const llm_recode_tensor *t = p->tensor;
    const uint64_t n = p->rows * t->columns;
    uint64_t size = 0;
    CLV_TRY(check_piece(p));
    CLV_TRY(clv_dtype_size(t->to.dtype, n, &size));
    CLV_TRY(llm_gguf_writer_data(r->writer, p->encoded, size));
    result->error += p->error;
    result->power += p->power;
    r->done += n;
    const double fraction = r->total ? (double)r->done / (double)r->total : 1;
    if (r->progress && r->progress(r->progress_ctx, r->what, fraction))
        return clv_error(CLV_ERR_CANCELLED, "%s: cancelled", r->what);
    return CLV_OK;
}

/* Room for `rows` rows of the tensor. */
static clv_status prepare(llm_recode_piece *p, uint64_t rows, uint64_t columns)
{
    const uint64_t n = rows * columns;
    if (n <= p->capacity)
        return CLV_OK;
    free(p->values);
    free(p->decoded);
    free(p->encoded);
    p->values = malloc(n * sizeof(float));
    p->decoded = malloc(n * sizeof(float));
    p->encoded = malloc(n * sizeof(float));
    p->capacity = p->values && p->decoded && p->encoded ? n : 0;
    return p->capacity ? CLV_OK : llm_no_memory("converting tensors");
}

/* Converts and writes the next rows, a piece a thread; the calling thread takes
 * one too. */
static clv_status convert_rows(llm_recode *r, uint64_t most, uint64_t *row,
                               uint64_t rows, llm_recode_result *result)
{
    pthread_t threads[LLM_RECODE_THREADS];
    bool started[LLM_RECODE_THREADS] = {false};
    clv_status status = CLV_OK;
    uint32_t n = 0;
    for (; n < r->n_threads && *row < rows; n++) {
        r->pieces[n].begin = *row;
        r->pieces[n].rows = rows - *row < most ? rows - *row : most;
        *row += r->pieces[n].rows;
    }
    for (uint32_t i = 1; i < n; i++)
        started[i] =
            !pthread_create(&threads[i], NULL, convert_piece, &r->pieces[i]);
    for (uint32_t i = 0; i < n; i++)
        if (!started[i])
            convert_piece(&r->pieces[i]);
    for (uint32_t i = 1; i < n; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < n && !status; i++)
        status = write_piece(r, &r->pieces[i], result);
    return status;
}

/* Of integers with one scale: the largest magnitude of all rows gives it. */
static clv_status find_scale(llm_recode *r, const llm_recode_tensor *t,
                             float *scale)
{
    llm_recode_piece *p = &r->pieces[0];
    float largest = 0;
    for (uint64_t row = 0; row < t->rows; row++) {
        p->begin = row;
        p->rows = 1;
        read_rows(p);
        p->bad = bad_value(p);
        CLV_TRY(check_piece(p));
        for (uint64_t i = 0; i < t->columns; i++)
            largest = fmaxf(largest, fabsf(p->values[i]));
    }
    *scale = llm_integer_reach(t->to.dtype, largest);
    return CLV_OK;
}

static clv_status write_all(llm_recode *r, const llm_recode_tensor *t,
                            uint64_t most, llm_recode_result *result)
{
    float scale = 0;
    for (uint32_t i = 0; i < r->n_threads; i++) {
        r->pieces[i].tensor = t;
        CLV_TRY(prepare(&r->pieces[i], most, t->columns));
    }
    if (t->to.quant == CLV_QUANT_PER_TENSOR) {
        CLV_TRY(find_scale(r, t, &scale));
        result->scales[0] = scale;
    }
    for (uint32_t i = 0; i < r->n_threads; i++) {
        r->pieces[i].scale = scale;
        r->pieces[i].scales = result->scales;
    }
    for (uint64_t row = 0; row < t->rows;)
        CLV_TRY(convert_rows(r, most, &row, t->rows, result));
    return CLV_OK;
}

clv_status llm_recode_write(llm_recode *r, const llm_recode_tensor *t,
                            llm_recode_result *result)
{
    llm_recode_result unused = {0};
    int64_t dims[2];
    if (!result)
        result = &unused;
    *result = (llm_recode_result){0};
    if (llm_recode_scales(&t->to, t->rows, t->columns, dims)) {
        result->n_scales = (uint64_t)(dims[0] * dims[1]);
        result->scales = calloc(result->n_scales, sizeof *result->scales);
        if (!result->scales)
            return llm_no_memory("scales");
    }
    uint64_t most = t->columns ? PIECE / t->columns : 0;
    most = most > t->rows ? t->rows : most;
    clv_status status = write_all(r, t, most ? most : 1, result);
    if (status || result == &unused) {
        free(result->scales);
        result->scales = NULL;
    }
    return status;
}
