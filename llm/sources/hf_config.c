#include "hf_config.h"

#include "../base/json.h"
#include "../base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static clv_status bad_key(const char *name, const char *key, const char *wanted)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: '%s' must be %s; correct the file or download it "
                     "again",
                     name, key, wanted);
}

/* Absent: *out keeps its value. */
static clv_status opt_u32(const llm_json *object, const char *key,
                          const char *name, uint32_t *out)
{
    uint64_t value;
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > UINT32_MAX)
        return bad_key(name, key, "a whole number below 2^32");
    *out = (uint32_t)value;
    return CLV_OK;
}

static clv_status need(const llm_json *object, const char *key,
                       const char *name)
{
    if (llm_json_get(object, key))
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT, "%s: has no '%s'; download it again", name,
                     key);
}

static clv_status opt_f32(const llm_json *object, const char *key,
                          const char *name, float *out)
{
    double value;
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_number(item, &value) || !(fabs(value) <= 3e38))
        return bad_key(name, key, "a number");
    *out = (float)value;
    return CLV_OK;
}

static clv_status opt_bool(const llm_json *object, const char *key,
                           const char *name, bool *out)
{
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_is(item, LLM_JSON_BOOL))
        return bad_key(name, key, "true or false");
    *out = llm_json_is_true(item);
    return CLV_OK;
}

/* A token id, or the first one of a list. */
static clv_status opt_token(const llm_json *object, const char *key,
                            const char *name, int32_t *out)
{
    uint64_t value;
    const llm_json *item = llm_json_get(object, key);
    if (llm_json_is(item, LLM_JSON_ARRAY))
        item = llm_json_at(item, 0);
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > INT32_MAX)
        return bad_key(name, key, "a token id or a list of them");
    *out = (int32_t)value;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status find_class(const llm_json *root, const char *name,
                             const llm_arch **arch, const llm_class **class)
{
    const llm_json *list = llm_json_get(root, "architectures");
    const char *item = llm_json_text(
        llm_json_is(list, LLM_JSON_ARRAY) ? llm_json_at(list, 0) : NULL);
    if (!item)
        return bad_key(name, "architectures", "a list with a name in it");
    return llm_arch_find_class(llm_str_show(llm_str_of(item)).text, name, arch,
                               class);
}

static clv_status check_activation(const llm_json *root, const llm_arch *arch,
                                   const char *name)
{
    const llm_json *value = llm_json_get(root, "hidden_act");
    const char *act = llm_json_text(value);
    const char *const *known = arch->activations;
    if (value && !act)
        return bad_key(name, "hidden_act", "a name");
    while (act && *known && strcmp(act, *known))
        known++;
    if (!*known)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: hidden_act '%s' is not supported; supported: %s",
                         name, llm_str_show(llm_str_of(act)).text,
                         arch->activations[0]);
    return CLV_OK;
}

static const char *rope_type(const llm_json *rope)
{
    const llm_json *type = llm_json_get(rope, "rope_type");
    if (!type)
        type = llm_json_get(rope, "type");
    const char *text = llm_json_text(type);
    return text ? text : "default";
}

static clv_status parse_llama3(const llm_json *rope, const char *name,
                               llm_hparams *h)
{
    h->rope_low_freq_factor = 1;
    h->rope_high_freq_factor = 4;
    CLV_TRY(opt_f32(rope, "low_freq_factor", name, &h->rope_low_freq_factor));
    CLV_TRY(opt_f32(rope, "high_freq_factor", name, &h->rope_high_freq_factor));
    CLV_TRY(need(rope, "original_max_position_embeddings", name));
    return opt_u32(rope, "original_max_position_embeddings", name,
                   &h->rope_original_ctx);
}

/* Older files: rope_theta and rope_scaling; newer: both in rope_parameters. */
static clv_status parse_rope(const llm_json *root, const char *name,
                             llm_hparams *h)
{
    const llm_json *rope = llm_json_get(root, "rope_parameters");
    if (!rope)
        rope = llm_json_get(root, "rope_scaling");
    if (rope && !llm_json_is(rope, LLM_JSON_OBJECT))
        return bad_key(name, "rope_scaling", "an object");
    CLV_TRY(opt_f32(rope, "rope_theta", name, &h->rope_base));
    const char *type = rope_type(rope);
    if (strcmp(type, "default") == 0)
        return CLV_OK;
    if (strcmp(type, "linear") == 0)
        h->rope_scaling = LLM_ROPE_LINEAR;
    else if (strcmp(type, "llama3") == 0)
        h->rope_scaling = LLM_ROPE_LLAMA3;
    else
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: rope_type '%s' is not supported; supported: "
                         "default, linear, llama3",
                         name, llm_str_show(llm_str_of(type)).text);
    if (!llm_json_get(rope, "factor"))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: the rotary scaling '%s' has no 'factor'; "
                         "download the file again",
                         name, type);
    CLV_TRY(opt_f32(rope, "factor", name, &h->rope_factor));
    return h->rope_scaling == LLM_ROPE_LLAMA3 ? parse_llama3(rope, name, h)
                                              : CLV_OK;
}

static clv_status parse_setting(const llm_json *root, const llm_class *class,
                                const llm_setting *s, const char *name,
                                llm_hparams *h)
{
    void *field = llm_setting_field(s, h);
    const bool has = !(s->flags & LLM_SETTING_OF_CLASS & ~class->settings);
    if (s->flags & LLM_SETTING_REFUSED) {
        const llm_json *item = llm_json_get(root, s->hf);
        return item && !llm_json_is_false(item)
                   ? clv_error(CLV_ERR_UNSUPPORTED, "%s: %s", name, s->what)
                   : CLV_OK;
    }
    if (s->hf && has) {
        if (s->flags & LLM_SETTING_HF)
            CLV_TRY(need(root, s->hf, name));
        if (llm_json_get(root, s->hf))
            return s->flags & LLM_SETTING_FLOAT
                       ? opt_f32(root, s->hf, name, field)
                       : opt_u32(root, s->hf, name, field);
        if (s->flags & LLM_SETTING_NULL_0 && llm_json_member(root, s->hf))
            *(uint32_t *)field = 0;
    }
    if (s->absent)
        *(uint32_t *)field = s->absent(h);
    return CLV_OK;
}

static clv_status parse(const llm_json *root, const char *name,
                        llm_hf_config *out)
{
    const llm_arch *arch;
    const llm_class *class;
    const llm_setting *s;
    CLV_TRY(find_class(root, name, &arch, &class));
    CLV_TRY(check_activation(root, arch, name));
    llm_hf_config c = {.hparams = class->defaults};
    llm_hparams *h = &c.hparams;
    llm_hparams_start(h, arch);
    h->rope_mode = CLV_ROPE_HALVES;
    for (uint32_t i = 0; (s = llm_setting_at(arch, i)); i++)
        CLV_TRY(parse_setting(root, class, s, name, h));
    CLV_TRY(parse_rope(root, name, h));
    CLV_TRY(opt_token(root, "bos_token_id", name, &h->bos));
    CLV_TRY(opt_token(root, "eos_token_id", name, &h->eos));
    CLV_TRY(opt_bool(root, "tie_word_embeddings", name, &c.tied));
    CLV_TRY(llm_hparams_check(h, name));
    *out = c;
    return CLV_OK;
}

clv_status llm_hf_config_parse(const void *json, uint64_t size,
                               const char *name, llm_hf_config *out)
{
    llm_json *root = NULL;
    CLV_TRY(llm_json_parse(json, size, name, &root));
    clv_status status = parse(root, name, out);
    llm_json_free(root);
    return status;
}

static clv_status parse_generation(const llm_json *root, const char *name,
                                   llm_hf_config *c)
{
    if (c->hparams.bos < 0)
        CLV_TRY(opt_token(root, "bos_token_id", name, &c->hparams.bos));
    if (c->hparams.eos < 0)
        CLV_TRY(opt_token(root, "eos_token_id", name, &c->hparams.eos));
    return CLV_OK;
}

typedef clv_status (*parse_fn)(const llm_json *root, const char *name,
                               llm_hf_config *out);

/* Parses DIR/FILE; *found is false if there is none. */
static clv_status load(const char *dir, const char *file, parse_fn parse_root,
                       llm_hf_config *out, bool *found)
{
    llm_json *root;
    CLV_TRY(llm_json_load_in(dir, file, &root));
    *found = root;
    if (!root)
        return CLV_OK;
    char *path = llm_path_join(dir, file);
    clv_status status = path ? parse_root(root, path, out) : CLV_ERR_NO_MEMORY;
    free(path);
    llm_json_free(root);
    return status;
}

clv_status llm_hf_config_load(const char *dir, llm_hf_config *out)
{
    llm_hf_config config = {0};
    bool found;
    CLV_TRY(load(dir, "config.json", parse, &config, &found));
    if (!found)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "%s: holds no config.json; give the directory of a "
                         "Hugging Face model or a GGUF file",
                         dir);
    CLV_TRY(
        load(dir, "generation_config.json", parse_generation, &config, &found));
    *out = config;
    return CLV_OK;
}
