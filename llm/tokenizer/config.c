#include "config.h"

#include "../base/json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static clv_status set_template(clv_tokenizer *tok, llm_template_use use,
                               const char *text)
{
    return text ? llm_tokenizer_set_template(tok, use, llm_str_of(text))
                : CLV_OK;
}

/* "chat_template": a text, or a list of {"name", "template"}. */
static clv_status read_templates(clv_tokenizer *tok, const llm_json *root)
{
    const llm_json *templates = llm_json_get(root, "chat_template");
    CLV_TRY(set_template(tok, LLM_TEMPLATE_DEFAULT, llm_json_text(templates)));
    if (!llm_json_is(templates, LLM_JSON_ARRAY))
        return CLV_OK;
    for (llm_json_each e = llm_json_begin(templates); llm_json_next(&e);) {
        const char *name = llm_json_string(e.value, "name");
        const char *text = llm_json_string(e.value, "template");
        if (llm_text_is(name, "default"))
            CLV_TRY(set_template(tok, LLM_TEMPLATE_DEFAULT, text));
        else if (llm_text_is(name, "tool_use"))
            CLV_TRY(set_template(tok, LLM_TEMPLATE_TOOLS, text));
    }
    return CLV_OK;
}

/* The file that newer directories hold the template in: it goes first. */
static clv_status read_template_file(clv_tokenizer *tok, const char *dir)
{
    clv_file_map map = {0};
    char *path = llm_path_join(dir, "chat_template.jinja");
    if (!path)
        return CLV_ERR_NO_MEMORY;
    clv_status status = CLV_OK;
    if (access(path, F_OK) == 0) {
        status = clv_file_map_open(path, &map);
        if (!status)
            status = llm_tokenizer_set_template(
                tok, LLM_TEMPLATE_DEFAULT,
                (llm_str){(const char *)map.data, map.size});
        clv_file_map_close(&map);
    }
    free(path);
    return status;
}

static clv_status read_texts(clv_tokenizer *tok, const char *dir)
{
    llm_json *root;
    CLV_TRY(llm_json_load_in(dir, "tokenizer_config.json", &root));
    read_text(tok, root, "bos_token", &tok->bos);
    read_text(tok, root, "eos_token", &tok->eos);
    read_text(tok, root, "pad_token", &tok->pad);
    tok->add_bos = llm_json_flag(root, "add_bos_token", tok->add_bos);
    clv_status status = read_templates(tok, root);
    llm_json_free(root);
    return status ? status : read_template_file(tok, dir);
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
