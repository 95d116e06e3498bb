/* Schemas of objects. */
#include "schema_internal.h"

#include "../base/utf8.h"

#include <string.h>

#define MAX_NAME 256 /* of a property, bytes */

/* A rule for keys, as written in JSON without quotes and escapes, that are none
 * of n words. Those have the first `depth` bytes in common, and are sorted. */
static clv_status convert_other_keys(llm_schema *c, char *const *words,
                                     uint32_t n, uint64_t depth, uint32_t *rule)
{
    llm_writer w = {0}, rest = {0};
    clv_status status = CLV_OK;
    bool ends = false;
    for (uint32_t i = 0, j; i < n && !status; i = j) {
        const char *at = words[i] + depth;
        const uint32_t size = *at ? llm_utf8_size(at, strlen(at)) : 0;
        j = i + 1;
        ends |= !size;
        if (!size)
            continue;
        while (j < n && !strncmp(words[j] + depth, at, size))
            j++;
        uint32_t next;
        status = convert_other_keys(c, words + i, j - i, depth + size, &next);
        llm_put(&w, "\"");
        llm_put_point(&w, llm_utf8_decode(at, size));
        llm_put(&w, "\" r%u | ", next);
        llm_put_point(&rest, llm_utf8_decode(at, size));
    }
    llm_put(&w, "[^\"\\\\\\x00-\\x1F\\x7F%.*s] [^\"\\\\\\x00-\\x1F\\x7F]*%s",
            (int)rest.text.n, rest.text.n ? rest.text.items : "",
            ends ? "" : " | \"\"");
    if (!w.status)
        w.status = status ? status : rest.status;
    free(rest.text.items);
    *rule = llm_schema_rule(c);
    return llm_schema_end_rule(c, *rule, &w);
}

/* Whether JSON writes it with escapes. */
static bool has_escapes(const char *text)
{
    for (; *text; text++)
        if ((uint8_t)*text < 0x20 || strchr("\"\\\x7f", *text))
            return true;
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* An object's properties while they are converted. */
typedef struct members {
    const cJSON *properties, *required;
    uint32_t n;
    bool has_others;
    uint32_t others; /* the rule of key and value of other properties */
} members;

static clv_status convert_others(llm_schema *c, const cJSON *schema, members *m)
{
    const char *keyword = "additionalProperties";
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    uint32_t value, n = 0;
    m->has_others = item ? !cJSON_IsFalse(item) : !m->n;
    if (!m->has_others)
        return CLV_OK;
    CLV_TRY(llm_schema_convert_at(c, item ? item : &llm_schema_any, keyword,
                                  &value));
    char **words = calloc(m->n + 1, sizeof *words);
    if (!words)
        return llm_no_memory("a grammar");
    for (const cJSON *p = m->n ? m->properties->child : NULL; p; p = p->next)
        if (!has_escapes(p->string))
            words[n++] = p->string;
    qsort(words, n, sizeof *words, by_text);
    llm_writer w = {0};
    uint32_t key;
    clv_status status =
        m->n ? convert_other_keys(c, words, n, 0, &key) : CLV_OK;
    free(words);
    CLV_TRY(status);
    if (m->n)
        llm_put(&w, "\"\\\"\" r%u \"\\\"\" \":\" ws r%u", key, value);
    else
        llm_put(&w, "string \":\" ws r%u", value);
    m->others = llm_schema_rule(c);
    return llm_schema_end_rule(c, m->others, &w);
}

static bool is_required(const cJSON *required, const char *name)
{
    for (const cJSON *r = required ? required->child : NULL; r; r = r->next)
        if (cJSON_IsString(r) && !strcmp(r->valuestring, name))
            return true;
    return false;
}

static clv_status check_members(const llm_schema *c, const members *m)
{
    if (m->properties && !cJSON_IsObject(m->properties))
        return llm_schema_fail(c, "properties", "it must be an object");
    if (m->required && !cJSON_IsArray(m->required))
        return llm_schema_fail(c, "required", "it must be a list");
    for (const cJSON *r = m->required ? m->required->child : NULL; r;
         r = r->next)
        if (!cJSON_IsString(r) ||
            !cJSON_GetObjectItemCaseSensitive(m->properties, r->valuestring))
            return llm_schema_fail(
                c, "required",
                "each of its items must name one of the properties");
    for (const cJSON *p = m->properties ? m->properties->child : NULL; p;
         p = p->next)
        if (strlen(p->string) > MAX_NAME)
            return llm_schema_fail(c, "properties",
                                   "a name is longer than 256 bytes");
        else if (cJSON_GetObjectItemCaseSensitive(m->properties, p->string) !=
                 p)
            return llm_schema_fail(c, "properties", "a name is there twice");
    return CLV_OK;
}

/* From the last property to the first: two rules for what can follow, with a
 * property before it and without. */
clv_status llm_schema_object(llm_schema *c, const cJSON *schema,
                             llm_writer *out)
{
    members m = {cJSON_GetObjectItemCaseSensitive(schema, "properties"),
                 cJSON_GetObjectItemCaseSensitive(schema, "required"), 0, false,
                 0};
    CLV_TRY(check_members(c, &m));
    m.n = (uint32_t)cJSON_GetArraySize(m.properties);
    CLV_TRY(convert_others(c, schema, &m));

    uint32_t later = llm_schema_rule(c), first = llm_schema_rule(c);
    llm_writer w = {0}, v = {0};
    if (m.has_others) {
        llm_put(&w, "(\",\" ws r%u)*", m.others);
        llm_put(&v, "(r%u r%u)?", m.others, later);
    }
    CLV_TRY(llm_schema_end_rule(c, later, &w));
    CLV_TRY(llm_schema_end_rule(c, first, &v));
    const cJSON *p = m.n ? m.properties->child->prev : NULL;
    for (uint32_t i = 0; i < m.n; i++, p = p->prev) {
        uint32_t value;
        const size_t length = llm_schema_go_to(c, "properties");
        CLV_TRY(llm_schema_convert_at(c, p, p->string, &value));
        c->path[length] = 0;
        /* The name as JSON writes it, quotes included. */
        const cJSON name = {.type = cJSON_String, .valuestring = p->string};
        char *json = cJSON_PrintUnformatted(&name);
        if (!json)
            return llm_no_memory("a grammar");
        llm_put(&w, "\",\" ws ");
        llm_put_literal(&w, json);
        llm_put(&w, " \":\" ws r%u r%u", value, later);
        llm_put_literal(&v, json);
        llm_put(&v, " \":\" ws r%u r%u", value, later);
        cJSON_free(json);
        if (!is_required(m.required, p->string)) {
            llm_put(&w, " | r%u", later);
            llm_put(&v, " | r%u", first);
        }
        later = llm_schema_rule(c);
        first = llm_schema_rule(c);
        CLV_TRY(llm_schema_end_rule(c, later, &w));
        CLV_TRY(llm_schema_end_rule(c, first, &v));
    }
    llm_put(out, "\"{\" ws r%u ws \"}\"", first);
    return out->status;
}
