#include "config.h"

#include "../base/json.h"

#include <string.h>

/* "<s>" or {"content": "<s>"} */
static void read_text(const clv_tokenizer *tok, const llm_json *root,
                      const char *key, int32_t *id)
{
    const char *text = llm_json_string(root, key);
    if (!text)
        text = llm_json_string(llm_json_get(root, key), "content");
    if (text)
        *id = llm_vocab_find_text(&tok->vocab, llm_str_of(text));
}

/* An id of the vocabulary; -1: it is none. */
static int32_t id_of(const clv_tokenizer *tok, const llm_json *number)
{
    uint64_t value;
    return llm_json_u64(number, &value) && value < tok->vocab.n ? (int32_t)value
                                                                : -1;
}

static void read_id(const clv_tokenizer *tok, const llm_json *root,
                    const char *key, int32_t *id)
{
    if (*id < 0)
        *id = id_of(tok, llm_json_get(root, key));
}

static void read_end(clv_tokenizer *tok, const llm_json *number)
{
    const int32_t id = id_of(tok, number);
    if (id < 0)
        return;
    tok->vocab.tokens[id].end = true;
    if (tok->eos < 0)
        tok->eos = id;
}

/* "eos_token_id": one, or a list with the chief one first. */
static void read_ends(clv_tokenizer *tok, const llm_json *root)
{
    const llm_json *ends = llm_json_get(root, "eos_token_id");
    if (!llm_json_is(ends, LLM_JSON_ARRAY))
        read_end(tok, ends);
    else
        for (llm_json_each e = llm_json_begin(ends); llm_json_next(&e);)
            read_end(tok, e.value);
}

static clv_status read_texts(clv_tokenizer *tok, const char *dir)
{
    llm_json *root;
    CLV_TRY(llm_json_load_in(dir, "tokenizer_config.json", &root));
    read_text(tok, root, "bos_token", &tok->bos);
    read_text(tok, root, "eos_token", &tok->eos);
    read_text(tok, root, "pad_token", &tok->pad);
    tok->add_bos = llm_json_flag(root, "add_bos_token", tok->add_bos);
    llm_json_free(root);
    return CLV_OK;
}

static clv_status read_ids(clv_tokenizer *tok, const char *dir,
                           const char *file)
{
    llm_json *root;
    CLV_TRY(llm_json_load_in(dir, file, &root));
    read_id(tok, root, "bos_token_id", &tok->bos);
    read_id(tok, root, "pad_token_id", &tok->pad);
    read_ends(tok, root);
    llm_json_free(root);
    return CLV_OK;
}

clv_status llm_tokenizer_read_config(clv_tokenizer *tok, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    if (!dir)
        return llm_no_memory(path);
    clv_status status = read_texts(tok, dir);
    if (status)
        goto done;
    status = read_ids(tok, dir, "config.json");
    if (status)
        goto done;
    status = read_ids(tok, dir, "generation_config.json");
    tok->add_bos = tok->add_bos && tok->bos >= 0;
done:
    free(dir);
    return status;
}
