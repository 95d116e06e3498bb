#include "messages.h"

#include "../base/json.h"
#include "../base/utf8.h"
#include "../jinja/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* cJSON keeps no number as it was written, and whether it was written as an
 * integer decides how templates print it. So numbers are looked up in the text,
 * where they come in the order of the tree. */
typedef struct reader {
    llm_jinja *j;
    const char *name;
    const char *at; /* in the JSON, behind the latest number */
    bool marked;
} reader;

static clv_status wrong(const reader *r, const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "%s: %s", r->name, what);
}

/* Past a string, whose quote *at is at. False: it holds a NUL. */
static bool skip_string(const char **at)
{
    const char *p = *at + 1;
    while (*p && *p != '"') {
        if (*p == '\\' && !strncmp(p + 1, "u0000", 5))
            return false;
        p += *p == '\\' && p[1] ? 2 : 1;
    }
    *at = p + (*p == '"');
    return true;
}

static bool has_nul(const char *text)
{
    while (*text)
        if (*text != '"')
            text++;
        else if (!skip_string(&text))
            return true;
    return false;
}

static clv_status read_number(reader *r, llm_value *out)
{
    char *end;
    const char *p = r->at;
    while (*p && *p != '-' && !isdigit((unsigned char)*p))
        if (*p != '"')
            p++;
        else
            skip_string(&p);
    const size_t n = strspn(p, "+-.0123456789eE");
    r->at = p + n;
    errno = 0;
    if (strcspn(p, ".eE") < n) {
        *out = llm_value_real(strtod(p, &end));
        if (!isfinite(out->real))
            return wrong(r, "a number is too large");
    } else {
        *out = llm_value_int(strtoll(p, &end, 10));
        if (errno)
            return wrong(r, "an integer has more than 64 bits");
    }
    return end == r->at ? CLV_OK
                        : wrong(r, "not valid JSON; check its numbers");
}

static clv_status read_text(reader *r, const char *text, bool marked,
                            llm_value *out)
{
    const uint64_t n = strlen(text);
    char *copy = llm_jinja_alloc(r->j, marked ? 2 * n : n, 1);
    if (!copy)
        return CLV_ERR_LIMIT;
    memcpy(copy, text, n);
    if (marked)
        memset(copy + n, 1, n);
    *out = llm_value_text((llm_text){copy, marked ? copy + n : NULL, n});
    return CLV_OK;
}

/* "user", "tool_results" */
static bool is_word(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) ||
           (text[n] && strchr("_-.", text[n])))
        n++;
    return !text[n] && n <= 64;
}

static clv_status read_any(reader *r, const cJSON *item, llm_value *out);

static clv_status read_list(reader *r, const cJSON *array, llm_value *out)
{
    const cJSON *item;
    CLV_TRY(llm_value_list(r->j, LLM_LIST_PLAIN,
                           (uint64_t)cJSON_GetArraySize(array), out));
    cJSON_ArrayForEach (item, array)
        CLV_TRY(read_any(r, item, &out->list->items[out->list->n++]));
    return CLV_OK;
}

static clv_status read_dict(reader *r, const cJSON *object, llm_value *out)
{
    const cJSON *item;
    CLV_TRY(llm_value_dict(r->j, LLM_V_DICT, out));
    cJSON_ArrayForEach (item, object) {
        llm_value key, value;
        CLV_TRY(read_text(r, item->string, r->marked, &key));
        if (cJSON_IsString(item) && !strcmp(item->string, "role") &&
            is_word(item->valuestring))
            CLV_TRY(read_text(r, item->valuestring, false, &value));
        else
            CLV_TRY(read_any(r, item, &value));
        CLV_TRY(llm_dict_set(r->j, out->dict, &key, &value));
    }
    return CLV_OK;
}

static clv_status read_any(reader *r, const cJSON *item, llm_value *out)
{
    clv_status status = CLV_OK;
    CLV_TRY(llm_jinja_enter(r->j));
    if (cJSON_IsString(item))
        status = read_text(r, item->valuestring, r->marked, out);
    else if (cJSON_IsNumber(item))
        status = read_number(r, out);
    else if (cJSON_IsBool(item))
        *out = llm_value_bool(cJSON_IsTrue(item));
    else if (cJSON_IsArray(item))
        status = read_list(r, item, out);
    else if (cJSON_IsObject(item))
        status = read_dict(r, item, out);
    else
        *out = (llm_value){.type = LLM_V_NONE};
    llm_jinja_leave(r->j);
    return status;
}

/* The JSON as the only member of an object, so that nothing may follow it. */
static clv_status wrap(llm_str json, llm_bytes *out)
{
    CLV_TRY(llm_bytes_append(out, "{\"\":", 4));
    CLV_TRY(llm_bytes_append(out, json.data, json.size));
    return llm_bytes_append(out, "}", 2);
}

static clv_status check(const reader *r, llm_str json)
{
    for (uint64_t i = 0; i < json.size;) {
        const uint32_t n = llm_utf8_size(json.data + i, json.size - i);
        if (!n || !json.data[i])
            return wrong(r, "not UTF-8 text");
        i += n;
    }
    return CLV_OK;
}

clv_status llm_messages_read(llm_jinja *j, llm_str json, const char *name,
                             bool marked, llm_value *out)
{
    reader r = {.j = j, .name = name, .marked = marked};
    llm_bytes text = {0};
    cJSON *root = NULL;
    CLV_TRY(check(&r, json));
    clv_status status = wrap(json, &text);
    if (status)
        goto done;
    r.at = text.items;
    if (has_nul(text.items))
        status = wrong(&r, "holds the character U+0000, which no text may");
    else if (llm_json_parse(text.items, text.n - 1, name, &root) ||
             !root->child || root->child->next)
        status = wrong(&r, "not valid JSON; check it");
    else
        status = read_any(&r, root->child, out);
done:
    cJSON_Delete(root);
    free(text.items);
    return status;
}
