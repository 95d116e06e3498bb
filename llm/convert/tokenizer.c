#include "tokenizer.h"

#include "pre.h"
#include "../base/json.h"
#include "../tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAD_NAME = 24 };

/* The vocabulary in the form of GGUF: every id has a text. */
typedef struct tokens {
    uint32_t n;
    llm_str *texts;
    int32_t *types;
    float *scores;
    char (*pads)[PAD_NAME];
} tokens;

static void tokens_finish(tokens *t)
{
    free(t->texts);
    free(t->types);
    free(t->scores);
    free(t->pads);
}

static clv_status tokens_init(tokens *t, const llm_vocab *vocab, uint32_t n,
                              const char *dir)
{
    *t = (tokens){
        .n = n,
        .texts = calloc(n, sizeof *t->texts),
        .types = calloc(n, sizeof *t->types),
        .scores = calloc(n, sizeof *t->scores),
        .pads = calloc(n, sizeof *t->pads),
    };
    if (!t->texts || !t->types || !t->scores || !t->pads)
        return llm_no_memory(dir);
    for (uint32_t id = 0; id < n; id++) {
        if (id < vocab->n && llm_token_text(&vocab->tokens[id]).size) {
            t->texts[id] = llm_token_text(&vocab->tokens[id]);
            t->types[id] = vocab->tokens[id].type;
            t->scores[id] = vocab->tokens[id].score;
        } else {
            snprintf(t->pads[id], PAD_NAME, "[PAD%" PRIu32 "]", id);
            t->texts[id] = llm_str_of(t->pads[id]);
            t->types[id] = LLM_TOKEN_UNUSED;
        }
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Merges                                                                   */

/* "left right" of every merge. */
static clv_status write_merges(const clv_tokenizer *tok, const char *dir,
                               llm_gguf_writer *w)
{
    const llm_token *vocab = tok->vocab.tokens;
    const llm_merge *list = tok->model.merges.items;
    const uint32_t n = tok->model.merges.n;
    uint64_t size = 0;
    for (uint64_t i = 0; i < n; i++)
        size +=
            vocab[list[i].left].text_size + vocab[list[i].right].text_size + 1;
    char *text = malloc(size ? size : 1), *at = text;
    llm_str *lines = calloc(n ? n : 1, sizeof *lines);
    if (!text || !lines) {
        free(text);
        free(lines);
        return llm_no_memory(dir);
    }
    for (uint64_t i = 0; i < n; i++) {
        llm_str left = llm_token_text(&vocab[list[i].left]);
        llm_str right = llm_token_text(&vocab[list[i].right]);
        lines[i].data = at;
        at = mempcpy(at, left.data, left.size);
        *at++ = ' ';
        at = mempcpy(at, right.data, right.size);
        lines[i].size = (uint64_t)(at - lines[i].data);
    }
    llm_gguf_writer_strings(w, "tokenizer.ggml.merges", lines, n);
    free(lines);
    free(text);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* SentencePiece                                                            */

/*
 * SentencePiece merges any two neighbours that make a token, the best score
 * first; the file lists pairs by rank. Both give the same tokens if the file
 * lists every pair that makes a token: the score is then the rank of the first.
 */
static clv_status check_pairs(const clv_tokenizer *tok, int32_t id,
                              const char *dir)
{
    const llm_vocab *vocab = &tok->vocab;
    llm_str text = llm_token_text(&vocab->tokens[id]);
    for (uint64_t cut = 1; cut < text.size; cut++) {
        if (((uint8_t)text.data[cut] & 0xc0) == 0x80)
            continue;
        int32_t left = llm_vocab_find(vocab, text.data, cut);
        int32_t right = llm_vocab_find(vocab, text.data + cut, text.size - cut);
        if (left < 0 || right < 0 ||
            !llm_token_is_mergeable(&vocab->tokens[left]) ||
            !llm_token_is_mergeable(&vocab->tokens[right]))
            continue;
        if (!llm_merges_find(&tok->model.merges, left, right))
            return clv_error(CLV_ERR_UNSUPPORTED,
                             "%s: its tokenizer does not merge '%s' from all "
                             "pairs that make it up, which GGUF's form of "
                             "SentencePiece cannot say; run the directory "
                             "itself",
                             dir, llm_str_show(text).text);
    }
    return CLV_OK;
}

static clv_status set_scores(const clv_tokenizer *tok, const char *dir,
                             tokens *t)
{
    const llm_merge *list = tok->model.merges.items;
    const uint32_t n = tok->model.merges.n;
    for (uint32_t id = 0; id < t->n; id++)
        t->scores[id] = t->types[id] == LLM_TOKEN_NORMAL ? -(float)(n + 1) : 0;
    for (uint32_t i = n; i-- > 0;)
        if ((uint32_t)list[i].id < t->n)
            t->scores[list[i].id] = -(float)(i + 1);
    for (uint32_t id = 0; id < tok->vocab.n; id++)
        if (llm_token_is_mergeable(&tok->vocab.tokens[id]))
            CLV_TRY(check_pairs(tok, (int32_t)id, dir));
    return CLV_OK;
}

/* What is done to texts before they are split must be what readers of the file
 * do. */
static clv_status check_normalizer(const clv_tokenizer *tok, const char *dir)
{
    const bool unigram = tok->model.order == LLM_MERGE_UNIGRAM;
    bool known = unigram || !tok->collapse;
    for (uint64_t i = 0; i < tok->normalizer.n; i++) {
        const llm_rewrite *step = &tok->normalizer.items[i];
        known = known && (step->kind == LLM_REWRITE_PREPEND ||
                          (step->kind == LLM_REWRITE_REPLACE &&
                           (tok->collapse ||
                            llm_str_equal(step->content, tok->vocab.space))));
    }
    if (known)
        return CLV_OK;
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: its tokenizer rewrites texts in a way that GGUF's "
                     "form of SentencePiece cannot say; run the directory "
                     "itself",
                     dir);
}

/* SentencePiece's unigrams have a name of their own in GGUF files. */
static clv_status write_spm(const clv_tokenizer *tok, const char *dir,
                            tokens *t, llm_gguf_writer *w)
{
    const bool unigram = tok->model.order == LLM_MERGE_UNIGRAM;
    const bool ranked = tok->model.order == LLM_MERGE_RANK;
    if (!llm_str_equal(tok->vocab.space, llm_str_of("\u2581")))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: its tokenizer is neither byte-level nor does it "
                         "write spaces as U+2581; run the directory itself",
                         dir);
    if (tok->model.whole_first)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: its tokenizer has ignore_merges, which GGUF's "
                         "form of SentencePiece cannot say; run the directory "
                         "itself",
                         dir);
    CLV_TRY(check_normalizer(tok, dir));
    if (ranked)
        CLV_TRY(set_scores(tok, dir, t));
    if (tok->model.unknown >= 0)
        t->types[tok->model.unknown] = LLM_TOKEN_UNKNOWN;
    llm_gguf_writer_str(w, "tokenizer.ggml.model",
                        llm_str_of(unigram ? "t5" : "llama"));
    llm_gguf_writer_str(w, "tokenizer.ggml.pre", llm_str_of("default"));
    llm_gguf_writer_strings(w, "tokenizer.ggml.tokens", t->texts, t->n);
    llm_gguf_writer_f32s(w, "tokenizer.ggml.scores", t->scores, t->n);
    llm_gguf_writer_i32s(w, "tokenizer.ggml.token_type", t->types, t->n);
    /* Readers put an end behind texts where a unigram does not say. */
    if (unigram) {
        llm_gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", false);
        llm_gguf_writer_bool(w, "tokenizer.ggml.remove_extra_whitespaces",
                             tok->collapse);
    }
    llm_gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix",
                         tok->front_space != LLM_FRONT_SPACE_NONE);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

static clv_status write_bpe(const clv_tokenizer *tok, const char *dir,
                            const tokens *t, llm_gguf_writer *w)
{
    const char *pre = NULL;
    CLV_TRY(llm_convert_pre(dir, tok->model.whole_first, &pre));
    llm_gguf_writer_str(w, "tokenizer.ggml.model", llm_str_of("gpt2"));
    llm_gguf_writer_str(w, "tokenizer.ggml.pre",
                        (llm_str){pre, strcspn(pre, " ")});
    llm_gguf_writer_strings(w, "tokenizer.ggml.tokens", t->texts, t->n);
    llm_gguf_writer_i32s(w, "tokenizer.ggml.token_type", t->types, t->n);
    return write_merges(tok, dir, w);
}

static void write_id(llm_gguf_writer *w, const char *key, int32_t id)
{
    if (id >= 0)
        llm_gguf_writer_u32(w, key, (uint32_t)id);
}

static clv_status write_chat_template(const char *dir, llm_gguf_writer *w)
{
    llm_json *root;
    CLV_TRY(llm_json_load_in(dir, "tokenizer_config.json", &root));
    const char *text = llm_json_string(root, "chat_template");
    if (text)
        llm_gguf_writer_str(w, "tokenizer.chat_template", llm_str_of(text));
    llm_json_free(root);
    return CLV_OK;
}

clv_status llm_convert_tokenizer(const clv_tokenizer *tok, const char *dir,
                                 uint32_t n_vocab, llm_gguf_writer *w)
{
    tokens t = {0};
    if (tok->vocab.n > n_vocab)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: its tokenizer has %" PRIu32 " tokens, its "
                         "embedding %" PRIu32 " rows; use the files of one "
                         "model",
                         dir, tok->vocab.n, n_vocab);
    clv_status status = tokens_init(&t, &tok->vocab, n_vocab, dir);
    if (!status)
        status = tok->vocab.byte_level ? write_bpe(tok, dir, &t, w)
                                       : write_spm(tok, dir, &t, w);
    tokens_finish(&t);
    if (status)
        return status;
    write_id(w, "tokenizer.ggml.bos_token_id", tok->bos);
    write_id(w, "tokenizer.ggml.eos_token_id", tok->eos);
    write_id(w, "tokenizer.ggml.unknown_token_id", tok->model.unknown);
    write_id(w, "tokenizer.ggml.padding_token_id", tok->pad);
    llm_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", tok->add_bos);
    return write_chat_template(dir, w);
}
