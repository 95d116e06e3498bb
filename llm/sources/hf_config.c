#include "hf_config.h"

#include "../base/json.h"
#include "../base/str.h"
#include "hf_keys.h"
#include "hf_rope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token id, or the first one of a list. */
static clv_status opt_token(const cJSON *object, const char *key,
                            const char *name, int32_t *out)
{
    uint64_t value;
    const cJSON *item = llm_json_get(object, key);
    if (cJSON_IsArray(item))
        item = item->child;
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > INT32_MAX)
        return llm_hf_bad_key(name, key, "a token id or a list of them");
    *out = (int32_t)value;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status find_class(const cJSON *root, const char *name,
                             const llm_arch **arch, const llm_class **class)
{
    const cJSON *list = llm_json_get(root, "architectures");
    const cJSON *item = cJSON_IsArray(list) ? list->child : NULL;
    if (!cJSON_IsString(item))
        return llm_hf_bad_key(name, "architectures",
                              "a list with a name in it");
    return llm_arch_find_class(llm_str_show(llm_str_of(item->valuestring)).text,
                               name, arch, class);
}

/* The value of a key, or of the first that is there of "a|b". */
static const cJSON *get_any(const cJSON *root, const char *keys, bool null)
{
    for (const char *at = keys; *at; at += *at == '|') {
        char key[64];
        const size_t n = strcspn(at, "|");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        const cJSON *item = null ? cJSON_GetObjectItemCaseSensitive(root, key)
                                 : llm_json_get(root, key);
        if (item)
            return item;
        at += n;
    }
    return NULL;
}

static clv_status check_activation(const cJSON *root, const llm_arch *arch,
                                   const char *name)
{
    const char *key =
        arch->activation_key ? arch->activation_key : "hidden_act";
    const cJSON *act = llm_json_get(root, key);
    const char *const *known = arch->activations;
    if (act && !cJSON_IsString(act))
        return llm_hf_bad_key(name, key, "a name");
    while (act && *known && strcmp(act->valuestring, *known))
        known++;
    if (!*known)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: %s '%s' is not supported; supported: %s", name,
                         key, llm_str_show(llm_str_of(act->valuestring)).text,
                         arch->activations[0]);
    return CLV_OK;
}

static clv_status parse_setting(const cJSON *root, const llm_class *class,
                                const llm_setting *s, const char *name,
                                llm_hparams *h)
{
    uint32_t *field = llm_setting_field(s, h);
    const bool has = !(s->flags & LLM_SETTING_OF_CLASS & ~class->settings);
    const cJSON *item = s->hf && has ? get_any(root, s->hf, false) : NULL;
    bool truth = false;
    if (s->flags & LLM_SETTING_REFUSED)
        return item && !cJSON_IsFalse(item)
                   ? clv_error(CLV_ERR_UNSUPPORTED, "%s: %s", name, s->what)
                   : CLV_OK;
    if (!item && s->hf && has && s->flags & LLM_SETTING_HF)
        return llm_hf_need(root, s->hf, name);
    if (item && s->flags & (LLM_SETTING_BOOL | LLM_SETTING_PRESENCE)) {
        CLV_TRY(llm_hf_opt_bool(root, item->string, name, &truth));
        *field = s->flags & LLM_SETTING_BOOL ? truth
                 : truth                     ? LLM_ALWAYS
                                             : LLM_NEVER;
        return CLV_OK;
    }
    if (item)
        return s->flags & LLM_SETTING_FLOAT
                   ? llm_hf_opt_f32(root, item->string, name, (void *)field)
                   : llm_hf_opt_u32(root, item->string, name, field);
    if (s->flags & LLM_SETTING_NULL_0 && s->hf && has &&
        get_any(root, s->hf, true))
        *field = 0;
    if (s->absent)
        *field = s->absent(h);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Layers that differ                                                       */

/* "layer_types" lists the layers with a window, and those without. */
static clv_status parse_layer_types(const cJSON *root, const char *name,
                                    llm_hparams *h)
{
    const cJSON *list = llm_json_get(root, "layer_types");
    uint32_t i = 0;
    if (!list)
        return CLV_OK;
    for (const cJSON *t = list->child; t && i < h->n_layers; t = t->next, i++) {
        const char *text = cJSON_IsString(t) ? t->valuestring : "";
        const bool full = !strcmp(text, "full_attention");
        if (!full && strcmp(text, "sliding_attention"))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: layer %u is of type '%s'; supported: "
                             "full_attention, sliding_attention",
                             name, i, llm_str_show(llm_str_of(text)).text);
        h->layers[i] &= (uint8_t)~LLM_LAYER_FULL;
        h->layers[i] |= full ? LLM_LAYER_FULL : 0;
    }
    if (i != h->n_layers || cJSON_GetArraySize(list) != (int)i)
        return llm_hf_bad_key(name, "layer_types",
                              "a list with a name for each layer");
    return CLV_OK;
}

/* "mlp_only_layers" lists layers without experts. */
static clv_status parse_dense_layers(const cJSON *root, const char *name,
                                     llm_hparams *h)
{
    const cJSON *list = llm_json_get(root, "mlp_only_layers");
    if (list && !cJSON_IsArray(list))
        return llm_hf_bad_key(name, "mlp_only_layers", "a list of layers");
    for (const cJSON *t = list ? list->child : NULL; t; t = t->next) {
        uint64_t layer;
        if (!llm_json_u64(t, &layer))
            return llm_hf_bad_key(name, "mlp_only_layers", "a list of layers");
        if (layer < h->n_layers)
            h->layers[layer] |= LLM_LAYER_DENSE;
    }
    return CLV_OK;
}

static clv_status parse(const cJSON *root, const char *name, llm_hf_config *out)
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
    cJSON *root = NULL;
    CLV_TRY(llm_json_parse(json, size, name, &root));
    clv_status status = parse(root, name, out);
    cJSON_Delete(root);
    return status;
}

static clv_status parse_generation(const cJSON *root, const char *name,
                                   llm_hf_config *c)
{
    if (c->hparams.bos < 0)
        CLV_TRY(opt_token(root, "bos_token_id", name, &c->hparams.bos));
    if (c->hparams.eos < 0)
        CLV_TRY(opt_token(root, "eos_token_id", name, &c->hparams.eos));
    return CLV_OK;
}

typedef clv_status (*parse_fn)(const cJSON *root, const char *name,
                               llm_hf_config *out);

/* Parses DIR/FILE; *found is false if there is none. */
static clv_status load(const char *dir, const char *file, parse_fn parse_root,
                       llm_hf_config *out, bool *found)
{
    cJSON *root;
    CLV_TRY(llm_json_load_in(dir, file, &root));
    *found = root;
    if (!root)
        return CLV_OK;
    char *path = llm_path_join(dir, file);
    clv_status status = path ? parse_root(root, path, out) : CLV_ERR_NO_MEMORY;
    free(path);
    cJSON_Delete(root);
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
