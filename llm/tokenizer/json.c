#include "json.h"

#include "config.h"
#include "json_parts.h"
#include "model.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_GAP 65536

/* An id below LLM_MAX_TOKENS; -1: it is none. */
static int32_t id_of(const llm_json *number)
{
    uint64_t value;
    return llm_json_u64(number, &value) && value < LLM_MAX_TOKENS
               ? (int32_t)value
               : -1;
}

static int32_t added_id(const llm_json *token)
{
    return id_of(llm_json_get(token, "id"));
}

/* ------------------------------------------------------------------------ */
/* Vocabulary                                                               */

/* Token and score of an entry of a Unigram's vocabulary: ["a", -1.5]. */
static bool read_scored(const llm_json *item, llm_str *text, float *score)
{
    double value;
    if (!llm_json_str(llm_json_at(item, 0), text) ||
        !llm_json_number(llm_json_at(item, 1), &value) ||
        llm_json_count(item) != 2)
        return false;
    *score = (float)value;
    return isfinite(*score);
}

/* One past the largest id; gaps are allowed, but not at any size. */
static clv_status count_ids(const llm_json_loading *load, const llm_json *vocab,
                            const llm_json *added, uint32_t *n)
{
    int64_t count = 0, end = 0;
    for (llm_json_each e = llm_json_begin(vocab); llm_json_next(&e);) {
        const int32_t id = e.keyed                  ? id_of(e.value)
                           : count < LLM_MAX_TOKENS ? (int32_t)count
                                                    : -1;
        if (id < 0)
            return llm_json_malformed(load, "model.vocab",
                                      "has a token without a valid id");
        end = id >= end ? id + 1 : end;
        count++;
    }
    for (llm_json_each e = llm_json_begin(added); llm_json_next(&e);) {
        const int32_t id = added_id(e.value);
        if (id < 0 ||
            !llm_json_is(llm_json_member(e.value, "content"), LLM_JSON_STRING))
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
                            llm_str new, llm_token_type type, float score)
{
    llm_vocab *vocab = &load->tok->vocab;
    llm_str old = llm_token_text(&vocab->tokens[id]);
    if (!old.size)
        return llm_vocab_set(vocab, id, new, type, score);
    if (!llm_str_equal(old, new))
        return clv_error(CLV_ERR_FORMAT, "%s: '%s' and '%s' are both token %u",
                         load->name, llm_str_show(old).text,
                         llm_str_show(new).text, id);
    vocab->tokens[id].type = (uint8_t)type;
    return CLV_OK;
}

static clv_status fill_vocab(llm_json_loading *load, const llm_json *vocab,
                             const llm_json *added)
{
    uint32_t n = 0, id = 0;
    CLV_TRY(count_ids(load, vocab, added, &n));
    CLV_TRY(llm_vocab_init(&load->tok->vocab, n));
    for (llm_json_each e = llm_json_begin(vocab); llm_json_next(&e); id++) {
        float score = 0;
        if (e.keyed)
            id = (uint32_t)id_of(e.value);
        else if (!read_scored(e.value, &e.key, &score))
            return llm_json_malformed(load, "model.vocab",
                                      "has an entry that is not a token and "
                                      "its score");
        const bool byte = load->byte_fallback && llm_token_byte(e.key) >= 0;
        CLV_TRY(set_token(load, id, e.key,
                          byte ? LLM_TOKEN_BYTE : LLM_TOKEN_NORMAL, score));
    }
    for (llm_json_each e = llm_json_begin(added); llm_json_next(&e);) {
        llm_str text = {0};
        llm_json_str(llm_json_member(e.value, "content"), &text);
        CLV_TRY(set_token(load, (uint32_t)added_id(e.value), text,
                          llm_json_flag(e.value, "special", false)
                              ? LLM_TOKEN_CONTROL
                              : LLM_TOKEN_USER_DEFINED,
                          0));
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Merges                                                                   */

/* "a b" or ["a", "b"] */
static bool read_merge(const llm_json *item, llm_str *left, llm_str *right)
{
    llm_str text;
    if (!llm_json_str(item, &text))
        return llm_json_str(llm_json_at(item, 0), left) && left->size &&
               llm_json_str(llm_json_at(item, 1), right) && right->size &&
               llm_json_count(item) == 2;
    const char *space = memchr(text.data, ' ', text.size);
    if (!space)
        return false;
    *left = (llm_str){text.data, (uint64_t)(space - text.data)};
    *right = (llm_str){space + 1, text.size - left->size - 1};
    return left->size && right->size && !memchr(space + 1, ' ', right->size);
}

static clv_status add_merge(const llm_json_loading *load, const llm_json *item,
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

static clv_status fill_merges(const llm_json_loading *load,
                              const llm_json *merges)
{
    uint32_t rank = 0;
    llm_bytes scratch = {0};
    const uint64_t n = llm_json_count(merges);
    if (n > LLM_MAX_TOKENS)
        return llm_json_malformed(load, "model.merges",
                                  "has more entries than are supported");
    clv_status status = llm_merges_init(&load->tok->model.merges, (uint32_t)n);
    for (llm_json_each e = llm_json_begin(merges);
         !status && llm_json_next(&e);)
        status = add_merge(load, e.value, rank++, &scratch);
    free(scratch.items);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Model                                                                    */

static clv_status check_model(const llm_json_loading *load,
                              const llm_json *model, bool unigram)
{
    static const char *const affixes[] = {"continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const char *type = llm_json_string(model, "type");
    if (!llm_json_is(model, LLM_JSON_OBJECT))
        return llm_json_malformed(load, "model", "is missing");
    if (type && !unigram && strcmp(type, "BPE") != 0)
        return llm_json_unsupported(load, "model", type);
    for (int i = 0; i < 2; i++) {
        const char *affix = llm_json_string(model, affixes[i]);
        if (affix && *affix)
            return llm_json_unsupported(load, "model option", affixes[i]);
    }
    double dropout = 0;
    llm_json_number(llm_json_get(model, "dropout"), &dropout);
    if (dropout > 0)
        return llm_json_unsupported(load, "model option", "dropout");
    if (!llm_json_is(llm_json_get(model, "vocab"),
                     unigram ? LLM_JSON_ARRAY : LLM_JSON_OBJECT))
        return llm_json_malformed(load, "model.vocab", "is missing");
    if (!unigram && !llm_json_is(llm_json_get(model, "merges"), LLM_JSON_ARRAY))
        return llm_json_malformed(load, "model.merges", "is missing");
    return CLV_OK;
}

/* Added tokens are recognised before or after the text is normalized. */
static clv_status add_special(llm_json_loading *load, const llm_json *item,
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
    special.text = llm_token_text(&tok->vocab.tokens[special.id]);
    if (!llm_json_flag(item, "normalized", !special.control) ||
        !tok->normalizer.n)
        return llm_specials_add(&tok->specials, special);
    CLV_TRY(llm_normalize(&tok->normalizer, work, matcher, special.text, true,
                          &special.text));
    CLV_TRY(llm_vocab_store(&tok->vocab, special.text, &special.text));
    return llm_specials_add(&tok->normalized, special);
}

static clv_status add_specials(llm_json_loading *load, const llm_json *added)
{
    llm_rewriting work = {0};
    llm_matcher matcher = {0};
    clv_status status = CLV_OK;
    for (llm_json_each e = llm_json_begin(added); !status && llm_json_next(&e);)
        status = add_special(load, e.value, &work, &matcher);
    llm_rewriting_finish(&work);
    llm_matcher_finish(&matcher);
    llm_specials_seal(&load->tok->specials);
    llm_specials_seal(&load->tok->normalized);
    return status;
}

static clv_status set_unknown(const llm_json_loading *load,
                              const llm_json *model)
{
    clv_tokenizer *tok = load->tok;
    const llm_json *number = llm_json_get(model, "unk_id");
    const char *text = llm_json_string(model, "unk_token");
    int32_t id = id_of(number);
    if (!text && !number)
        return CLV_OK;
    if (text)
        id = llm_vocab_find_text(&tok->vocab, llm_str_of(text));
    if (id < 0 || (uint32_t)id >= tok->vocab.n)
        return llm_json_malformed(load, "the unknown token",
                                  "is not in the vocabulary");
    tok->model.unknown = id;
    if (tok->vocab.tokens[id].type == LLM_TOKEN_NORMAL)
        tok->vocab.tokens[id].type = LLM_TOKEN_UNKNOWN;
    return CLV_OK;
}

/* Older files do not name the type: their vocabulary does. */
static bool is_unigram(const llm_json *model)
{
    const char *type = llm_json_string(model, "type");
    return type ? llm_text_is(type, "Unigram")
                : llm_json_is(llm_json_get(model, "vocab"), LLM_JSON_ARRAY);
}

static clv_status load_tree(llm_json_loading *load, const llm_json *root)
{
    const llm_json *model = llm_json_get(root, "model");
    const llm_json *added = llm_json_get(root, "added_tokens");
    clv_tokenizer *tok = load->tok;
    const bool unigram = is_unigram(model);
    CLV_TRY(check_model(load, model, unigram));
    load->byte_fallback = llm_json_flag(model, "byte_fallback", false);
    tok->model.order = unigram ? LLM_MERGE_UNIGRAM : LLM_MERGE_RANK;
    tok->model.whole_first = llm_json_flag(model, "ignore_merges", false);
    tok->model.fuse_unknown = llm_json_flag(model, "fuse_unk", unigram);

    CLV_TRY(fill_vocab(load, llm_json_get(model, "vocab"), added));
    CLV_TRY(llm_json_part(load, root, "normalizer"));
    CLV_TRY(llm_json_part(load, root, "pre_tokenizer"));
    CLV_TRY(llm_json_part(load, root, "decoder"));
    CLV_TRY(set_unknown(load, model));
    clv_status status =
        llm_vocab_index(&tok->vocab, load->byte_level, load->space);
    if (status)
        return clv_error_prefix(status, "%s", load->name);
    CLV_TRY(unigram ? llm_unigram_init(&tok->model.unigram, &tok->vocab)
                    : fill_merges(load, llm_json_get(model, "merges")));
    CLV_TRY(llm_json_part(load, root, "post_processor"));
    return add_specials(load, added);
}

/* From text or, if that is NULL, from the file called name and those beside
 * it. */
static clv_status load(const char *text, uint64_t size, const char *name,
                       clv_tokenizer **out)
{
    llm_json_loading loading = {.name = name};
    llm_json *root = NULL;
    *out = NULL;
    CLV_TRY(llm_tokenizer_create(&loading.tok));
    clv_status status = text ? llm_json_parse(text, size, name, &root)
                             : llm_json_load(name, &root);
    if (status)
        goto failed;
    status = load_tree(&loading, root);
    llm_json_free(root);
    if (status)
        goto failed;
    if (!text)
        status = llm_tokenizer_read_config(loading.tok, name);
    if (status)
        goto failed;
    llm_tokenizer_mark_ends(loading.tok);
    *out = loading.tok;
    return CLV_OK;

failed:
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
    char *model = llm_path_join(dir, "tokenizer.model");
    clv_status status;
    if (!path || !model)
        status = CLV_ERR_NO_MEMORY;
    else if (!stat(path, &info))
        status = llm_tokenizer_from_file(path, out);
    else if (errno == ENOENT && !stat(model, &info))
        status = llm_tokenizer_from_model(model, out);
    else
        status = clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                           "%s: %s", path, strerror(errno));
    free(model);
    free(path);
    return status;
}
