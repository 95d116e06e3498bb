#include "recode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 18 }; /* elements, a multiple of every block */

static const struct {
    uint32_t dtype, file_type;
    float largest; /* magnitude whose encoding stays finite */
} targets[] = {
    {CLV_DTYPE_F32, 0, INFINITY},      {CLV_DTYPE_F16, 1, 65504},
    {CLV_DTYPE_Q4_0, 2, 65504.0f * 8}, {CLV_DTYPE_Q8_0, 7, 65504.0f * 127},
    {CLV_DTYPE_BF16, 32, 3.38e38f},
};

enum { N_TARGETS = sizeof targets / sizeof targets[0] };

clv_status llm_recode_check(uint32_t dtype)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (targets[i].dtype == dtype)
            return CLV_OK;
    const char *name = clv_dtype_name(dtype);
    return clv_error(
        CLV_ERR_UNSUPPORTED, "files of %s cannot be made; supported: %s",
        name ? name : "an unknown type", llm_gguf_supported_types());
}

uint32_t llm_recode_file_type(uint32_t dtype)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (targets[i].dtype == dtype)
            return targets[i].file_type;
    return 0;
}

static float largest(uint32_t dtype)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (targets[i].dtype == dtype)
            return targets[i].largest;
    return INFINITY;
}

static bool ends_with(llm_str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.size >= n && memcmp(s.data + s.size - n, suffix, n) == 0;
}

uint32_t llm_recode_target(llm_str name, uint32_t rank, int64_t columns,
                           uint32_t dtype, bool tied)
{
    uint32_t elements, bytes;
    /* Expert routers decide by small differences. */
    if (rank < 2 || ends_with(name, "ffn_gate_inp.weight") ||
        ends_with(name, "_norm.weight"))
        return CLV_DTYPE_F32;
    if (dtype == CLV_DTYPE_Q4_0 &&
        llm_str_equal(name,
                      llm_str_of(tied ? "token_embd.weight" : "output.weight")))
        dtype = CLV_DTYPE_Q8_0;
    if (!clv_dtype_block(dtype, &elements, &bytes) || columns % elements)
        return CLV_DTYPE_F16;
    return dtype;
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
    float most = largest(t->to);
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds a value that is not finite; "
                             "download the model again",
                             llm_str_show(t->name).text);
        if (fabsf(values[i]) > most)
            return clv_error(CLV_ERR_FORMAT,
                             "tensor '%s' holds %g, %s reaches to %g; choose "
                             "another type",
                             llm_str_show(t->name).text, values[i],
                             clv_dtype_name(t->to), most);
    }
    return CLV_OK;
}

/* n elements: converted if need be, and written. */
static clv_status write_piece(llm_recode *r, const llm_recode_tensor *t,
                              const uint8_t *data, uint64_t n)
{
    uint64_t size = 0;
    clv_status status = clv_dtype_size(t->to, n, &size);
    if (status)
        return status;
    if (t->from != t->to) {
        status = clv_dtype_to_f32(t->from, data, r->values, n);
        if (!status)
            status = check_values(t, r->values, n);
        if (!status)
            status = clv_dtype_from_f32(t->to, r->values, r->encoded, n);
        data = r->encoded;
    }
    if (!status)
        status = llm_gguf_writer_data(r->writer, data, size);
    return status ? status : report(r, n);
}

/* A run of elements that lie one after another. */
static clv_status write_run(llm_recode *r, const llm_recode_tensor *t,
                            const uint8_t *data, uint64_t n)
{
    clv_status status = CLV_OK;
    for (uint64_t at = 0; at < n && !status; at += PIECE) {
        uint64_t offset = 0, piece = n - at < PIECE ? n - at : PIECE;
        status = clv_dtype_size(t->from, at, &offset);
        if (!status)
            status = write_piece(r, t, data + offset, piece);
    }
    return status;
}

/* Where the row that is written as number row lies. */
static uint64_t source_row(uint64_t row, uint32_t head)
{
    uint64_t first = row / head * head, within = row % head;
    return first + within % 2 * (head / 2) + within / 2;
}

static clv_status write_interleaved(llm_recode *r, const llm_recode_tensor *t)
{
    uint64_t row_size = 0;
    clv_status status = clv_dtype_size(t->from, t->columns, &row_size);
    const uint8_t *data = t->data;
    uint64_t most = PIECE / t->columns, n = 0;
    for (uint64_t i = 0; i < t->rows && !status; i++) {
        const uint8_t *row = data + source_row(i, t->interleave) * row_size;
        if (most == 0) {
            status = write_run(r, t, row, t->columns);
            continue;
        }
        memcpy(r->gathered + n++ * row_size, row, row_size);
        if (n == most || i + 1 == t->rows) {
            status = write_piece(r, t, r->gathered, n * t->columns);
            n = 0;
        }
    }
    return status;
}

clv_status llm_recode_write(llm_recode *r, const llm_recode_tensor *t)
{
    if (t->interleave)
        return write_interleaved(r, t);
    return write_run(r, t, t->data, t->rows * t->columns);
}
