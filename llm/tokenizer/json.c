#include "json.h"
#include "tokenizer.h"
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_GAP 65536

clv_status llm_json_unsupported(const llm_json_loading *load, const char *part,
                                const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED, "%s: %s '%s' is not supported",
                     load->name, part, what ? what : "without a type");
}

clv_status llm_json_malformed(const llm_json_loading *load, const char *part,
                              const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "%s: %s %s", load->name, part, what);
}

const char *llm_json_string(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

const char *llm_json_type(const cJSON *component)
{
    return llm_json_string(component, "type");
}

bool llm_json_flag(const cJSON *object, const char *key, bool fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : fallback;
}

int32_t llm_json_id(const cJSON *number)
{
    double value = cJSON_IsNumber(number) ? number->valuedouble : -1;
    if (!(value >= 0 && value < LLM_MAX_VOCAB) || value != (int32_t)value)
        return -1;
    return (int32_t)value;
}

/* ------------------------------------------------------------------------ */
/* Vocabulary                                                               */

/* One past the largest id; gaps are allowed, but not at any size. */
static clv_status count_ids(const llm_json_loading *load, const cJSON *vocab,
                            const cJSON *added, uint32_t *n)
{
    const cJSON *item;
    int64_t count = 0, end = 0;
    cJSON_ArrayForEach (item, vocab) {
        int32_t id = llm_json_id(item);
        if (id < 0)
            return llm_json_malformed(load, "model.vocab",
                                      "has a token without a valid id");
        end = id >= end ? id + 1 : end;
        count++;
    }
    cJSON_ArrayForEach (item, added) {
        int32_t id = llm_json_id(cJSON_GetObjectItemCaseSensitive(item, "id"));
        if (id < 0 || !llm_json_string(item, "content"))
            return llm_json_malformed(load, "added_tokens",
                                      "has an entry without a valid id and "
                                      "content");
        end = id >= end ? id + 1 : end;
        count++;
    }
    if (!count)
        return llm_json_malformed(load, "model.vocab", "is empty");
    if (end > MAX_GAP && end / 4 > count)
        return clv_error(CLV_ERR_FORMAT, "%s: %lld tokens, but ids up to %lld",
                         load->name, (long long)count, (long long)end - 1);
    *n = (uint32_t)end;
    return CLV_OK;
}

static clv_status set_token(const llm_json_loading *load, uint32_t id,
                            const char *text, llm_token_type type)
{
    llm_vocab *vocab = &load->tok->vocab;
    llm_str old = vocab->tokens[id].text, new = llm_str_of(text);
    if (!old.size)
        return llm_vocab_set(vocab, id, new, type, 0);
    if (!llm_str_equal(old, new))
        return clv_error(CLV_ERR_FORMAT, "%s: '%s' and '%s' are both token %u",
                         load->name, llm_str_show(old).text,
                         llm_str_show(new).text, id);
    vocab->tokens[id].type = (uint8_t)type;
    return CLV_OK;
}

static clv_status fill_vocab(llm_json_loading *load, const cJSON *vocab,
                             const cJSON *added)
{
    const cJSON *item;
    uint32_t n = 0;
    clv_status status = count_ids(load, vocab, added, &n);
    if (status == CLV_OK)
        status = llm_vocab_init(&load->tok->vocab, n);
    if (status != CLV_OK)
        return status;
    cJSON_ArrayForEach (item, vocab) {
        bool byte = load->byte_fallback &&
                    llm_token_byte(llm_str_of(item->string)) >= 0;
        llm_token_type type = byte ? LLM_TOKEN_BYTE : LLM_TOKEN_NORMAL;
        if (status == CLV_OK)
            status = set_token(load, (uint32_t)llm_json_id(item), item->string,
                               type);
    }
    cJSON_ArrayForEach (item, added) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(item, "id");
        bool special = llm_json_flag(item, "special", false);
        if (status == CLV_OK)
            status =
                set_token(load, (uint32_t)llm_json_id(id),
                          llm_json_string(item, "content"),
                          special ? LLM_TOKEN_CONTROL : LLM_TOKEN_USER_DEFINED);
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* Merges                                                                   */

/* "a b" or ["a", "b"] */
static bool read_merge(const cJSON *item, llm_str *left, llm_str *right)
{
    const char *text = cJSON_GetStringValue(item);
    if (text) {
        const char *space = strchr(text, ' ');
        if (!space || space == text || !space[1] || strchr(space + 1, ' '))
            return false;
        *left = (llm_str){text, (uint64_t)(space - text)};
        *right = llm_str_of(space + 1);
        return true;
    }
    const char *a = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
    const char *b = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
    if (!a || !b || !*a || !*b || cJSON_GetArraySize(item) != 2)
        return false;
    *left = llm_str_of(a);
    *right = llm_str_of(b);
    return true;
}

static clv_status fill_merges(const llm_json_loading *load, const cJSON *merges)
{
    int n = cJSON_GetArraySize(merges);
    uint32_t rank = 0;
    llm_bytes scratch = {0};
    const cJSON *item;
    clv_status status = llm_merges_init(&load->tok->model.merges, (uint32_t)n);
    cJSON_ArrayForEach (item, merges) {
        llm_str left, right;
        if (status != CLV_OK)
            break;
        if (!read_merge(item, &left, &right)) {
            status = llm_json_malformed(load, "model.merges",
                                        "has an entry that is not two tokens");
            break;
        }
        status =
            llm_tokenizer_add_merge(load->tok, left, right, rank++, &scratch);
        if (status == CLV_ERR_NOT_FOUND)
            status = CLV_ERR_FORMAT;
        if (status != CLV_OK)
            clv_error_prefix(status, "%s", load->name);
    }
    free(scratch.items);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Model                                                                    */

static clv_status check_model(const llm_json_loading *load, const cJSON *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const char *type = llm_json_type(model);
    if (!cJSON_IsObject(model))
        return llm_json_malformed(load, "model", "is missing");
    if (type && strcmp(type, "BPE"))
        return llm_json_unsupported(load, "model", type);
    for (int i = 0; i < 2; i++) {
        const char *affix = llm_json_string(model, affixes[i]);
        if (affix && *affix)
            return llm_json_unsupported(load, "model option", affixes[i]);
    }
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble > 0)
        return llm_json_unsupported(load, "model option", "dropout");
    if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(model, "vocab")))
        return llm_json_malformed(load, "model.vocab", "is missing");
    if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(model, "merges")))
        return llm_json_malformed(load, "model.merges", "is missing");
    return CLV_OK;
}

/* Added tokens are recognised before or after the text is normalized. */
static clv_status add_specials(llm_json_loading *load, const cJSON *added)
{
    clv_tokenizer *tok = load->tok;
    llm_rewriting work = {0};
    llm_matcher matcher = {0};
    clv_status status = CLV_OK;
    const cJSON *item;
    cJSON_ArrayForEach (item, added) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(item, "id");
        llm_special special = {
            .id = llm_json_id(id),
            .control = llm_json_flag(item, "special", false),
            .lstrip = llm_json_flag(item, "lstrip", false),
            .rstrip = llm_json_flag(item, "rstrip", false),
            .single_word = llm_json_flag(item, "single_word", false),
        };
        special.text = tok->vocab.tokens[special.id].text;
        bool normalized = llm_json_flag(item, "normalized", !special.control) &&
                          tok->normalizer.n;
        if (normalized) {
            status = llm_normalize(&tok->normalizer, &work, &matcher,
                                   special.text, &special.text);
            if (status == CLV_OK)
                status =
                    llm_vocab_store(&tok->vocab, special.text, &special.text);
        }
        if (status == CLV_OK)
            status = llm_specials_add(
                normalized ? &tok->normalized : &tok->specials, special);
        if (status != CLV_OK)
            break;
    }
    llm_rewriting_finish(&work);
    llm_matcher_finish(&matcher);
    llm_specials_seal(&tok->specials);
    llm_specials_seal(&tok->normalized);
    return status;
}

static clv_status set_unknown(const llm_json_loading *load, const cJSON *model)
{
    clv_tokenizer *tok = load->tok;
    const char *text = llm_json_string(model, "unk_token");
    if (!text)
        return CLV_OK;
    int32_t id = llm_vocab_find_text(&tok->vocab, llm_str_of(text));
    if (id < 0)
        return llm_json_malformed(load, "model.unk_token",
                                  "is not in the vocabulary");
    tok->model.unknown = id;
    if (tok->vocab.tokens[id].type == LLM_TOKEN_NORMAL)
        tok->vocab.tokens[id].type = LLM_TOKEN_UNKNOWN;
    return CLV_OK;
}

static clv_status load_tree(llm_json_loading *load, const cJSON *root)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const cJSON *added = cJSON_GetObjectItemCaseSensitive(root, "added_tokens");
    clv_tokenizer *tok = load->tok;
    clv_status status = check_model(load, model);
    if (status != CLV_OK)
        return status;
    load->byte_fallback = llm_json_flag(model, "byte_fallback", false);
    tok->model.order = LLM_MERGE_RANK;
    tok->model.whole_first = llm_json_flag(model, "ignore_merges", false);
    tok->model.fuse_unknown = llm_json_flag(model, "fuse_unk", false);

    status = fill_vocab(load, cJSON_GetObjectItemCaseSensitive(model, "vocab"),
                        added);
    if (status == CLV_OK)
        status = llm_json_normalizer(
            load, cJSON_GetObjectItemCaseSensitive(root, "normalizer"));
    if (status == CLV_OK)
        status = llm_json_pre_tokenizer(
            load, cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer"));
    if (status == CLV_OK)
        status = llm_json_decoder(
            load, cJSON_GetObjectItemCaseSensitive(root, "decoder"));
    if (status == CLV_OK)
        status = set_unknown(load, model);
    if (status != CLV_OK)
        return status;
    status = llm_vocab_index(&tok->vocab, load->byte_level, load->space);
    if (status != CLV_OK)
        return clv_error_prefix(status, "%s", load->name);
    status =
        fill_merges(load, cJSON_GetObjectItemCaseSensitive(model, "merges"));
    if (status == CLV_OK)
        status = llm_json_post_processor(
            load, cJSON_GetObjectItemCaseSensitive(root, "post_processor"));
    if (status == CLV_OK)
        status = add_specials(load, added);
    return status;
}

static clv_status load_text(const char *text, uint64_t size, const char *name,
                            clv_tokenizer **out)
{
    llm_json_loading load = {.name = name};
    clv_status status = llm_tokenizer_create(&load.tok);
    if (status != CLV_OK)
        return status;
    cJSON *root = cJSON_ParseWithLength(text, size);
    if (!root)
        status = clv_error(CLV_ERR_FORMAT,
                           "%s: not a JSON text, or cut off; "
                           "download it again",
                           name);
    else
        status = load_tree(&load, root);
    cJSON_Delete(root);
    if (status != CLV_OK) {
        clv_tokenizer_destroy(load.tok);
        return status;
    }
    *out = load.tok;
    return CLV_OK;
}

clv_status llm_tokenizer_from_json(const char *text, uint64_t size,
                                   const char *name, clv_tokenizer **out)
{
    *out = NULL;
    clv_status status = load_text(text, size, name, out);
    if (status == CLV_OK)
        llm_tokenizer_mark_ends(*out);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

clv_status llm_tokenizer_from_file(const char *path, clv_tokenizer **out)
{
    clv_file_map map;
    clv_tokenizer *tok = NULL;
    *out = NULL;
    clv_status status = clv_file_map_open(path, &map);
    if (status != CLV_OK)
        return status;
    status =
        load_text(map.data ? (const char *)map.data : "", map.size, path, &tok);
    clv_file_map_close(&map);
    if (status == CLV_OK)
        status = llm_tokenizer_read_config(tok, path);
    if (status != CLV_OK) {
        clv_tokenizer_destroy(tok);
        return status;
    }
    llm_tokenizer_mark_ends(tok);
    *out = tok;
    return CLV_OK;
}

clv_status llm_tokenizer_from_dir(const char *dir, clv_tokenizer **out)
{
    char path[4096];
    struct stat info;
    *out = NULL;
    int n = snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (n < 0 || (size_t)n >= sizeof path)
        return clv_error(CLV_ERR_LIMIT, "%s: path of more than %zu bytes", dir,
                         sizeof path);
    if (stat(path, &info))
        return clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                         "%s: %s", path, strerror(errno));
    return llm_tokenizer_from_file(path, out);
}
