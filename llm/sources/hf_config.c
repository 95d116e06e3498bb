#include "hf_config.h"

#include "../base/json.h"
#include "../base/str.h"
#include "hf_keys.h"
#include "hf_rope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        return llm_hf_bad_key(name, key, "a token id or a list of them");
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
        return llm_hf_bad_key(name, "architectures",
                              "a list with a name in it");
    return llm_arch_find_class(llm_str_show(llm_str_of(item)).text, name, arch,
                               class);
}

enum { KEY = 64 };

/* Of keys "a|b" the first that is there, or "" if none is. null: even if its
 * value is null. */
static void find_key(const llm_json *root, const char *keys, bool null,
                     char key[KEY])
{
    for (const char *at = keys; at && *at; at += *at == '|') {
        const size_t n = strcspn(at, "|");
        snprintf(key, KEY, "%.*s", (int)n, at);
        if (null ? llm_json_member(root, key) : llm_json_get(root, key))
            return;
        at += n;
    }
    key[0] = 0;
}

static clv_status check_activation(const llm_json *root, const llm_arch *arch,
                                   const char *name)
{
    const char *key =
        arch->activation_key ? arch->activation_key : "hidden_act";
    const llm_json *value = llm_json_get(root, key);
    const char *act = llm_json_text(value);
    const char *const *known = arch->activations;
    if (value && !act)
        return llm_hf_bad_key(name, key, "a name");
    while (act && *known && strcmp(act, *known))
        known++;
    if (!*known)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: %s '%s' is not supported; supported: %s", name,
                         key, llm_str_show(llm_str_of(act)).text,
                         arch->activations[0]);
    return CLV_OK;
}

/* The value of a key that is there. */
static clv_status parse_value(const llm_json *root, const llm_setting *s,
                              const char *key, const char *name, llm_hparams *h)
{
    uint32_t *field = llm_setting_field(s, h);
    bool truth = false;
    if (s->flags & LLM_SETTING_FLOAT)
        return llm_hf_opt_f32(root, key, name, (void *)field);
    if (!(s->flags & (LLM_SETTING_BOOL | LLM_SETTING_PRESENCE)))
        return llm_hf_opt_u32(root, key, name, field);
    CLV_TRY(llm_hf_opt_bool(root, key, name, &truth));
    *field = s->flags & LLM_SETTING_BOOL ? truth
             : truth                     ? LLM_ALWAYS
                                         : LLM_NEVER;
    return CLV_OK;
}

static clv_status parse_setting(const llm_json *root, const llm_class *class,
                                const llm_setting *s, const char *name,
                                llm_hparams *h)
{
    uint32_t *field = llm_setting_field(s, h);
    const bool has =
        s->hf && !(s->flags & LLM_SETTING_OF_CLASS & ~class->settings);
    char key[KEY] = "";
    find_key(root, has ? s->hf : NULL, false, key);
    if (s->flags & LLM_SETTING_REFUSED)
        return *key && !llm_json_is_false(llm_json_get(root, key))
                   ? clv_error(CLV_ERR_UNSUPPORTED, "%s: %s", name, s->what)
                   : CLV_OK;
    if (*key)
        return parse_value(root, s, key, name, h);
    if (has && s->flags & LLM_SETTING_HF)
        return llm_hf_need(root, s->hf, name);
    find_key(root, has ? s->hf : NULL, true, key);
    if (*key && s->flags & LLM_SETTING_NULL_0)
        *field = 0;
    if (s->absent)
        *field = s->absent(h);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Layers that differ                                                       */

/* "layer_types" lists the layers with a window, and those without. */
static clv_status parse_layer_types(const llm_json *root, const char *name,
                                    llm_hparams *h)
{
    const llm_json *list = llm_json_get(root, "layer_types");
    uint32_t i = 0;
    if (!list)
        return CLV_OK;
    if (!llm_json_is(list, LLM_JSON_ARRAY) ||
        llm_json_count(list) != h->n_layers)
        return llm_hf_bad_key(name, "layer_types",
                              "a list with a name for each layer");
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e); i++) {
        const char *type = llm_json_text(e.value);
        const bool full = type && !strcmp(type, "full_attention");
        if (!full && (!type || strcmp(type, "sliding_attention")))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: layer %u is of type '%s'; supported: "
                             "full_attention, sliding_attention",
                             name, i,
                             llm_str_show(llm_str_of(type ? type : "")).text);
        h->layers[i] &= (uint8_t)~LLM_LAYER_FULL;
        h->layers[i] |= full ? LLM_LAYER_FULL : 0;
    }
    return CLV_OK;
}

/* "mlp_only_layers" lists layers without experts. */
static clv_status parse_dense_layers(const llm_json *root, const char *name,
                                     llm_hparams *h)
{
    const llm_json *list = llm_json_get(root, "mlp_only_layers");
    if (list && !llm_json_is(list, LLM_JSON_ARRAY))
        return llm_hf_bad_key(name, "mlp_only_layers", "a list of layers");
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);) {
        uint64_t layer;
        if (!llm_json_u64(e.value, &layer))
            return llm_hf_bad_key(name, "mlp_only_layers", "a list of layers");
        if (layer < h->n_layers)
            h->layers[layer] |= LLM_LAYER_DENSE;
    }
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
    llm_hf_config c = {.hparams = class->defaults, .tied = class->tied};
    llm_hparams *h = &c.hparams;
    llm_hparams_start(h, arch);
    h->rope_mode = CLV_ROPE_HALVES;
    for (uint32_t i = 0; (s = llm_setting_at(arch, i)); i++)
        CLV_TRY(parse_setting(root, class, s, name, h));
    if (h->n_layers > LLM_MAX_LAYERS)
        return llm_hparams_check(h, name);
    CLV_TRY(llm_hf_rope_parse(root, name, h));
    llm_hparams_derive(h);
    if (class->settings & LLM_SETTING_LAYERS)
        CLV_TRY(parse_layer_types(root, name, h));
    CLV_TRY(parse_dense_layers(root, name, h));
    CLV_TRY(opt_token(root, "bos_token_id", name, &h->bos));
    CLV_TRY(opt_token(root, "eos_token_id", name, &h->eos));
    CLV_TRY(llm_hf_opt_bool(root, "tie_word_embeddings", name, &c.tied));
    CLV_TRY(llm_hparams_check(h, name));
    CLV_TRY(llm_hf_rope_factors(root, name, h, c.factors));
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
    clv_status status =
        load(dir, "generation_config.json", parse_generation, &config, &found);
    if (status) {
        llm_hf_config_finish(&config);
        return status;
    }
    *out = config;
    return CLV_OK;
}

void llm_hf_config_finish(llm_hf_config *config)
{
    free(config->factors[0]);
    free(config->factors[1]);
    *config = (llm_hf_config){0};
}
