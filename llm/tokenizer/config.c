#include "config.h"
#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The file of this name in the directory of path; *root NULL if there is none.
 */
static clv_status read_beside(const char *path, const char *file, cJSON **root)
{
    char beside[4096];
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    struct stat info;
    clv_file_map map;
    *root = NULL;
    int n = snprintf(beside, sizeof beside, "%.*s%s", dir, path, file);
    if (n < 0 || (size_t)n >= sizeof beside)
        return clv_error(CLV_ERR_LIMIT, "%s: path of more than %zu bytes", path,
                         sizeof beside);
    if (stat(beside, &info) && errno == ENOENT)
        return CLV_OK;
    clv_status status = clv_file_map_open(beside, &map);
    if (status != CLV_OK)
        return status;
    *root =
        cJSON_ParseWithLength(map.data ? (const char *)map.data : "", map.size);
    clv_file_map_close(&map);
    if (!*root)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: not a JSON text, or cut off; "
                         "download it again",
                         beside);
    return CLV_OK;
}

/* "<s>" or {"content": "<s>"} */
static void read_text(const clv_tokenizer *tok, const cJSON *root,
                      const char *key, int32_t *id)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    const char *text = cJSON_GetStringValue(item);
    if (!text)
        text = llm_json_string(item, "content");
    if (text)
        *id = llm_vocab_find_text(&tok->vocab, llm_str_of(text));
}

static void read_id(const clv_tokenizer *tok, const cJSON *root,
                    const char *key, int32_t *id)
{
    int32_t value = llm_json_id(cJSON_GetObjectItemCaseSensitive(root, key));
    if (*id < 0 && value >= 0 && (uint32_t)value < tok->vocab.n)
        *id = value;
}

static void read_end(clv_tokenizer *tok, const cJSON *number)
{
    int32_t id = llm_json_id(number);
    if (id < 0 || (uint32_t)id >= tok->vocab.n)
        return;
    tok->vocab.tokens[id].end = true;
    if (tok->eos < 0)
        tok->eos = id;
}

/* "eos_token_id": one, or a list with the chief one first. */
static void read_ends(clv_tokenizer *tok, const cJSON *root)
{
    const cJSON *item,
        *ends = cJSON_GetObjectItemCaseSensitive(root, "eos_token_id");
    if (cJSON_IsArray(ends)) {
        cJSON_ArrayForEach (item, ends)
            read_end(tok, item);
    } else {
        read_end(tok, ends);
    }
}

clv_status llm_tokenizer_read_config(clv_tokenizer *tok, const char *path)
{
    static const char *const by_id[] = {"config.json",
                                        "generation_config.json"};
    cJSON *root;
    clv_status status = read_beside(path, "tokenizer_config.json", &root);
    if (status != CLV_OK)
        return status;
    bool add_bos = tok->add_bos;
    if (root) {
        read_text(tok, root, "bos_token", &tok->bos);
        read_text(tok, root, "eos_token", &tok->eos);
        read_text(tok, root, "pad_token", &tok->pad);
        add_bos = llm_json_flag(root, "add_bos_token", add_bos);
    }
    cJSON_Delete(root);
    for (int i = 0; i < 2; i++) {
        status = read_beside(path, by_id[i], &root);
        if (status != CLV_OK)
            return status;
        read_id(tok, root, "bos_token_id", &tok->bos);
        read_id(tok, root, "pad_token_id", &tok->pad);
        read_ends(tok, root);
        cJSON_Delete(root);
    }
    tok->add_bos = add_bos && tok->bos >= 0;
    return CLV_OK;
}
