#include "gguf.h"

#include "../files/gguf_kv.h"
#include "../files/gguf_types.h"
#include "../quantize/names.h"
#include "../tokenizer/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_source {
    llm_source base;
    llm_gguf *gguf;
    llm_str *int4; /* names of matrices that hold two numbers a byte */
    uint64_t n_int4;
    bool *used; /* of its tensors */
} gguf_source;

static clv_status load_setting(const llm_gguf *g, const llm_setting *s,
                               llm_hparams *h)
{
    void *field = llm_setting_field(s, h);
    if (!s->gguf)
        return CLV_OK;
    const llm_gguf_key key = llm_gguf_key_of(h->arch, s->gguf);
    if (llm_gguf_has(g, key.text) && s->flags & LLM_SETTING_BOOL) {
        bool truth = false;
        CLV_TRY(llm_gguf_get_bool(g, key.text, &truth));
        *(uint32_t *)field = truth;
        return CLV_OK;
    }
    if (llm_gguf_has(g, key.text) || s->flags & LLM_SETTING_GGUF)
        return s->flags & LLM_SETTING_FLOAT
                   ? llm_gguf_get_f32(g, key.text, field)
                   : llm_gguf_get_u32(g, key.text, field);
    if (s->absent)
        *(uint32_t *)field = s->absent(h);
    return CLV_OK;
}

/* By the rows of the embedding: the key is missing in many files. */
static clv_status load_vocab(const llm_gguf *g, llm_hparams *h)
{
    const llm_gguf_tensor *embd = llm_gguf_find(g, "token_embd.weight");
    if (!embd)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: has no tensor 'token_embd.weight'; if it is a "
                         "vocabulary only, use the model's file",
                         llm_gguf_path(g));
    if (embd->rank != 2 || embd->dims[0] > LLM_MAX_VOCAB)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: tensor 'token_embd.weight' is not a matrix of "
                         "at most %d rows; convert the model again",
                         llm_gguf_path(g), LLM_MAX_VOCAB);
    h->n_vocab = (uint32_t)embd->dims[0];
    return CLV_OK;
}

static clv_status load_yarn(const llm_gguf *g, llm_hparams *h)
{
    const llm_gguf_key fast =
        llm_gguf_key_of(h->arch, "rope.scaling.beta_fast");
    const llm_gguf_key slow =
        llm_gguf_key_of(h->arch, "rope.scaling.beta_slow");
    h->rope_scaling = LLM_ROPE_YARN;
    h->rope_beta_fast = 32;
    h->rope_beta_slow = 1;
    CLV_TRY(llm_gguf_opt(get_f32, g, fast.text, &h->rope_beta_fast));
    return llm_gguf_opt(get_f32, g, slow.text, &h->rope_beta_slow);
}

static clv_status load_scaling(const llm_gguf *g, llm_hparams *h)
{
    llm_str type = llm_str_of("linear");
    const llm_gguf_key old = llm_gguf_key_of(h->arch, "rope.scale_linear");
    const llm_gguf_key factor = llm_gguf_key_of(h->arch, "rope.scaling.factor");
    const llm_gguf_key kind = llm_gguf_key_of(h->arch, "rope.scaling.type");
    const llm_gguf_key attn =
        llm_gguf_key_of(h->arch, "rope.scaling.attn_factor");
    const llm_gguf_key original =
        llm_gguf_key_of(h->arch, "rope.scaling.original_context_length");
    h->rope_factor = 1;
    h->rope_original_ctx = h->n_ctx_train;
    CLV_TRY(llm_gguf_opt(get_f32, g, old.text, &h->rope_factor));
    CLV_TRY(llm_gguf_opt(get_f32, g, factor.text, &h->rope_factor));
    CLV_TRY(llm_gguf_opt(get_str, g, kind.text, &type));
    CLV_TRY(llm_gguf_opt(get_f32, g, attn.text, &h->rope_attn_factor));
    CLV_TRY(llm_gguf_opt(get_u32, g, original.text, &h->rope_original_ctx));
    if (llm_gguf_find(g, "rope_factors_long.weight")) {
        h->rope_scaling = LLM_ROPE_LONG;
        return CLV_OK;
    }
    if (llm_str_equal(type, llm_str_of("none")))
        return CLV_OK;
    if (llm_str_equal(type, llm_str_of("yarn"))) {
        CLV_TRY(load_yarn(g, h));
        h->rope_attn_factor = llm_rope_yarn_factor(h, h->rope_attn_factor);
        return CLV_OK;
    }
    if (!llm_str_equal(type, llm_str_of("linear")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: rotary scaling '%s' is not supported; supported: "
                         "none, linear, yarn, llama3's rope_freqs.weight, "
                         "rope_factors_long.weight",
                         llm_gguf_path(g), llm_str_show(type).text);
    if (h->rope_factor != 1 && h->rope_factor != 0)
        h->rope_scaling = LLM_ROPE_LINEAR;
    return CLV_OK;
}

/* Which layers have a window: a period, or for each layer whether it has. */
static clv_status load_layers(const llm_gguf *g, llm_hparams *h)
{
    const llm_gguf_key pattern =
        llm_gguf_key_of(h->arch, "attention.sliding_window_pattern");
    llm_gguf_array list;
    llm_hparams_derive(h);
    if (!llm_gguf_has(g, pattern.text))
        return CLV_OK;
    if (llm_gguf_get_bools(g, pattern.text, &list)) {
        CLV_TRY(llm_gguf_get_u32(g, pattern.text, &h->window_period));
        for (uint32_t i = 0; i < h->n_layers; i++)
            h->layers[i] &= (uint8_t)~LLM_LAYER_FULL;
        llm_hparams_derive(h);
        return CLV_OK;
    }
    if (list.count != h->n_layers)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' has %" PRIu64 " entries for %" PRIu32
                         " layers; convert the model again",
                         llm_gguf_path(g), pattern.text, list.count,
                         h->n_layers);
    for (uint32_t i = 0; i < h->n_layers; i++) {
        h->layers[i] &= (uint8_t)~LLM_LAYER_FULL;
        h->layers[i] |= list.data[i] ? 0 : LLM_LAYER_FULL;
    }
    return CLV_OK;
}

/* The factor of q.k, which is the root of a number in other files. */
static clv_status load_attention_scale(const llm_gguf *g, llm_hparams *h)
{
    const llm_gguf_key key = llm_gguf_key_of(h->arch, "attention.scale");
    float scale = 0;
    CLV_TRY(llm_gguf_opt(get_f32, g, key.text, &scale));
    if (scale != 0)
        h->query_scalar = 1 / (scale * scale);
    return CLV_OK;
}

static clv_status load_hparams(const llm_gguf *g, llm_hparams *h)
{
    const llm_arch *arch;
    const llm_setting *s;
    llm_str name;
    CLV_TRY(llm_gguf_get_str(g, "general.architecture", &name));
    CLV_TRY(llm_arch_find(llm_str_show(name).text, llm_gguf_path(g), &arch));
    *h = arch->defaults;
    llm_hparams_start(h, arch);
    h->rope_mode = arch->gguf_rope;
    for (uint32_t i = 0; (s = llm_setting_at(arch, i)); i++)
        CLV_TRY(load_setting(g, s, h));
    CLV_TRY(load_vocab(g, h));
    if (h->n_layers > LLM_MAX_LAYERS)
        return llm_hparams_check(h, llm_gguf_path(g));
    CLV_TRY(load_scaling(g, h));
    CLV_TRY(load_attention_scale(g, h));
    CLV_TRY(load_layers(g, h));
    CLV_TRY(llm_gguf_opt(get_i32, g, "tokenizer.ggml.bos_token_id", &h->bos));
    CLV_TRY(llm_gguf_opt(get_i32, g, "tokenizer.ggml.eos_token_id", &h->eos));
    name = (llm_str){"", 0};
    CLV_TRY(llm_gguf_opt(get_str, g, "general.name", &name));
    snprintf(h->name, sizeof h->name, "%s", llm_str_show(name).text);
    return llm_hparams_check(h, llm_gguf_path(g));
}

/* Here, and not when a tensor is asked for, so that the error comes at once and
 * with its remedy. */
static clv_status check_types(const llm_gguf *g)
{
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        if (t->dtype == CLV_DTYPE_NONE)
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: tensor '%s' has type %s, supported: %s; use "
                             "a file of the model in one of these",
                             llm_gguf_path(g), llm_str_show(t->name).text,
                             llm_gguf_type_name(t->type),
                             llm_gguf_supported_types().text);
    }
    return CLV_OK;
}

static void mark_used(gguf_source *s, const llm_gguf_tensor *t)
{
    s->used[t - llm_gguf_tensor_at(s->gguf, 0)] = true;
}

/* The tensor beside t, of `suffix` in place of "weight"; NULL if there is none
 * of that type. */
static const llm_gguf_tensor *beside(gguf_source *s, const llm_gguf_tensor *t,
                                     const char *suffix, uint32_t dtype)
{
    char name[LLM_SCALE_NAME];
    const llm_gguf_tensor *found = llm_scale_name(t->name, suffix, name)
                                       ? llm_gguf_find(s->gguf, name)
                                       : NULL;
    if (!found || found->dtype != dtype)
        return NULL;
    mark_used(s, found);
    return found;
}

static bool is_int4(const gguf_source *s, llm_str name)
{
    for (uint64_t i = 0; i < s->n_int4; i++)
        if (llm_str_equal(s->int4[i], name))
            return true;
    return false;
}

static bool are_channels(const int32_t *ids, uint64_t n, int64_t columns)
{
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= columns)
            return false;
    return true;
}

/* What outliers are multiplied with, as names.h says. */
static clv_status find_outliers(gguf_source *s, const llm_gguf_tensor *t,
                                llm_source_tensor *out)
{
    const llm_gguf_tensor *w = beside(s, t, LLM_OUTLIERS, CLV_DTYPE_F16);
    const llm_gguf_tensor *list =
        beside(s, t, LLM_OUTLIER_CHANNELS, CLV_DTYPE_I32);
    const int64_t rows = out->dims[0], columns = out->dims[1];
    if (!w && !list)
        return CLV_OK;
    const int32_t *ids = list ? (const void *)list->data : NULL;
    if (!w || w->rank != 2 || w->dims[0] != columns || w->dims[1] != rows ||
        !ids || list->rank != 1 || list->dims[0] < 1 || ids[0] < 1 ||
        ids[0] > columns ||
        !are_channels(ids + 1, (uint64_t)list->dims[0] - 1, columns))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: beside '%s' there must be '%s' of shape "
                         "[columns, rows] in f16 and '%s' in i32, a number of "
                         "channels and channels of %" PRId64
                         "; make the file again with cleave quantize",
                         llm_gguf_path(s->gguf), llm_str_show(t->name).text,
                         LLM_OUTLIERS, LLM_OUTLIER_CHANNELS, columns);
    out->outliers = w->data;
    out->outlier_row = (uint64_t)rows;
    out->outlier_bound = (uint32_t)ids[0];
    out->hot = ids + 1;
    out->n_hot = (uint64_t)list->dims[0] - 1;
    return CLV_OK;
}

/* Integers with their scales, as names.h says. */
static clv_status find_scales(gguf_source *s, const llm_gguf_tensor *t,
                              llm_source_tensor *out)
{
    const llm_gguf_tensor *scales = beside(s, t, "scale", CLV_DTYPE_F32);
    const llm_gguf_tensor *input = beside(s, t, "input_scale", CLV_DTYPE_F32);
    const int64_t rows = t->dims[0];
    if (is_int4(s, t->name)) {
        out->dtype = CLV_DTYPE_I4;
        out->dims[t->rank - 1] *= 2;
    }
    const int64_t columns = out->dims[1];
    const int64_t groups = scales && scales->rank == 2 ? scales->dims[1] : 1;
    if (t->rank != 2 || !scales || scales->rank > 2 ||
        (scales->dims[0] != rows &&
         (scales->dims[0] != 1 || scales->rank > 1)) ||
        columns % groups)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: integers '%s' have no f32 scales beside them, of "
                         "shape [1], [rows] or [rows, groups]; make the file "
                         "again with cleave quantize",
                         llm_gguf_path(s->gguf), llm_str_show(t->name).text);
    out->quant = scales->rank == 2         ? CLV_QUANT_PER_GROUP
                 : scales->dims[0] == rows ? CLV_QUANT_PER_CHANNEL
                                           : CLV_QUANT_PER_TENSOR;
    out->group = scales->rank == 2 ? (uint32_t)(columns / groups) : 0;
    out->scales = scales->data;
    out->n_scales = (uint64_t)(scales->dims[0] * groups);
    if (!input)
        return CLV_OK;
    memcpy(&out->input_scale, input->data, sizeof out->input_scale);
    if (out->input_scale > 0 && out->input_scale < INFINITY)
        return find_outliers(s, t, out);
    return clv_error(CLV_ERR_FORMAT,
                     "%s: the input scale of '%s' is %g, wanted is a positive "
                     "number; make the file again with cleave quantize",
                     llm_gguf_path(s->gguf), llm_str_show(t->name).text,
                     (double)out->input_scale);
}

static clv_status check_all_used(const llm_source *base)
{
    const gguf_source *s = (const gguf_source *)base;
    const llm_hparams *h = &base->hparams;
    for (uint64_t i = 0; i < llm_gguf_tensor_count(s->gguf); i++) {
        const llm_shown name =
            llm_str_show(llm_gguf_tensor_at(s->gguf, i)->name);
        if (!s->used[i] && !llm_arch_ignores(name.text))
            return clv_error(CLV_ERR_FORMAT,
                             "%s: tensor '%s' is no part of a model of "
                             "architecture '%s' with %" PRIu32
                             " layers; convert the model again",
                             llm_gguf_path(s->gguf), name.text, h->arch->name,
                             h->n_layers);
    }
    return CLV_OK;
}

static clv_status find(llm_source *base, const char *name,
                       llm_source_tensor *out)
{
    gguf_source *s = (gguf_source *)base;
    const llm_gguf_tensor *t = llm_gguf_find(s->gguf, name);
    if (!t)
        return CLV_ERR_NOT_FOUND;
    mark_used(s, t);
    *out = (llm_source_tensor){
        .dtype = t->dtype,
        .rank = t->rank,
        .data = t->data,
        .size = t->size,
    };
    memcpy(out->dims, t->dims, sizeof out->dims);
    return t->dtype == CLV_DTYPE_I8 ? find_scales(s, t, out) : CLV_OK;
}

/* Whether a file declares that it has no vocabulary. */
static bool has_no_vocab(const llm_gguf *g)
{
    llm_str model = {0};
    const char *key = "tokenizer.ggml.model";
    return llm_gguf_has(g, key) && !llm_gguf_get_str(g, key, &model) &&
           (llm_str_equal(model, llm_str_of("no_vocab")) ||
            llm_str_equal(model, llm_str_of("none")));
}

static clv_status tokenizer(llm_source *base, clv_tokenizer **out)
{
    gguf_source *s = (gguf_source *)base;
    *out = NULL;
    if (has_no_vocab(s->gguf))
        return CLV_OK;
    clv_status status = llm_tokenizer_from_gguf(s->gguf, out);
    return status == CLV_ERR_NOT_FOUND ? CLV_OK : status;
}

static clv_status each_map(const llm_source *base, llm_map_fn visit)
{
    return llm_gguf_each_map(((const gguf_source *)base)->gguf, visit);
}

static void destroy(llm_source *base)
{
    gguf_source *s = (gguf_source *)base;
    llm_gguf_close(s->gguf);
    free(s->int4);
    free(s->used);
    free(s);
}

clv_status llm_source_open_gguf(const char *path, llm_source **out)
{
    gguf_source *s = calloc(1, sizeof *s);
    if (!s)
        return llm_no_memory(path);
    s->base.find = find;
    s->base.tokenizer = tokenizer;
    s->base.check_all_used = check_all_used;
    s->base.each_map = each_map;
    s->base.destroy = destroy;
    clv_status status = llm_gguf_open(path, &s->gguf);
    if (status)
        goto failed;
    s->used = calloc(llm_gguf_tensor_count(s->gguf) + 1, sizeof *s->used);
    if (!s->used) {
        status = llm_no_memory(path);
        goto failed;
    }
    if (llm_gguf_has(s->gguf, LLM_INT4_KEY)) {
        status =
            llm_gguf_get_strings(s->gguf, LLM_INT4_KEY, &s->int4, &s->n_int4);
        if (status)
            goto failed;
    }
    status = load_hparams(s->gguf, &s->base.hparams);
    if (status)
        goto failed;
    status = check_types(s->gguf);
    if (status)
        goto failed;
    *out = &s->base;
    return CLV_OK;

failed:
    destroy(&s->base);
    return status;
}
