#include "hf_config.h"

#include "../models/hparams.h"
#include "../base/json.h"
#include "../base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A key that is null counts as absent. */
static const cJSON *get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static clv_status bad_key(const char *name, const char *key, const char *wanted)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: '%s' must be %s; correct the file or download it "
                     "again",
                     name, key, wanted);
}

/* Absent: *out keeps its value. */
static clv_status opt_u32(const cJSON *object, const char *key,
                          const char *name, uint32_t *out)
{
    uint64_t value;
    const cJSON *item = get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > UINT32_MAX)
        return bad_key(name, key, "a whole number below 2^32");
    *out = (uint32_t)value;
    return CLV_OK;
}

static clv_status need_u32(const cJSON *object, const char *key,
                           const char *name, uint32_t *out)
{
    if (!get(object, key))
        return clv_error(CLV_ERR_FORMAT, "%s: has no '%s'; download it again",
                         name, key);
    return opt_u32(object, key, name, out);
}

static clv_status opt_f32(const cJSON *object, const char *key,
                          const char *name, float *out)
{
    const cJSON *item = get(object, key);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 3e38))
        return bad_key(name, key, "a number");
    *out = (float)item->valuedouble;
    return CLV_OK;
}

static clv_status opt_bool(const cJSON *object, const char *key,
                           const char *name, bool *out)
{
    const cJSON *item = get(object, key);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsBool(item))
        return bad_key(name, key, "true or false");
    *out = cJSON_IsTrue(item);
    return CLV_OK;
}

/* A token id, or the first of a list of them. */
static clv_status opt_token(const cJSON *object, const char *key,
                            const char *name, int32_t *out)
{
    uint64_t value;
    const cJSON *item = get(object, key);
    if (cJSON_IsArray(item))
        item = item->child;
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > INT32_MAX)
        return bad_key(name, key, "a token id or a list of them");
    *out = (int32_t)value;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Values of keys that a file may leave out. */
typedef struct architecture {
    const char *name;
    uint32_t n_kv_heads; /* 0: as many as heads */
    uint32_t n_ctx_train;
    bool has_window;
    uint32_t sliding_window;
    uint32_t n_experts, n_experts_used; /* 0: dense */
} architecture;

static const architecture architectures[] = {
    {"LlamaForCausalLM", 0, 2048, false, 0, 0, 0},
    {"MistralForCausalLM", 8, 131072, true, 4096, 0, 0},
    {"MixtralForCausalLM", 8, 131072, true, 0, 8, 2},
};

static clv_status find_architecture(const cJSON *root, const char *name,
                                    const architecture **out)
{
    const cJSON *list = get(root, "architectures");
    const cJSON *item = cJSON_IsArray(list) ? list->child : NULL;
    if (!cJSON_IsString(item))
        return bad_key(name, "architectures", "a list with a name in it");
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0];
         i++) {
        if (strcmp(item->valuestring, architectures[i].name) == 0) {
            *out = &architectures[i];
            return CLV_OK;
        }
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: architecture '%s' is not supported; supported: "
                     "LlamaForCausalLM, MistralForCausalLM, "
                     "MixtralForCausalLM",
                     name, llm_str_show(llm_str_of(item->valuestring)).text);
}

static clv_status check_variant(const cJSON *root, const char *name)
{
    const cJSON *act = get(root, "hidden_act");
    if (act && !cJSON_IsString(act))
        return bad_key(name, "hidden_act", "a name");
    if (act && strcmp(act->valuestring, "silu") &&
        strcmp(act->valuestring, "swish"))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: hidden_act '%s' is not supported; supported: "
                         "silu",
                         name, llm_str_show(llm_str_of(act->valuestring)).text);
    if (get(root, "quantization_config"))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: quantised safetensors (quantization_config) are "
                         "not supported; use the F16, BF16 or F32 model, or a "
                         "GGUF file",
                         name);
    return CLV_OK;
}

static const char *rope_type(const cJSON *rope)
{
    const cJSON *type = get(rope, "rope_type");
    if (!type)
        type = get(rope, "type");
    return cJSON_IsString(type) ? type->valuestring : "default";
}

static clv_status parse_llama3(const cJSON *rope, const char *name,
                               llm_hparams *h)
{
    h->rope_low_freq_factor = 1;
    h->rope_high_freq_factor = 4;
    h->rope_original_ctx = h->n_ctx_train;
    clv_status status =
        opt_f32(rope, "low_freq_factor", name, &h->rope_low_freq_factor);
    if (!status)
        status =
            opt_f32(rope, "high_freq_factor", name, &h->rope_high_freq_factor);
    if (!status)
        status = need_u32(rope, "original_max_position_embeddings", name,
                          &h->rope_original_ctx);
    return status;
}

/* Older files: rope_theta and rope_scaling; newer: both in rope_parameters. */
static clv_status parse_rope(const cJSON *root, const char *name,
                             llm_hparams *h)
{
    const cJSON *rope = get(root, "rope_parameters");
    if (!rope)
        rope = get(root, "rope_scaling");
    if (rope && !cJSON_IsObject(rope))
        return bad_key(name, "rope_scaling", "an object");
    h->rope_base = 10000;
    clv_status status = opt_f32(root, "rope_theta", name, &h->rope_base);
    if (!status)
        status = opt_f32(rope, "rope_theta", name, &h->rope_base);
    if (status)
        return status;

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
    if (!get(rope, "factor"))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: the rotary scaling '%s' has no 'factor'; "
                         "download the file again",
                         name, type);
    status = opt_f32(rope, "factor", name, &h->rope_factor);
    if (!status && h->rope_scaling == LLM_ROPE_LLAMA3)
        status = parse_llama3(rope, name, h);
    return status;
}

/* null: none; absent: what the architecture has. */
static clv_status parse_window(const cJSON *root, const architecture *arch,
                               const char *name, llm_hparams *h)
{
    if (!arch->has_window)
        return CLV_OK;
    if (!cJSON_HasObjectItem(root, "sliding_window"))
        h->sliding_window = arch->sliding_window;
    return opt_u32(root, "sliding_window", name, &h->sliding_window);
}

static clv_status parse_experts(const cJSON *root, const architecture *arch,
                                const char *name, llm_hparams *h)
{
    h->n_experts = arch->n_experts;
    h->n_experts_used = arch->n_experts_used;
    if (!arch->n_experts)
        return CLV_OK;
    clv_status status = opt_u32(root, "num_local_experts", name, &h->n_experts);
    if (!status)
        status = opt_u32(root, "num_experts_per_tok", name, &h->n_experts_used);
    return status;
}

static clv_status parse_counts(const cJSON *root, const architecture *arch,
                               const char *name, llm_hparams *h)
{
    const struct {
        const char *key;
        uint32_t *out;
    } needed[] = {
        {"num_hidden_layers", &h->n_layers},  {"hidden_size", &h->n_embd},
        {"intermediate_size", &h->n_ff},      {"vocab_size", &h->n_vocab},
        {"num_attention_heads", &h->n_heads},
    };
    clv_status status = CLV_OK;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && !status; i++)
        status = need_u32(root, needed[i].key, name, needed[i].out);
    if (status)
        return status;
    h->n_kv_heads = arch->n_kv_heads ? arch->n_kv_heads : h->n_heads;
    h->head_dim = h->n_heads ? h->n_embd / h->n_heads : 0;
    h->n_ctx_train = arch->n_ctx_train;
    status = opt_u32(root, "num_key_value_heads", name, &h->n_kv_heads);
    if (!status)
        status = opt_u32(root, "head_dim", name, &h->head_dim);
    if (!status)
        status =
            opt_u32(root, "max_position_embeddings", name, &h->n_ctx_train);
    if (!status)
        status = parse_window(root, arch, name, h);
    if (!status)
        status = parse_experts(root, arch, name, h);
    h->rope_dim = h->head_dim;
    return status;
}

static clv_status parse(const cJSON *root, const char *name, llm_hf_config *out)
{
    llm_hf_config c = {0};
    llm_hparams *h = &c.hparams;
    strcpy(h->architecture, "llama");
    h->rope_mode = CLV_ROPE_HALVES;
    h->norm_eps = 1e-6f;
    h->bos = h->eos = -1;

    const architecture *arch = NULL;
    clv_status status = find_architecture(root, name, &arch);
    if (!status)
        status = check_variant(root, name);
    if (!status)
        status = parse_counts(root, arch, name, h);
    if (!status)
        status = opt_f32(root, "rms_norm_eps", name, &h->norm_eps);
    if (!status)
        status = parse_rope(root, name, h);
    if (!status)
        status = opt_token(root, "bos_token_id", name, &h->bos);
    if (!status)
        status = opt_token(root, "eos_token_id", name, &h->eos);
    if (!status)
        status = opt_bool(root, "tie_word_embeddings", name, &c.tied);
    if (!status)
        status = llm_hparams_check(h, name);
    if (!status)
        *out = c;
    return status;
}

clv_status llm_hf_config_parse(const void *json, uint64_t size,
                               const char *name, llm_hf_config *out)
{
    cJSON *root = NULL;
    clv_status status = llm_json_parse(json, size, name, &root);
    if (status)
        return status;
    status = parse(root, name, out);
    cJSON_Delete(root);
    return status;
}

static clv_status load_generation(const char *path, llm_hparams *h)
{
    cJSON *root = NULL;
    if (access(path, F_OK))
        return CLV_OK;
    clv_status status = llm_json_load(path, &root);
    if (status)
        return status;
    if (h->bos < 0)
        status = opt_token(root, "bos_token_id", path, &h->bos);
    if (!status && h->eos < 0)
        status = opt_token(root, "eos_token_id", path, &h->eos);
    cJSON_Delete(root);
    return status;
}

clv_status llm_hf_config_load(const char *dir, llm_hf_config *out)
{
    char *path = llm_path_join(dir, "config.json");
    char *generation = llm_path_join(dir, "generation_config.json");
    cJSON *root = NULL;
    llm_hf_config config = {0};
    clv_status status = CLV_ERR_NO_MEMORY;
    if (!path || !generation)
        goto done;
    if (access(path, F_OK)) {
        status = clv_error(CLV_ERR_NOT_FOUND,
                           "%s: holds no config.json; give the directory of a "
                           "Hugging Face model or a GGUF file",
                           dir);
        goto done;
    }
    status = llm_json_load(path, &root);
    if (!status)
        status = parse(root, path, &config);
    if (!status)
        status = load_generation(generation, &config.hparams);
    if (!status)
        *out = config;
done:
    cJSON_Delete(root);
    free(generation);
    free(path);
    return status;
}
