#include "model.h"

#include "../base/json.h"
#include "config.h"
#include "protobuf.h"
#include "spm.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* What the file says                                                       */

enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };

typedef struct settings {
    uint64_t n;     /* pieces */
    uint64_t model; /* 1: unigram, 2: merges */
    int32_t unknown, bos, eos, pad;
    uint64_t front, collapse, escape, suffix;
    uint64_t charsmap; /* bytes of a table of characters */
} settings;

static clv_status read_trainer(llm_message m, settings *s)
{
    llm_field f;
    bool more;
    for (;;) {
        CLV_TRY(llm_message_next(&m, &f, &more));
        if (!more)
            return CLV_OK;
        switch (f.number) {
        case 3:
            s->model = f.value;
            break;
        case 24:
            s->suffix = f.value;
            break;
        case 40:
            s->unknown = (int32_t)f.value;
            break;
        case 41:
            s->bos = (int32_t)f.value;
            break;
        case 42:
            s->eos = (int32_t)f.value;
            break;
        case 43:
            s->pad = (int32_t)f.value;
            break;
        }
    }
}

static clv_status read_normalizer(llm_message m, settings *s)
{
    llm_field f;
    bool more;
    for (;;) {
        CLV_TRY(llm_message_next(&m, &f, &more));
        if (!more)
            return CLV_OK;
        if (f.number == 2)
            s->charsmap = f.bytes.size;
        else if (f.number == 3)
            s->front = f.value;
        else if (f.number == 4)
            s->collapse = f.value;
        else if (f.number == 5)
            s->escape = f.value;
    }
}

static clv_status read_settings(llm_message m, settings *out)
{
    settings s = {.model = 1,
                  .bos = 1,
                  .eos = 2,
                  .pad = -1,
                  .front = 1,
                  .collapse = 1,
                  .escape = 1};
    const llm_message whole = m;
    llm_field f;
    bool more;
    for (;;) {
        CLV_TRY(llm_message_next(&m, &f, &more));
        if (!more)
            break;
        s.n += f.number == PIECES;
        if (f.number == TRAINER)
            CLV_TRY(read_trainer(llm_message_inside(&m, f.bytes), &s));
        if (f.number == NORMALIZER)
            CLV_TRY(read_normalizer(llm_message_inside(&m, f.bytes), &s));
    }
    if (!s.n || s.n > LLM_MAX_TOKENS)
        return llm_message_damaged(&whole);
    const char *what = s.model != 1 && s.model != 2 ? "words or characters"
                       : s.charsmap                 ? "a table of characters"
                       : !s.escape ? "spaces that stay as they are"
                       : s.suffix  ? "spaces behind words"
                                   : NULL;
    if (what)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: its tokenizer has %s, which is not supported",
                         m.name, what);
    *out = s;
    return CLV_OK;
}

static clv_status read_piece(llm_message m, clv_tokenizer *tok, uint32_t id)
{
    llm_str text = {0};
    float score = 0;
    uint64_t type = LLM_TOKEN_NORMAL;
    llm_field f;
    bool more;
    const llm_message whole = m;
    for (;;) {
        CLV_TRY(llm_message_next(&m, &f, &more));
        if (!more)
            break;
        if (f.number == 1)
            text = f.bytes;
        else if (f.number == 2)
            memcpy(&score, &f.value, sizeof score);
        else if (f.number == 3)
            type = f.value;
    }
    if (isnan(score) || type < LLM_TOKEN_NORMAL || type > LLM_TOKEN_BYTE)
        return llm_message_damaged(&whole);
    return llm_vocab_set(&tok->vocab, id, text, (llm_token_type)type, score);
}

static clv_status read_pieces(llm_message m, clv_tokenizer *tok)
{
    llm_field f;
    bool more;
    uint32_t id = 0;
    for (;;) {
        CLV_TRY(llm_message_next(&m, &f, &more));
        if (!more)
            return CLV_OK;
        if (f.number == PIECES)
            CLV_TRY(read_piece(llm_message_inside(&m, f.bytes), tok, id++));
    }
}

/* ------------------------------------------------------------------------ */
/* Added tokens                                                             */

/* {"32000": {"content": "<|im_start|>", "special": true}}, or, in the older
 * file, {"<|im_start|>": 32000}. */
typedef struct added {
    uint64_t id;
    llm_str text;
    const llm_json *options;
} added;

static bool read_added(const llm_json_each *e, added *out)
{
    char *end;
    *out = (added){.text = e->key};
    if (llm_json_u64(e->value, &out->id))
        return true;
    out->options = e->value;
    out->id = strtoull(e->key.data, &end, 10);
    return e->key.size && !*end &&
           llm_json_str(llm_json_member(e->value, "content"), &out->text);
}

static clv_status bad_added(const llm_message *m, llm_str key)
{
    return clv_error(
        CLV_ERR_FORMAT,
        "%s: the token '%s' that is added to it has no valid id or "
        "text; correct tokenizer_config.json or added_tokens.json",
        m->name, llm_str_show(key).text);
}

/* One past the largest id. */
static clv_status count_added(const llm_message *m, const llm_json *list,
                              uint64_t *n)
{
    const uint64_t most = *n + llm_json_count(list) + 65536;
    added a;
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);) {
        if (!read_added(&e, &a) || a.id >= most || a.id >= LLM_MAX_TOKENS)
            return bad_added(m, e.key);
        if (a.id >= *n)
            *n = a.id + 1;
    }
    return CLV_OK;
}

/* They take the place of what the file has under their id. */
static clv_status set_added(clv_tokenizer *tok, const llm_json *list)
{
    added a;
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);) {
        read_added(&e, &a);
        llm_token *token = &tok->vocab.tokens[a.id];
        const bool special =
            !a.options || llm_json_flag(a.options, "special", false);
        if (token->text_size && llm_str_equal(llm_token_text(token), a.text) &&
            token->type == LLM_TOKEN_UNKNOWN)
            continue;
        CLV_TRY(llm_vocab_set(
            &tok->vocab, (uint32_t)a.id, a.text,
            special ? LLM_TOKEN_CONTROL : LLM_TOKEN_USER_DEFINED, 0));
    }
    return CLV_OK;
}

static void set_strips(clv_tokenizer *tok, const llm_json *list)
{
    added a;
    for (llm_json_each e = llm_json_begin(list); llm_json_next(&e);) {
        read_added(&e, &a);
        for (uint64_t i = 0; i < tok->specials.n; i++) {
            llm_special *special = &tok->specials.items[i];
            if ((uint64_t)special->id != a.id)
                continue;
            special->lstrip = llm_json_flag(a.options, "lstrip", false);
            special->rstrip = llm_json_flag(a.options, "rstrip", false);
            special->single_word =
                llm_json_flag(a.options, "single_word", false);
        }
    }
}

/* ------------------------------------------------------------------------ */

static int32_t valid_id(const clv_tokenizer *tok, int32_t id)
{
    return id >= 0 && (uint32_t)id < tok->vocab.n ? id : -1;
}

/* list: the added tokens, or NULL. */
static clv_status build(const llm_message *m, const llm_json *list,
                        clv_tokenizer *tok)
{
    settings s = {0};
    CLV_TRY(read_settings(*m, &s));
    uint64_t n = s.n;
    CLV_TRY(count_added(m, list, &n));
    CLV_TRY(llm_vocab_init(&tok->vocab, (uint32_t)n));
    CLV_TRY(read_pieces(*m, tok));
    CLV_TRY(set_added(tok, list));
    tok->model.unknown = valid_id(tok, s.unknown);
    tok->bos = valid_id(tok, s.bos);
    tok->eos = valid_id(tok, s.eos);
    tok->pad = valid_id(tok, s.pad);
    tok->add_bos = tok->bos >= 0;
    const llm_spm spm = {s.model == 1, s.front, s.collapse};
    clv_status status = llm_tokenizer_set_spm(tok, &spm);
    if (status)
        return clv_error_prefix(status, "%s", m->name);
    tok->model.fuse_unknown = true;
    CLV_TRY(llm_tokenizer_add_specials(tok));
    set_strips(tok, list);
    llm_specials_seal(&tok->specials);
    return CLV_OK;
}

static clv_status create(const llm_message *m, const llm_json *list,
                         clv_tokenizer **out)
{
    clv_tokenizer *tok = NULL;
    *out = NULL;
    CLV_TRY(llm_tokenizer_create(&tok));
    clv_status status = build(m, list, tok);
    if (status)
        clv_tokenizer_destroy(tok);
    else
        *out = tok;
    return status;
}

clv_status llm_tokenizer_parse_model(const void *data, uint64_t size,
                                     const char *name, clv_tokenizer **out)
{
    const uint8_t *at = size ? data : (const uint8_t *)"";
    CLV_TRY(create(&(llm_message){at, at + size, name}, NULL, out));
    llm_tokenizer_mark_ends(*out);
    return CLV_OK;
}

/* The list of added tokens, in a document that the caller frees. */
static clv_status load_added(const char *dir, llm_json **root,
                             const llm_json **list)
{
    CLV_TRY(llm_json_load_in(dir, "tokenizer_config.json", root));
    *list = llm_json_get(*root, "added_tokens_decoder");
    if (*list)
        return CLV_OK;
    llm_json_free(*root);
    CLV_TRY(llm_json_load_in(dir, "added_tokens.json", root));
    *list = *root;
    return CLV_OK;
}

clv_status llm_tokenizer_from_model(const char *path, clv_tokenizer **out)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    llm_json *root = NULL;
    const llm_json *list = NULL;
    clv_file_map map = {0};
    clv_tokenizer *tok = NULL;
    *out = NULL;
    clv_status status =
        dir ? load_added(dir, &root, &list) : llm_no_memory(path);
    free(dir);
    if (!status)
        status = clv_file_map_open(path, &map);
    if (!status)
        status = create(&(llm_message){map.data, map.data + map.size, path},
                        list, &tok);
    const clv_status damage = clv_file_map_check(&map, path);
    if (damage)
        status = damage;
    if (!status)
        status = llm_tokenizer_read_config(tok, path);
    clv_file_map_close(&map);
    llm_json_free(root);
    if (status) {
        clv_tokenizer_destroy(tok);
        return status;
    }
    llm_tokenizer_mark_ends(tok);
    *out = tok;
    return CLV_OK;
}
