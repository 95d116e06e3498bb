#include "recode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 18 }; /* elements, a multiple of every block */

clv_status llm_recode_check(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    if (f && f->encode)
        return CLV_OK;
    return clv_error(
        CLV_ERR_UNSUPPORTED, "files of %s cannot be made; supported: %s",
        f ? f->name : "an unknown type", llm_gguf_supported_types().text);
}

static bool ends_with(llm_str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.size >= n && memcmp(s.data + s.size - n, suffix, n) == 0;
}

uint32_t llm_recode_target(llm_str name, uint32_t rank, int64_t columns,
                           uint32_t dtype, bool tied)
{
    /* Expert routers decide by small differences. */
    if (rank < 2 || ends_with(name, "ffn_gate_inp.weight") ||
        ends_with(name, "_norm.weight"))
        return CLV_DTYPE_F32;
    const clv_format *f = clv_format_of(dtype);
    if (f->format_class == CLV_FORMAT_BLOCK && f->bits < 8 &&
        llm_str_equal(name,
                      llm_str_of(tied ? "token_embd.weight" : "output.weight")))
        dtype = CLV_DTYPE_Q8_0;
    return columns % clv_format_of(dtype)->elements ? CLV_DTYPE_F16 : dtype;
}

/* ------------------------------------------------------------------------ */

clv_status llm_recode_init(llm_recode *r, llm_gguf_writer *writer,
                           const char *what, uint64_t total,
                           clv_progress_fn progress, void *progress_ctx)
{
    *r = (llm_recode){
        .writer = writer,
        .progress = progress,
        .progress_ctx = progress_ctx,
        .what = what,
        .total = total,
        .values = malloc(PIECE * sizeof(float)),
        .encoded = malloc(PIECE * sizeof(float)),
        .gathered = malloc(PIECE * sizeof(float)),
    };
    if (r->values && r->encoded && r->gathered)
        return CLV_OK;
    llm_recode_finish(r);
    return clv_error(CLV_ERR_NO_MEMORY, "no memory to convert tensors");
}

void llm_recode_finish(llm_recode *r)
{
    free(r->values);
    free(r->encoded);
    free(r->gathered);
    *r = (llm_recode){0};
}

static clv_status report(llm_recode *r, uint64_t n)
{
    r->done += n;
    double fraction = r->total ? (double)r->done / (double)r->total : 1;
    if (r->progress && r->progress(r->progress_ctx, r->what, fraction))
        return clv_error(CLV_ERR_CANCELLED, "%s: cancelled", r->what);
    return CLV_OK;
}

static clv_status check_values(const llm_recode_tensor *t, const float *values,
                               uint64_t n)
{
    const clv_format *to = clv_format_of(t->to);
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds a value that is not finite; "
                             "download the model again",
                             llm_str_show(t->name).text);
        if (fabsf(values[i]) > to->largest)
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds %g, %s reaches to %g; choose "
                             "another type",
                             llm_str_show(t->name).text, values[i], to->name,
                             (double)to->largest);
    }
    return CLV_OK;
}

/* n elements: converted if need be, and written. */
static clv_status write_piece(llm_recode *r, const llm_recode_tensor *t,
                              const uint8_t *data, uint64_t n)
{
    uint64_t size = 0;
    CLV_TRY(clv_dtype_size(t->to, n, &size));
    if (t->from != t->to) {
        CLV_TRY(clv_dtype_to_f32(t->from, data, r->values, n));
        CLV_TRY(check_values(t, r->values, n));
        CLV_TRY(clv_dtype_from_f32(t->to, r->values, r->encoded, n));
        data = r->encoded;
    }
    CLV_TRY(llm_gguf_writer_data(r->writer, data, size));
    return report(r, n);
}

/* n elements that follow one another. */
static clv_status write_range(llm_recode *r, const llm_recode_tensor *t,
                              const uint8_t *data, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += PIECE) {
        uint64_t offset = 0, piece = n - at < PIECE ? n - at : PIECE;
        CLV_TRY(clv_dtype_size(t->from, at, &offset));
        CLV_TRY(write_piece(r, t, data + offset, piece));
    }
    return CLV_OK;
}

/* The row of the source that is written as number `row`. */
static uint64_t source_row(uint64_t row, uint32_t head)
{
    uint64_t first = row / head * head, within = row % head;
    return first + within % 2 * (head / 2) + within / 2;
}

static clv_status write_interleaved(llm_recode *r, const llm_recode_tensor *t)
{
    uint64_t row_size = 0;
    CLV_TRY(clv_dtype_size(t->from, t->columns, &row_size));
    const uint8_t *data = t->data;
    uint64_t most = PIECE / t->columns, n = 0;
    for (uint64_t i = 0; i < t->rows; i++) {
        const uint8_t *row = data + source_row(i, t->interleave) * row_size;
        if (most == 0) {
            CLV_TRY(write_range(r, t, row, t->columns));
            continue;
        }
        memcpy(r->gathered + n++ * row_size, row, row_size);
        if (n == most || i + 1 == t->rows) {
            CLV_TRY(write_piece(r, t, r->gathered, n * t->columns));
            n = 0;
        }
    }
    return CLV_OK;
}

clv_status llm_recode_write(llm_recode *r, const llm_recode_tensor *t)
{
    if (t->interleave)
        return write_interleaved(r, t);
    return write_range(r, t, t->data, t->rows * t->columns);
}
