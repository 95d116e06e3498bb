#include "json.h"

#include "config.h"
#include "json_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_GAP 65536

/* An id below LLM_MAX_TOKENS; -1: it is none. */
static int32_t id_of(const cJSON *number)
{
    uint64_t value;
    return llm_json_u64(number, &value) && value < LLM_MAX_TOKENS
               ? (int32_t)value
               : -1;
}

static int32_t added_id(const cJSON *token)
{
    return id_of(llm_json_get(token, "id"));
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
        int32_t id = id_of(item);
        if (id < 0)
            return llm_json_malformed(load, "model.vocab",
                                      "has a token without a valid id");
        end = id >= end ? id + 1 : end;
        count++;
    }
    cJSON_ArrayForEach (item, added) {
        int32_t id = added_id(item);
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
    CLV_TRY(count_ids(load, vocab, added, &n));
    CLV_TRY(llm_vocab_init(&load->tok->vocab, n));
    cJSON_ArrayForEach (item, vocab) {
        bool byte = load->byte_fallback &&
                    llm_token_byte(llm_str_of(item->string)) >= 0;
        CLV_TRY(set_token(load, (uint32_t)id_of(item), item->string,
                          byte ? LLM_TOKEN_BYTE : LLM_TOKEN_NORMAL));
    }
    cJSON_ArrayForEach (item, added) {
        bool special = llm_json_flag(item, "special", false);
        CLV_TRY(set_token(
            load, (uint32_t)added_id(item), llm_json_string(item, "content"),
            special ? LLM_TOKEN_CONTROL : LLM_TOKEN_USER_DEFINED));
    }
    return CLV_OK;
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

static clv_status add_merge(const llm_json_loading *load, const cJSON *item,
                            uint32_t rank, llm_bytes *scratch)
{
    llm_str left, right;
    if (!read_merge(item, &left, &right))
        return llm_json_malformed(load, "model.merges",
                                  "has an entry that is not two tokens");
    clv_status status =
        llm_tokenizer_add_merge(load->tok, left, right, rank, scratch);
    if (!status)
        return CLV_OK;
    return clv_error_prefix(status == CLV_ERR_NOT_FOUND ? CLV_ERR_FORMAT
                                                        : status,
                            "%s", load->name);
}

static clv_status fill_merges(const llm_json_loading *load, const cJSON *merges)
{
    uint32_t rank = 0;
    llm_bytes scratch = {0};
    const cJSON *item;
    clv_status status = llm_merges_init(&load->tok->model.merges,
                                        (uint32_t)cJSON_GetArraySize(merges));
    cJSON_ArrayForEach (item, merges)
        if (!status)
            status = add_merge(load, item, rank++, &scratch);
    free(scratch.items);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Model                                                                    */

static clv_status check_model(const llm_json_loading *load, const cJSON *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const char *type = llm_json_string(model, "type");
    if (!cJSON_IsObject(model))
        return llm_json_malformed(load, "model", "is missing");
    if (type && strcmp(type, "BPE"))
        return llm_json_unsupported(load, "model", type);
    for (int i = 0; i < 2; i++) {
        const char *affix = llm_json_string(model, affixes[i]);
        if (affix && *affix)
            return llm_json_unsupported(load, "model option", affixes[i]);
    }
    const cJSON *dropout = llm_json_get(model, "dropout");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble > 0)
        return llm_json_unsupported(load, "model option", "dropout");
    if (!cJSON_IsObject(llm_json_get(model, "vocab")))
        return llm_json_malformed(load, "model.vocab", "is missing");
    if (!cJSON_IsArray(llm_json_get(model, "merges")))
        return llm_json_malformed(load, "model.merges", "is missing");
    return CLV_OK;
}

/* Added tokens are recognised before or after the text is normalized. */
static clv_status add_special(llm_json_loading *load, const cJSON *item,
                              llm_rewriting *work, llm_matcher *matcher)
{
    clv_tokenizer *tok = load->tok;
    llm_special special = {
        .id = added_id(item),
        .control = llm_json_flag(item, "special", false),
        .lstrip = llm_json_flag(item, "lstrip", false),
        .rstrip = llm_json_flag(item, "rstrip", false),
        .single_word = llm_json_flag(item, "single_word", false),
    };
    special.text = tok->vocab.tokens[special.id].text;
    if (!llm_json_flag(item, "normalized", !special.control) ||
        !tok->normalizer.n)
        return llm_specials_add(&tok->specials, special);
    CLV_TRY(llm_normalize(&tok->normalizer, work, matcher, special.text, true,
                          &special.text));
    CLV_TRY(llm_vocab_store(&tok->vocab, special.text, &special.text));
    return llm_specials_add(&tok->normalized, special);
}

static clv_status add_specials(llm_json_loading *load, const cJSON *added)
{
    llm_rewriting work = {0};
    llm_matcher matcher = {0};
    clv_status status = CLV_OK;
    const cJSON *item;
    cJSON_ArrayForEach (item, added)
        if (!status)
            status = add_special(load, item, &work, &matcher);
    llm_rewriting_finish(&work);
    llm_matcher_finish(&matcher);
    llm_specials_seal(&load->tok->specials);
    llm_specials_seal(&load->tok->normalized);
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
    const cJSON *model = llm_json_get(root, "model");
    const cJSON *added = llm_json_get(root, "added_tokens");
    clv_tokenizer *tok = load->tok;
    CLV_TRY(check_model(load, model));
    load->byte_fallback = llm_json_flag(model, "byte_fallback", false);
    tok->model.order = LLM_MERGE_RANK;
    tok->model.whole_first = llm_json_flag(model, "ignore_merges", false);
    tok->model.fuse_unknown = llm_json_flag(model, "fuse_unk", false);

    CLV_TRY(fill_vocab(load, llm_json_get(model, "vocab"), added));
    CLV_TRY(llm_json_part(load, root, "normalizer"));
    CLV_TRY(llm_json_part(load, root, "pre_tokenizer"));
    CLV_TRY(llm_json_part(load, root, "decoder"));
    CLV_TRY(set_unknown(load, model));
    clv_status status =
        llm_vocab_index(&tok->vocab, load->byte_level, load->space);
    if (status)
        return clv_error_prefix(status, "%s", load->name);
    CLV_TRY(fill_merges(load, llm_json_get(model, "merges")));
    CLV_TRY(llm_json_part(load, root, "post_processor"));
    return add_specials(load, added);
}

/* From text or, if that is NULL, from the file called name and those beside
 * it. */
static clv_status load(const char *text, uint64_t size, const char *name,
                       clv_tokenizer **out)
{
    llm_json_loading loading = {.name = name};
    cJSON *root = NULL;
    *out = NULL;
    CLV_TRY(llm_tokenizer_create(&loading.tok));
    clv_status status = text ? llm_json_parse(text, size, name, &root)
                             : llm_json_load(name, &root);
    if (status)
        goto failed;
    status = load_tree(&loading, root);
    if (status)
        goto failed;
    if (!text)
        status = llm_tokenizer_read_config(loading.tok, name);
    if (status)
        goto failed;
    cJSON_Delete(root);
    llm_tokenizer_mark_ends(loading.tok);
    *out = loading.tok;
    return CLV_OK;

failed:
    cJSON_Delete(root);
    clv_tokenizer_destroy(loading.tok);
    return status;
}

clv_status llm_tokenizer_from_json(const char *text, uint64_t size,
                                   const char *name, clv_tokenizer **out)
{
    return load(text, size, name, out);
}

clv_status llm_tokenizer_from_file(const char *path, clv_tokenizer **out)
{
    return load(NULL, 0, path, out);
}

clv_status llm_tokenizer_from_dir(const char *dir, clv_tokenizer **out)
{
    struct stat info;
    *out = NULL;
    char *path = llm_path_join(dir, "tokenizer.json");
    if (!path)
        return CLV_ERR_NO_MEMORY;
    clv_status status =
        stat(path, &info)
            ? clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                        "%s: %s", path, strerror(errno))
            : llm_tokenizer_from_file(path, out);
    free(path);
    return status;
}
