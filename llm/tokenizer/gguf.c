#include "gguf.h"

#include "../files/gguf_kv.h"
#include "pre.h"
#include "spm.h"
#include "tokenizer.h"

#include <math.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name

/* Contents of a file. Strings are inside it. */
typedef struct contents {
    const llm_gguf *gguf;
    llm_str *tokens;
    uint64_t n_tokens;
    llm_gguf_array types, scores; /* count 0: absent */
} contents;

static clv_status wrong(const contents *c, const char *key, const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "%s: '%s' %s", llm_gguf_path(c->gguf), key,
                     what);
}

/* Adds the file to errors of functions that do not know it. */
static clv_status located(const contents *c, clv_status status)
{
    if (status)
        clv_error_prefix(status, "%s", llm_gguf_path(c->gguf));
    return status;
}

static clv_status read_array(const contents *c, const char *key,
                             llm_gguf_array *out, bool floats)
{
    if (!llm_gguf_has(c->gguf, key))
        return CLV_OK;
    CLV_TRY(floats ? llm_gguf_get_floats(c->gguf, key, out)
                   : llm_gguf_get_ints(c->gguf, key, out));
    if (out->count != c->n_tokens)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' has %llu entries for %llu "
                         "tokens",
                         llm_gguf_path(c->gguf), key,
                         (unsigned long long)out->count,
                         (unsigned long long)c->n_tokens);
    return CLV_OK;
}

static clv_status read_contents(contents *c)
{
    CLV_TRY(
        llm_gguf_get_strings(c->gguf, KEY("tokens"), &c->tokens, &c->n_tokens));
    if (!c->n_tokens || c->n_tokens > LLM_MAX_TOKENS)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: vocabulary of %llu tokens: from "
                         "1 to %u are supported",
                         llm_gguf_path(c->gguf),
                         (unsigned long long)c->n_tokens, LLM_MAX_TOKENS);
    CLV_TRY(read_array(c, KEY("token_type"), &c->types, false));
    return read_array(c, KEY("scores"), &c->scores, true);
}

static clv_status fill_vocab(const contents *c, llm_vocab *vocab)
{
    CLV_TRY(llm_vocab_init(vocab, (uint32_t)c->n_tokens));
    for (uint32_t id = 0; id < c->n_tokens; id++) {
        int64_t type = LLM_TOKEN_NORMAL;
        float score = 0;
        if (c->types.count)
            type = llm_gguf_item_int(&c->types, id);
        if (c->scores.count)
            score = llm_gguf_item_float(&c->scores, id);
        if (type < LLM_TOKEN_UNDEFINED || type > LLM_TOKEN_BYTE)
            return clv_error(CLV_ERR_FORMAT,
                             "%s: token %u has type %lld; from "
                             "0 to 6 are known",
                             llm_gguf_path(c->gguf), id, (long long)type);
        if (isnan(score))
            return clv_error(CLV_ERR_FORMAT,
                             "%s: the score of token %u is not "
                             "a number",
                             llm_gguf_path(c->gguf), id);
        CLV_TRY(llm_vocab_set(vocab, id, c->tokens[id], (llm_token_type)type,
                              score));
    }
    return CLV_OK;
}

/* An id, or -1. Absent: fallback, if there is such a token. */
static clv_status read_id(const contents *c, const char *key, int32_t fallback,
                          int32_t *out)
{
    uint32_t id = UINT32_MAX;
    if (!llm_gguf_has(c->gguf, key)) {
        *out = fallback < (int64_t)c->n_tokens ? fallback : -1;
        return CLV_OK;
    }
    int32_t signed_id;
    clv_status status = llm_gguf_get_u32(c->gguf, key, &id);
    if (status != CLV_OK &&
        llm_gguf_get_i32(c->gguf, key, &signed_id) == CLV_OK && signed_id == -1)
        status = CLV_OK;
    if (status)
        return status;
    if (id != UINT32_MAX && id >= c->n_tokens)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' is %u, but the vocabulary "
                         "has %llu tokens",
                         llm_gguf_path(c->gguf), key, id,
                         (unsigned long long)c->n_tokens);
    *out = id == UINT32_MAX ? -1 : (int32_t)id;
    return CLV_OK;
}

static clv_status read_ids(const contents *c, clv_tokenizer *tok, bool spm)
{
    static const char *const ends[] = {KEY("eot_token_id"),
                                       KEY("eom_token_id")};
    CLV_TRY(read_id(c, KEY("bos_token_id"), spm ? 1 : -1, &tok->bos));
    CLV_TRY(read_id(c, KEY("eos_token_id"), spm ? 2 : -1, &tok->eos));
    CLV_TRY(
        read_id(c, KEY("unknown_token_id"), spm ? 0 : -1, &tok->model.unknown));
    CLV_TRY(read_id(c, KEY("padding_token_id"), -1, &tok->pad));
    for (int i = 0; i < 2; i++) {
        int32_t id;
        CLV_TRY(read_id(c, ends[i], -1, &id));
        if (id >= 0)
            tok->vocab.tokens[id].end = true;
    }
    return CLV_OK;
}

static clv_status read_add_bos(const contents *c, clv_tokenizer *tok,
                               bool fallback)
{
    bool add = fallback;
    CLV_TRY(llm_gguf_opt(get_bool, c->gguf, KEY("add_bos_token"), &add));
    tok->add_bos = add && tok->bos >= 0;
    return CLV_OK;
}

/* "ab c": the space that separates the two is not the first byte. Converters
 * rename some tokens, so a few merges may be unusable, but not all. */
static clv_status add_merges(const contents *c, clv_tokenizer *tok,
                             const llm_str *merges, uint64_t n,
                             llm_bytes *scratch)
{
    uint64_t unusable = 0;
    if (n > LLM_MAX_TOKENS)
        return wrong(c, KEY("merges"), "has more entries than are supported");
    CLV_TRY(llm_merges_init(&tok->model.merges, (uint32_t)n));
    for (uint32_t i = 0; i < n; i++) {
        const llm_str merge = merges[i];
        const char *space =
            merge.size > 1 ? memchr(merge.data + 1, ' ', merge.size - 1) : NULL;
        if (!space)
            return wrong(c, KEY("merges"),
                         "has an entry that is not two tokens");
        const uint64_t left = (uint64_t)(space - merge.data);
        clv_status status = llm_tokenizer_add_merge(
            tok, (llm_str){merge.data, left},
            (llm_str){space + 1, merge.size - left - 1}, i, scratch);
        if (status == CLV_ERR_NOT_FOUND && ++unusable < n)
            continue;
        if (status == CLV_ERR_NOT_FOUND)
            status = CLV_ERR_FORMAT;
        CLV_TRY(located(c, status));
    }
    return CLV_OK;
}

static clv_status read_merges(const contents *c, clv_tokenizer *tok)
{
    llm_str *merges = NULL;
    uint64_t n = 0;
    llm_bytes scratch = {0};
    CLV_TRY(llm_gguf_get_strings(c->gguf, KEY("merges"), &merges, &n));
    clv_status status = add_merges(c, tok, merges, n, &scratch);
    free(merges);
    free(scratch.items);
    return status;
}

/* Byte pair encoding of bytes. */
static clv_status load_bpe(const contents *c, clv_tokenizer *tok)
{
    llm_str name = llm_str_of("gpt-2");
    const llm_pre *pre = NULL;
    CLV_TRY(llm_gguf_opt(get_str, c->gguf, KEY("pre"), &name));
    CLV_TRY(located(c, llm_pre_find(name, &pre)));
    for (int i = 0; i < 6 && pre->patterns[i]; i++)
        CLV_TRY(llm_splitter_add_pattern(&tok->splitter, pre->patterns[i]));
    CLV_TRY(located(c, llm_vocab_index(&tok->vocab, true, (llm_str){0})));
    CLV_TRY(read_merges(c, tok));
    tok->model.order = LLM_MERGE_RANK;
    tok->model.whole_first = pre->whole_first;
    return read_add_bos(c, tok, pre->add_bos);
}

/* SentencePiece: spaces are spelled out, one may be put in front. */
static clv_status load_spm(const contents *c, clv_tokenizer *tok, bool unigram)
{
    llm_spm spm = {.unigram = unigram, .front = true};
    if (unigram)
        CLV_TRY(llm_gguf_opt(get_bool, c->gguf, KEY("remove_extra_whitespaces"),
                             &spm.collapse));
    if (llm_gguf_has(c->gguf, KEY("precompiled_charsmap")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: its tokenizer rewrites texts by a table of "
                         "characters ('%s'), which is not supported",
                         llm_gguf_path(c->gguf), KEY("precompiled_charsmap"));
    if (!c->scores.count)
        return wrong(c, KEY("scores"), "is missing");
    CLV_TRY(
        llm_gguf_opt(get_bool, c->gguf, KEY("add_space_prefix"), &spm.front));
    CLV_TRY(located(c, llm_tokenizer_set_spm(tok, &spm)));
    return read_add_bos(c, tok, !unigram);
}

/* Special tokens of Phi-3 include the white space after them. Only the name of
 * the model tells that a file is of Phi-3. */
static void mark_phi3(const contents *c, clv_tokenizer *tok)
{
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    llm_str name = {0};
    char lower[64] = "";
    if (llm_gguf_opt(get_str, c->gguf, "general.name", &name) != CLV_OK)
        return;
    for (size_t i = 0; i < name.size && i < sizeof lower - 1; i++)
        lower[i] = name.data[i] >= 'A' && name.data[i] <= 'Z'
                       ? (char)(name.data[i] + 32)
                       : name.data[i];
    if (!strstr(lower, "phi-3") && !strstr(lower, "phi3"))
        return;
    for (uint64_t i = 0; i < tok->specials.n; i++) {
        llm_special *special = &tok->specials.items[i];
        special->rstrip = true;
        for (size_t k = 0; k < sizeof keep / sizeof *keep; k++)
            if (llm_str_equal(special->text, llm_str_of(keep[k])))
                special->rstrip = false;
    }
}

/* They are stored beside the tokenizer, but do not depend on it. */
static clv_status read_templates(const contents *c, clv_tokenizer *tok)
{
    static const char *const keys[] = {"tokenizer.chat_template",
                                       "tokenizer.chat_template.tool_use"};
    for (int i = 0; i < LLM_TEMPLATE_COUNT; i++) {
        llm_str text;
        if (!llm_gguf_has(c->gguf, keys[i]))
            continue;
        CLV_TRY(llm_gguf_get_str(c->gguf, keys[i], &text));
        CLV_TRY(llm_tokenizer_set_template(tok, (llm_template_use)i, text));
    }
    return CLV_OK;
}

static clv_status load(contents *c, clv_tokenizer *tok)
{
    llm_str model;
    CLV_TRY(llm_gguf_get_str(c->gguf, KEY("model"), &model));
    CLV_TRY(read_contents(c));
    const bool unigram = llm_str_equal(model, llm_str_of("t5"));
    const bool spm = unigram || llm_str_equal(model, llm_str_of("llama"));
    if (!spm && !llm_str_equal(model, llm_str_of("gpt2")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: tokenizer model '%s' is not "
                         "supported; gpt2, llama and t5 are",
                         llm_gguf_path(c->gguf), llm_str_show(model).text);
    CLV_TRY(fill_vocab(c, &tok->vocab));
    CLV_TRY(read_ids(c, tok, spm));
    CLV_TRY(spm ? load_spm(c, tok, unigram) : load_bpe(c, tok));
    CLV_TRY(llm_tokenizer_add_specials(tok));
    mark_phi3(c, tok);
    llm_specials_seal(&tok->specials);
    llm_tokenizer_mark_ends(tok);
    return read_templates(c, tok);
}

clv_status llm_tokenizer_from_gguf(const llm_gguf *gguf, clv_tokenizer **out)
{
    contents c = {.gguf = gguf};
    clv_tokenizer *tok = NULL;
    *out = NULL;
    if (!llm_gguf_has(gguf, KEY("model")))
        return clv_error(CLV_ERR_NOT_FOUND, "%s: holds no tokenizer",
                         llm_gguf_path(gguf));
    clv_status status = llm_tokenizer_create(&tok);
    if (!status)
        status = load(&c, tok);
    free(c.tokens);
    if (status) {
        clv_tokenizer_destroy(tok);
        /* NOT_FOUND means that there is no tokenizer at all. */
        return status == CLV_ERR_NOT_FOUND ? CLV_ERR_FORMAT : status;
    }
    *out = tok;
    return CLV_OK;
}
