#include "../files/gguf_kv.h"
#include "integer.h"
#include "names.h"
#include "outliers.h"
#include "ranges.h"
#include "recode.h"

#include <cleave/plugin_format.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct quantization {
    const clv_quantize_params *params;
    const llm_gguf *in;
    llm_gguf_writer *out;
    const llm_mix *mix;
    llm_mix_model model;
    llm_recode recode;
} quantization;

/* ------------------------------------------------------------------------ */
/* Input                                                                    */

/* Settings that describe the old file rather than the model. */
static bool dropped(llm_str key)
{
    static const char *const keys[] = {
        "general.file_type", "general.quantization_version",
        "general.alignment", "split.no",
        "split.count",       "split.tensors.count",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (llm_str_equal(key, llm_str_of(keys[i])))
            return true;
    return false;
}

static clv_status check_input(const llm_gguf *g)
{
    if (llm_gguf_tensor_count(g) == 0)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: holds no tensors; use the model's file",
                         llm_gguf_path(g));
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        if (!clv_format_is(t->dtype, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: tensor '%s' has type %s, supported: %s; "
                             "start from the F16 file of the model",
                             llm_gguf_path(g), llm_str_show(t->name).text,
                             llm_gguf_type_name(t->type),
                             llm_gguf_supported_types().text);
    }
    return CLV_OK;
}

/* A number of the architecture; where there is one for each layer, the first.
 * 0: the file does not say. */
static uint32_t setting(const llm_gguf *g, llm_str arch, const char *name)
{
    char key[128];
    llm_gguf_array each;
    uint32_t value = 0;
    snprintf(key, sizeof key, "%s.%s", llm_str_show(arch).text, name);
    if (!llm_gguf_has(g, key))
        return 0;
    if (!llm_gguf_get_ints(g, key, &each))
        return each.count ? (uint32_t)llm_gguf_item_int(&each, 0) : 0;
    return llm_gguf_get_u32(g, key, &value) ? 0 : value;
}

static void describe_model(const llm_gguf *g, llm_mix_model *m)
{
    llm_str arch = {"", 0};
    if (llm_gguf_has(g, "general.architecture"))
        llm_gguf_get_str(g, "general.architecture", &arch);
    *m = (llm_mix_model){
        .n_layers = setting(g, arch, "block_count"),
        .n_heads = setting(g, arch, "attention.head_count"),
        .n_kv_heads = setting(g, arch, "attention.head_count_kv"),
        .n_experts = setting(g, arch, "expert_count"),
        .tied = !llm_gguf_find(g, "output.weight"),
    };
    if (!m->n_kv_heads)
        m->n_kv_heads = m->n_heads;
}

/* ------------------------------------------------------------------------ */
/* Output                                                                   */

/* What a weight is multiplied with; NULL: it is not rounded. */
static const llm_input_range *input_of(const quantization *q,
                                       const llm_recode_tensor *t)
{
    return q->mix->static_inputs && t->to.quant
               ? llm_ranges_find(q->params->ranges, t->name)
               : NULL;
}

/* Lets what makes columns divide them, and what reads them multiply. A vector
 * makes a column by each of its elements. */
static void move_sizes(const quantization *q, llm_recode_tensor *t, bool vector)
{
    const llm_input_range *r = input_of(q, t);
    if (!q->mix->static_inputs || q->params->plain)
        return;
    if (r && r->columns == t->columns)
        t->column_factors = r->divisors;
    t->row_divisors = llm_ranges_made_by(q->params->ranges, t->name,
                                         vector ? t->columns : t->rows);
    if (vector && t->row_divisors) {
        t->rows = t->columns;
        t->columns = 1;
    }
}

/* A tensor of the file. */
static llm_recode_tensor tensor_at(const quantization *q, uint64_t i)
{
    const llm_gguf_tensor *t = llm_gguf_tensor_at(q->in, i);
    const uint64_t columns = (uint64_t)t->dims[t->rank - 1];
    uint64_t rows = 1; /* cannot overflow: the bytes lie in a file */
    for (uint32_t j = 0; j + 1 < t->rank; j++)
        rows *= (uint64_t)t->dims[j];
    llm_recode_tensor out = {
        .name = t->name,
        .from = t->dtype,
        .to = llm_mix_target(q->mix, &q->model, t->name, t->rank,
                             t->dims[t->rank - 1]),
        .data = t->data,
        .rows = rows,
        .columns = columns,
    };
    move_sizes(q, &out, t->rank == 1);
    return out;
}

/* Whether what lies outside the range is multiplied with floats. */
static bool has_outliers(const quantization *q, const llm_recode_tensor *t)
{
    const llm_input_range *r = input_of(q, t);
    return r && !q->params->plain && r->columns == t->columns &&
           llm_ranges_keep(q->params->ranges, r, q->params->prune);
}

/* The scale by which activations are rounded in front of a weight; 0: they are
 * not. */
static float input_scale(const quantization *q, const llm_recode_tensor *t)
{
    const llm_input_range *r = input_of(q, t);
    if (!r)
        return 0;
    const float range = q->params->plain     ? r->clamp.largest
                        : has_outliers(q, t) ? r->clamp.range
                                             : r->clamp.alone;
    return llm_integer_reach(CLV_DTYPE_I8, range);
}

/* Adds the scales of a tensor to the list in the file. */
static clv_status describe_scales(const quantization *q,
                                  const llm_recode_tensor *t)
{
    char name[LLM_SCALE_NAME];
    int64_t dims[2];
    const uint32_t rank = llm_recode_scales(&t->to, t->rows, t->columns, dims);
    if (!rank)
        return CLV_OK;
    if (!llm_scale_name(t->name, "input_scale", name))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "tensor '%s' cannot have scales: its name does not "
                         "end in 'weight' or is too long; choose a type of "
                         "blocks",
                         llm_str_show(t->name).text);
    if (input_scale(q, t) > 0)
        llm_gguf_writer_tensor(q->out, llm_str_of(name), CLV_DTYPE_F32, 1,
                               &(int64_t){1});
    llm_scale_name(t->name, "scale", name);
    llm_gguf_writer_tensor(q->out, llm_str_of(name), CLV_DTYPE_F32, rank, dims);
    return CLV_OK;
}

typedef clv_status (*outliers_fn)(llm_gguf_writer *writer,
                                  const llm_recode_tensor *t,
                                  const llm_input_range *range);

/* Behind all other tensors, so that what reads those ahead leaves these. */
static clv_status each_outliers(const quantization *q, outliers_fn fn)
{
    for (uint64_t i = 0; i < llm_gguf_tensor_count(q->in); i++) {
        const llm_recode_tensor t = tensor_at(q, i);
        if (has_outliers(q, &t))
            CLV_TRY(fn(q->out, &t, input_of(q, &t)));
    }
    return CLV_OK;
}

static clv_status describe_tensors(quantization *q, uint64_t *total)
{
    const uint64_t n = llm_gguf_tensor_count(q->in);
    uint64_t n_int4 = 0;
    llm_str *int4 = calloc(n, sizeof *int4);
    if (!int4)
        return llm_no_memory("names");
    clv_status status = CLV_OK;
    for (uint64_t i = 0; i < n && !status; i++) {
        const llm_recode_tensor t = tensor_at(q, i);
        const llm_gguf_tensor *from = llm_gguf_tensor_at(q->in, i);
        uint32_t dtype = t.to.dtype;
        int64_t dims[4];
        memcpy(dims, from->dims, sizeof dims);
        if (dtype == CLV_DTYPE_I4) {
            int4[n_int4++] = t.name;
            dims[from->rank - 1] /= 2;
            dtype = CLV_DTYPE_I8;
        }
        llm_gguf_writer_tensor(q->out, t.name, dtype, from->rank, dims);
        status = describe_scales(q, &t);
        *total += t.rows * t.columns;
    }
    if (n_int4)
        llm_gguf_writer_strings(q->out, LLM_INT4_KEY, int4, n_int4);
    free(int4);
    return status;
}

static void describe_settings(const quantization *q)
{
    for (uint64_t i = 0; i < llm_gguf_kv_count(q->in); i++) {
        const llm_gguf_kv *kv = llm_gguf_kv_at(q->in, i);
        if (!dropped(kv->key))
            llm_gguf_writer_kv(q->out, kv);
    }
    if (q->mix->base.quant)
        llm_gguf_writer_str(q->out, LLM_SCHEME_KEY, llm_str_of(q->mix->name));
    else
        llm_gguf_writer_u32(q->out, "general.file_type", q->mix->file_type);
    llm_gguf_writer_u32(q->out, "general.quantization_version", 2);
}

/* After a tensor: what it was made with, and what the caller wants to know. */
static clv_status finish_tensor(const quantization *q,
                                const llm_recode_tensor *t,
                                const llm_recode_result *result)
{
    const clv_quantize_params *params = q->params;
    const llm_input_range *range = input_of(q, t);
    const float input = input_scale(q, t);
    uint64_t size = 0;
    if (input > 0)
        CLV_TRY(llm_gguf_writer_data(q->out, &input, sizeof input));
    if (result->scales)
        CLV_TRY(llm_gguf_writer_data(q->out, result->scales,
                                     result->n_scales * sizeof(float)));
    const bool split = has_outliers(q, t);
    if (!params->on_tensor)
        return CLV_OK;
    CLV_TRY(clv_dtype_size(t->to.dtype, t->rows * t->columns, &size));
    const llm_shown name = llm_str_show(t->name);
    const clv_quantized_tensor info = {
        .name = name.text,
        .from = t->from,
        .to = t->to.dtype,
        .quant = t->to.quant,
        .group = t->to.group,
        .rows = t->rows,
        .columns = t->columns,
        .size = size + result->n_scales * sizeof(float) +
                (split ? t->rows * t->columns * sizeof(uint16_t) : 0),
        .error = result->power > 0 ? sqrt(result->error / result->power) : 0,
        .input_scale = input,
        .importance = range ? range->clamp.importance : 0,
        .outliers = split ? range->bound : 0,
    };
    params->on_tensor(params->on_tensor_ctx, &info);
    return CLV_OK;
}

static clv_status write_tensors(quantization *q)
{
    clv_status status = CLV_OK;
    for (uint64_t i = 0; i < llm_gguf_tensor_count(q->in) && !status; i++) {
        const llm_recode_tensor t = tensor_at(q, i);
        llm_recode_result result = {0};
        status = llm_recode_write(&q->recode, &t, &result);
        if (!status)
            status = finish_tensor(q, &t, &result);
        free(result.scales);
    }
    return status;
}

static clv_status write_file(quantization *q, const char *out)
{
    uint64_t total = 0;
    CLV_TRY(llm_gguf_writer_create(&q->out));
    describe_settings(q);
    CLV_TRY(describe_tensors(q, &total));
    CLV_TRY(each_outliers(q, llm_outliers_describe));
    CLV_TRY(llm_recode_init(&q->recode, q->out, "quantizing", total,
                            q->params->n_threads, q->params->progress,
                            q->params->progress_ctx));
    CLV_TRY(llm_gguf_writer_open(q->out, out, NULL));
    clv_status status = write_tensors(q);
    if (!status)
        status = each_outliers(q, llm_outliers_write);
    CLV_TRY(llm_gguf_check(q->in));
    CLV_TRY(status);
    return llm_gguf_writer_commit(q->out);
}

/* ------------------------------------------------------------------------ */

static clv_quantize_type describe_type(const llm_mix *mix)
{
    return (clv_quantize_type){mix->name, mix->summary, mix->static_inputs};
}

bool clv_quantize_type_at(uint32_t i, clv_quantize_type *out)
{
    const llm_mix *mix = llm_mix_at(i);
    if (mix)
        *out = describe_type(mix);
    return mix != NULL;
}

clv_status clv_quantize_type_find(const char *name, clv_quantize_type *out)
{
    const llm_mix *mix;
    CLV_TRY(llm_mix_find(name, &mix));
    *out = describe_type(mix);
    return CLV_OK;
}

clv_status clv_quantize(const char *in, const char *out,
                        const clv_quantize_params *params)
{
    quantization q = {.params = params};
    llm_gguf *g = NULL;
    if (!in || !out || !params || !params->type)
        return clv_error(CLV_ERR_INVALID,
                         "clv_quantize: a path or the type is NULL");
    CLV_TRY(llm_mix_find(params->type, &q.mix));
    if (q.mix->static_inputs && !params->ranges)
        return clv_error(CLV_ERR_INVALID,
                         "%s rounds activations by scales that a text gives; "
                         "calibrate with one",
                         q.mix->name);
    if (!(params->prune >= 0 && params->prune <= 1))
        return clv_error(CLV_ERR_INVALID,
                         "a part of %g of the layers cannot be pruned; give 0 "
                         "to 1",
                         (double)params->prune);
    CLV_TRY(llm_gguf_open(in, &g));
    q.in = g;
    describe_model(g, &q.model);
    clv_status status = check_input(g);
    if (!status)
        status = write_file(&q, out);
    llm_recode_finish(&q.recode);
    llm_gguf_writer_destroy(q.out);
    llm_gguf_close(g);
    return status;
}
