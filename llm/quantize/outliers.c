#include "outliers.h"
#include "names.h"

#include <cleave/plugin_format.h>

#include <math.h>
#include <stdlib.h>

static void add(llm_gguf_writer *writer, llm_str weight, const char *suffix,
                uint32_t dtype, uint32_t rank, const int64_t *dims)
{
    char name[LLM_SCALE_NAME];
    llm_scale_name(weight, suffix, name); /* it has scales of such a name */
    llm_gguf_writer_tensor(writer, llm_str_of(name), dtype, rank, dims);
}

/* The bound, then the hot channels: [1 + columns] at most. */
static clv_status list_channels(const llm_input_range *range, int32_t **list,
                                uint64_t *n)
{
    *list = malloc((1 + range->columns) * sizeof **list);
    if (!*list)
        return llm_no_memory("channels of outliers");
    (*list)[0] = (int32_t)range->bound;
    *n = 1 + llm_input_hot(range, *list + 1);
    return CLV_OK;
}

clv_status llm_outliers_describe(llm_gguf_writer *writer,
                                 const llm_recode_tensor *t,
                                 const llm_input_range *range)
{
    int32_t *list;
    uint64_t n = 0;
    CLV_TRY(list_channels(range, &list, &n));
    free(list);
    add(writer, t->name, LLM_OUTLIERS, CLV_DTYPE_F16, 2,
        (const int64_t[]){(int64_t)t->columns, (int64_t)t->rows});
    add(writer, t->name, LLM_OUTLIER_CHANNELS, CLV_DTYPE_I32, 1,
        &(int64_t){(int64_t)n});
    return CLV_OK;
}

/* [columns, rows] in F16. */
static clv_status transpose(const llm_recode_tensor *t, uint16_t *out)
{
    float *row = malloc(t->columns * sizeof *row);
    if (!row)
        return llm_no_memory("weights of outliers");
    for (uint64_t o = 0; o < t->rows; o++) {
        llm_recode_row(t, o, row);
        for (uint64_t i = 0; i < t->columns; i++)
            out[i * t->rows + o] =
                clv_f32_to_f16(fmaxf(-65504, fminf(65504, row[i])));
    }
    free(row);
    return CLV_OK;
}

clv_status llm_outliers_write(llm_gguf_writer *writer,
                              const llm_recode_tensor *t,
                              const llm_input_range *range)
{
    const uint64_t size = t->rows * t->columns * sizeof(uint16_t);
    uint16_t *weights = malloc(size);
    int32_t *list = NULL;
    uint64_t n = 0;
    clv_status status =
        weights ? transpose(t, weights) : llm_no_memory("weights of outliers");
    if (!status)
        status = llm_gguf_writer_data(writer, weights, size);
    if (!status)
        status = list_channels(range, &list, &n);
    if (!status)
        status = llm_gguf_writer_data(writer, list, n * sizeof *list);
    free(list);
    free(weights);
    return status;
}
