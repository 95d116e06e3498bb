#include "tokenizer.h"

#include "gguf.h"
#include "json.h"
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

clv_status llm_tokenizer_create(clv_tokenizer **out)
{
    clv_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok)
        return llm_no_memory("a tokenizer");
    tok->bos = tok->eos = tok->pad = tok->model.unknown = -1;
    *out = tok;
    return CLV_OK;
}

void clv_tokenizer_destroy(clv_tokenizer *tok)
{
    if (!tok)
        return;
    llm_specials_finish(&tok->specials);
    llm_specials_finish(&tok->normalized);
    llm_normalizer_finish(&tok->normalizer);
    llm_splitter_finish(&tok->splitter);
    llm_merges_finish(&tok->model.merges);
    llm_unigram_finish(&tok->model.unigram);
    llm_vocab_finish(&tok->vocab);
    for (int i = 0; i < LLM_TEMPLATE_COUNT; i++)
        free(tok->templates[i]);
    free(tok);
}

static clv_status load_gguf(const char *path, clv_tokenizer **out)
{
    llm_gguf *gguf = NULL;
    clv_status status = llm_gguf_open(path, &gguf);
    if (!status)
        status = llm_tokenizer_from_gguf(gguf, out);
    llm_gguf_close(gguf);
    return status;
}

static bool is_gguf(const char *path)
{
    char magic[4];
    FILE *file = fopen(path, "rb");
    bool match =
        file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "GGUF", 4);
    if (file)
        fclose(file);
    return match;
}

clv_status clv_tokenizer_load(const char *path, clv_tokenizer **out)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info))
        return clv_error(errno == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                         "%s: %s; give a GGUF file, a tokenizer.json, a "
                         "tokenizer.model or a "
                         "directory with one",
                         path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return llm_tokenizer_from_dir(path, out);
    if (is_gguf(path))
        return load_gguf(path, out);
    const size_t n = strlen(path), suffix = strlen(".model");
    if (n >= suffix && !strcmp(path + n - suffix, ".model"))
        return llm_tokenizer_from_model(path, out);
    return llm_tokenizer_from_file(path, out);
}

clv_tokenizer_info clv_tokenizer_describe(const clv_tokenizer *tok)
{
    return (clv_tokenizer_info){
        .kind = tok->vocab.byte_level                   ? "bpe"
                : tok->model.order == LLM_MERGE_UNIGRAM ? "unigram"
                                                        : "spm",
        .n_vocab = tok->vocab.n,
        .bos = tok->bos,
        .eos = tok->eos,
        .unk = tok->model.unknown,
        .pad = tok->pad,
        .add_bos = tok->add_bos,
    };
}

/* ------------------------------------------------------------------------ */
/* Building                                                                 */

clv_status llm_tokenizer_add_specials(clv_tokenizer *tok)
{
    for (uint32_t id = 0; id < tok->vocab.n; id++) {
        const llm_token *token = &tok->vocab.tokens[id];
        bool control = token->type == LLM_TOKEN_CONTROL ||
                       token->type == LLM_TOKEN_UNKNOWN;
        if (control || token->type == LLM_TOKEN_USER_DEFINED)
            CLV_TRY(llm_specials_add(
                &tok->specials, (llm_special){.text = llm_token_text(token),
                                              .id = (int32_t)id,
                                              .control = control}));
    }
    return CLV_OK;
}

clv_status llm_tokenizer_set_template(clv_tokenizer *tok, llm_template_use use,
                                      llm_str text)
{
    free(tok->templates[use]);
    tok->templates[use] = strndup(text.data, text.size);
    return tok->templates[use] ? CLV_OK : llm_no_memory("a chat template");
}

static bool reads_as_end(llm_str text)
{
    static const char *const ends[] = {
        "</s>",
        "<eos>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "[e~[",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<end_of_turn>",
        "<turn|>",
        "<end_of_utterance>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (llm_str_equal(text, llm_str_of(ends[i])))
            return true;
    return false;
}

void llm_tokenizer_mark_ends(clv_tokenizer *tok)
{
    int32_t end = -1;
    bool returns = false, calls = false;
    for (uint32_t id = 0; id < tok->vocab.n; id++) {
        llm_token *token = &tok->vocab.tokens[id];
        bool marked = token->type == LLM_TOKEN_CONTROL ||
                      token->type == LLM_TOKEN_USER_DEFINED;
        if (!marked || !reads_as_end(llm_token_text(token)))
            continue;
        token->end = true;
        if (llm_str_equal(llm_token_text(token), llm_str_of("<|end|>")))
            end = (int32_t)id;
        returns |=
            llm_str_equal(llm_token_text(token), llm_str_of("<|return|>"));
        calls |= llm_str_equal(llm_token_text(token), llm_str_of("<|call|>"));
    }
    /* In vocabularies with these two it ends a message, not the turn. */
    if (end >= 0 && returns && calls)
        tok->vocab.tokens[end].end = false;
    if (tok->eos >= 0)
        tok->vocab.tokens[tok->eos].end = true;
}

static clv_status find_spelled(const clv_tokenizer *tok, llm_str left,
                               llm_str right, llm_bytes *scratch, int32_t *id)
{
    scratch->n = 0;
    CLV_TRY(llm_bytes_append(scratch, left.data, left.size));
    CLV_TRY(llm_bytes_append(scratch, right.data, right.size));
    llm_str key = {scratch->items, scratch->n};
    if (!tok->vocab.byte_level) {
        *id = llm_vocab_find(&tok->vocab, key.data, key.size);
        return CLV_OK;
    }
    llm_bytes bytes = {0};
    clv_status status = llm_vocab_spelled_bytes(key, &bytes);
    if (!status)
        *id = llm_vocab_find(&tok->vocab, bytes.items, bytes.n);
    free(bytes.items);
    return status;
}

clv_status llm_tokenizer_add_merge(clv_tokenizer *tok, llm_str left,
                                   llm_str right, uint32_t rank,
                                   llm_bytes *scratch)
{
    const llm_str none = {0};
    int32_t ids[3];
    CLV_TRY(find_spelled(tok, left, none, scratch, &ids[0]));
    CLV_TRY(find_spelled(tok, right, none, scratch, &ids[1]));
    CLV_TRY(find_spelled(tok, left, right, scratch, &ids[2]));
    for (int i = 0; i < 3; i++)
        if (ids[i] < 0)
            return clv_error(CLV_ERR_NOT_FOUND,
                             "merge %u joins '%s' and '%s', "
                             "but %s is not in the vocabulary",
                             rank, llm_str_show(left).text,
                             llm_str_show(right).text,
                             i == 0   ? "the first"
                             : i == 1 ? "the second"
                                      : "what they make");
    if (llm_token_is_mergeable(&tok->vocab.tokens[ids[2]]))
        llm_merges_add(&tok->model.merges,
                       (llm_merge){(uint32_t)ids[0], (uint32_t)ids[1], ids[2]});
    return CLV_OK;
}
