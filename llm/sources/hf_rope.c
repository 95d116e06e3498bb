#include "hf_rope.h"

#include "../base/str.h"
#include "hf_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Older files: rope_theta and rope_scaling; newer: both in rope_parameters. */
static const llm_json *rope_object(const llm_json *root)
{
    const llm_json *rope = llm_json_get(root, "rope_scaling");
    return rope ? rope : llm_json_get(root, "rope_parameters");
}

static const char *type_of(const llm_json *rope)
{
    const llm_json *type = llm_json_get(rope, "rope_type");
    if (!type)
        type = llm_json_get(rope, "type");
    const char *text = llm_json_text(type);
    return text ? text : "default";
}

static clv_status find_scaling(const llm_json *rope, const char *name,
                               llm_hparams *h)
{
    static const struct {
        const char *name;
        uint32_t scaling;
    } types[] = {
        {"default", LLM_ROPE_NONE},    {"linear", LLM_ROPE_LINEAR},
        {"llama3", LLM_ROPE_LLAMA3},   {"yarn", LLM_ROPE_YARN},
        {"longrope", LLM_ROPE_LONG},   {"su", LLM_ROPE_LONG},
        {"dynamic", LLM_ROPE_DYNAMIC},
    };
    const char *type = type_of(rope);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].name)) {
            h->rope_scaling = types[i].scaling;
            if (h->arch->long_rope && h->rope_scaling == LLM_ROPE_YARN)
                h->rope_scaling = LLM_ROPE_LONG;
            return CLV_OK;
        }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: rope_type '%s' is not supported; supported: default, "
                     "linear, llama3, yarn, longrope, dynamic",
                     name, llm_str_show(llm_str_of(type)).text);
}

/* Where neither the model nor the scaling names the original context, it is the
 * whole one. */
static clv_status parse_original_ctx(const llm_json *root, const llm_json *rope,
                                     const char *name, llm_hparams *h)
{
    static const char key[] = "original_max_position_embeddings";
    if (h->rope_scaling == LLM_ROPE_LLAMA3 && !llm_json_get(root, key))
        CLV_TRY(llm_hf_need(rope, key, name));
    if (!h->rope_original_ctx) {
        h->rope_original_ctx = h->n_ctx_train;
        CLV_TRY(llm_hf_opt_u32(rope, key, name, &h->rope_original_ctx));
    }
    return llm_hf_opt_u32(root, key, name, &h->rope_original_ctx);
}

static clv_status parse_llama3(const llm_json *rope, const char *name,
                               llm_hparams *h)
{
    h->rope_low_freq_factor = 1;
    h->rope_high_freq_factor = 4;
    CLV_TRY(llm_hf_opt_f32(rope, "low_freq_factor", name,
                           &h->rope_low_freq_factor));
    return llm_hf_opt_f32(rope, "high_freq_factor", name,
                          &h->rope_high_freq_factor);
}

static double mscale(double factor, double weight)
{
    return factor > 1 ? 0.1 * weight * log(factor) + 1 : 1;
}

static clv_status parse_yarn(const llm_json *rope, const char *name,
                             llm_hparams *h)
{
    float part = 0, whole = 0;
    bool truncate = true;
    h->rope_beta_fast = 32;
    h->rope_beta_slow = 1;
    CLV_TRY(llm_hf_opt_f32(rope, "beta_fast", name, &h->rope_beta_fast));
    CLV_TRY(llm_hf_opt_f32(rope, "beta_slow", name, &h->rope_beta_slow));
    CLV_TRY(llm_hf_opt_f32(rope, "mscale", name, &part));
    CLV_TRY(llm_hf_opt_f32(rope, "mscale_all_dim", name, &whole));
    CLV_TRY(llm_hf_opt_bool(rope, "truncate", name, &truncate));
    h->rope_unrounded = !truncate;
    h->rope_attn_factor =
        (float)(part != 0 && whole != 0 ? mscale(h->rope_factor, part) /
                                              mscale(h->rope_factor, whole)
                                        : mscale(h->rope_factor, 1));
    return llm_hf_opt_f32(rope, "attention_factor", name, &h->rope_attn_factor);
}

static clv_status parse_long(const llm_json *rope, const char *name,
                             llm_hparams *h)
{
    const double original = h->rope_original_ctx;
    double factor = original ? h->n_ctx_train / original : 0;
    if (llm_json_get(rope, "factor"))
        factor = (double)h->rope_factor;
    h->rope_attn_factor = factor > 1 && original > 1
                              ? (float)sqrt(1 + log(factor) / log(original))
                              : 1;
    CLV_TRY(
        llm_hf_opt_f32(rope, "attention_factor", name, &h->rope_attn_factor));
    return llm_hf_opt_f32(rope, "short_mscale", name, &h->rope_attn_factor);
}

static clv_status parse_share(const llm_json *rope, const char *name,
                              llm_hparams *h)
{
    float share = h->rope_share ? h->rope_share : 1;
    CLV_TRY(llm_hf_opt_f32(rope, "partial_rotary_factor", name, &share));
    if (share == 1 || h->arch->partial_rope) {
        h->rope_share = share;
        return CLV_OK;
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: partial_rotary_factor %g in a model of architecture "
                     "'%s' is not supported; supported: 1",
                     name, (double)share, h->arch->name);
}

static clv_status parse_one(const llm_json *root, const llm_json *rope,
                            const char *name, llm_hparams *h)
{
    CLV_TRY(llm_hf_opt_f32(rope, "rope_theta", name, &h->rope_base));
    CLV_TRY(parse_share(rope, name, h));
    CLV_TRY(find_scaling(rope, name, h));
    if (h->rope_scaling == LLM_ROPE_NONE || h->rope_scaling == LLM_ROPE_DYNAMIC)
        return CLV_OK;
    CLV_TRY(parse_original_ctx(root, rope, name, h));
    CLV_TRY(llm_hf_opt_f32(rope, "factor", name, &h->rope_factor));
    if (h->rope_scaling == LLM_ROPE_LONG)
        return parse_long(rope, name, h);
    if (!llm_json_get(rope, "factor"))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: the rotary scaling '%s' has no 'factor'; "
                         "download the file again",
                         name, type_of(rope));
    return h->rope_scaling == LLM_ROPE_LLAMA3 ? parse_llama3(rope, name, h)
           : h->rope_scaling == LLM_ROPE_YARN ? parse_yarn(rope, name, h)
                                              : CLV_OK;
}

clv_status llm_hf_rope_parse(const llm_json *root, const char *name,
                             llm_hparams *h)
{
    const llm_json *rope = rope_object(root);
    if (rope && !llm_json_is(rope, LLM_JSON_OBJECT))
        return llm_hf_bad_key(name, "rope_scaling", "an object");
    const llm_json *full = llm_json_get(rope, "full_attention");
    const llm_json *local = llm_json_get(rope, "sliding_attention");
    if (!full && !local)
        return parse_one(root, rope, name, h);
    if (!h->rope_local_base)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: rope_parameters for each type of layer in a "
                         "model of architecture '%s' are not supported",
                         name, h->arch->name);
    if (strcmp(type_of(local), "default"))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: rope_type '%s' of layers with a window is not "
                         "supported; supported: default",
                         name, llm_str_show(llm_str_of(type_of(local))).text);
    CLV_TRY(llm_hf_opt_f32(local, "rope_theta", name, &h->rope_local_base));
    return parse_one(root, full, name, h);
}

static clv_status read_factors(const llm_json *list, const char *name,
                               const char *key, uint32_t n, float **out)
{
    if (!llm_json_is(list, LLM_JSON_ARRAY) || llm_json_count(list) != n)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' must be a list of %u numbers; correct the "
                         "file or download it again",
                         name, key, n);
    float *all = calloc(n, sizeof *all);
    *out = all;
    if (!all)
        return llm_no_memory(name);
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);) {
        double value = 0;
        if (!llm_json_number(e.value, &value) || !((float)value > 0) ||
            !isfinite((float)value))
            return llm_hf_bad_key(name, key, "a list of numbers above 0");
        *all++ = (float)value;
    }
    return CLV_OK;
}

clv_status llm_hf_rope_factors(const llm_json *root, const char *name,
                               const llm_hparams *h, float *out[2])
{
    static const char *const keys[] = {"short_factor", "long_factor"};
    const llm_json *rope = rope_object(root);
    for (uint32_t i = 0; i < 2 && h->rope_scaling == LLM_ROPE_LONG; i++) {
        clv_status status = read_factors(llm_json_get(rope, keys[i]), name,
                                         keys[i], h->rope_dim / 2, &out[i]);
        if (status) {
            free(out[0]);
            free(out[1]);
            out[0] = out[1] = NULL;
            return status;
        }
    }
    return CLV_OK;
}
