/* JSON schemas to GBNF. docs/grammar.md lists the keywords. */
#include "schema_internal.h"

#include "../base/utf8.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 128
#define MAX_RULES 4000 /* about what a grammar can have */
#define MAX_SCHEMA (1u << 20)

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

clv_status llm_schema_fail(const llm_schema *c, const char *keyword,
                           const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "JSON schema: %s: '%s': %s; docs/grammar.md lists what is "
                     "supported",
                     c->path, llm_str_show(llm_str_of(keyword)).text, what);
}

/* Adds a step to the path; returns the length to cut it to afterwards. */
size_t llm_schema_go_to(llm_schema *c, const char *step)
{
    const size_t n = strlen(c->path);
    snprintf(c->path + n, sizeof c->path - n, "/%s",
             llm_str_show(llm_str_of(step)).text);
    return n;
}

/* ------------------------------------------------------------------------ */
/* Rules                                                                    */

static const char shared_rules[] =
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"
    "char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" "
    "[0-9a-fA-F]{4})\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14})\n"
    "number ::= integer (\".\" [0-9]{1,15})? ([eE] [-+]? [0-9]{1,3})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? ws \"]\"\n"
    "object ::= \"{\" ws (pair (\",\" ws pair)*)? ws \"}\"\n"
    "pair ::= string \":\" ws value\n"
    "value ::= object | array | string | number | boolean | null\n"
    "date ::= [0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | "
    "[12] [0-9] | \"3\" [01])\n"
    "time ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] "
    "(\".\" [0-9]{1,9})? (\"Z\" | [-+] ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] "
    "[0-9])\n"
    "uuid ::= [0-9a-fA-F]{8} (\"-\" [0-9a-fA-F]{4}){3} \"-\" "
    "[0-9a-fA-F]{12}\n";

uint32_t llm_schema_rule(llm_schema *c)
{
    return c->n_rules++;
}

/* Writes a rule out, and releases its text. */
clv_status llm_schema_end_rule(llm_schema *c, uint32_t rule, llm_writer *w)
{
    char name[32];
    const int n = snprintf(name, sizeof name, "r%u ::= ", rule);
    clv_status status = w->status;
    if (!status)
        status = llm_bytes_append(&c->out, name, (uint64_t)n);
    if (!status && w->text.n)
        status = llm_bytes_append(&c->out, w->text.items, w->text.n);
    else if (!status)
        status = llm_bytes_append(&c->out, "\"\"", 2);
    if (!status)
        status = llm_bytes_append(&c->out, "\n", 1);
    free(w->text.items);
    *w = (llm_writer){0};
    return status;
}

const cJSON llm_schema_any = {.type = cJSON_True};

static clv_status convert(llm_schema *c, const cJSON *schema, uint32_t *rule);

/* The rule of the schema that is a member of another one. */
clv_status llm_schema_convert_at(llm_schema *c, const cJSON *schema,
                                 const char *step, uint32_t *rule)
{
    const size_t n = llm_schema_go_to(c, step);
    CLV_TRY(convert(c, schema, rule));
    c->path[n] = 0;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Schemas                                                                  */

typedef clv_status (*convert_fn)(llm_schema *, const cJSON *, llm_writer *);

/* A type: the keywords for it, and how it is converted. */
static const struct type {
    const char *name, *keywords[6];
    convert_fn convert; /* NULL: the rule of that name */
} types[] = {
    {"object",
     {"properties", "required", "additionalProperties"},
     llm_schema_object},
    {"array",
     {"items", "prefixItems", "minItems", "maxItems"},
     llm_schema_array},
    {"string",
     {"minLength", "maxLength", "pattern", "format"},
     llm_schema_string},
    {"integer",
     {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
     llm_schema_integer},
    {"number", {NULL}, NULL},
    {"boolean", {NULL}, NULL},
    {"null", {NULL}, NULL},
};
#define N_TYPES (sizeof types / sizeof *types)

static bool is_in(const char *word, const char *const *words, uint32_t n)
{
    for (uint32_t i = 0; i < n && words[i]; i++)
        if (!strcmp(word, words[i]))
            return true;
    return false;
}

static bool has(const cJSON *schema, const char *keyword)
{
    return cJSON_GetObjectItemCaseSensitive(schema, keyword) != NULL;
}

static bool is_note(const char *keyword)
{
    static const char *const notes[] = {
        "title",   "description", "default",  "examples",
        "$schema", "$id",         "$comment", "deprecated",
        "$defs",   "definitions", "readOnly", "writeOnly",
    };
    return is_in(keyword, notes, sizeof notes / sizeof *notes);
}

/* Nothing but notes stands beside `keyword` and the keywords of types. */
static clv_status check_keywords(const llm_schema *c, const cJSON *schema,
                                 const char *keyword, const bool *used)
{
    for (const cJSON *k = schema->child; k; k = k->next) {
        bool good =
            is_note(k->string) || (keyword && !strcmp(k->string, keyword));
        for (uint32_t t = 0; t < N_TYPES && !good; t++)
            good = used && used[t] && is_in(k->string, types[t].keywords, 6);
        if (!good)
            return llm_schema_fail(c, k->string,
                                   keyword
                                       ? "it is not supported here"
                                       : "it is not supported without a type");
    }
    return CLV_OK;
}

static clv_status convert_literals(llm_schema *c, const cJSON *schema,
                                   const cJSON *values, bool is_list,
                                   llm_writer *out)
{
    static const char *const beside[] = {"type"};
    if (is_list && (!cJSON_IsArray(values) || !values->child))
        return llm_schema_fail(c, "enum",
                               "it must be a list of at least one value");
    for (const cJSON *k = schema->child; k; k = k->next)
        if (k != values && !is_note(k->string) && !is_in(k->string, beside, 1))
            return llm_schema_fail(c, k->string, "it is not supported here");
    for (const cJSON *v = is_list ? values->child : values; v;
         v = is_list ? v->next : NULL) {
        char *json = cJSON_PrintUnformatted(v);
        if (!json)
            return llm_no_memory("a grammar");
        llm_put_literal(out, json);
        llm_put(out, is_list && v->next ? " | " : "");
        cJSON_free(json);
    }
    return out->status;
}

static clv_status convert_any_of(llm_schema *c, const cJSON *schema,
                                 const cJSON *list, llm_writer *out)
{
    CLV_TRY(check_keywords(c, schema, list->string, NULL));
    if (!cJSON_IsArray(list) || !list->child)
        return llm_schema_fail(c, list->string, "it must be a list of schemas");
    if (!strcmp(list->string, "allOf") && list->child->next)
        return llm_schema_fail(c, "allOf", "it can have one schema");
    for (const cJSON *s = list->child; s; s = s->next) {
        uint32_t rule;
        CLV_TRY(llm_schema_convert_at(c, s, list->string, &rule));
        llm_put(out, "r%u%s", rule, s->next ? " | " : "");
    }
    return out->status;
}

/* "#/$defs/name", with ~0 and ~1 for '~' and '/'. */
static const cJSON *resolve(const cJSON *root, const char *pointer)
{
    const cJSON *at = root;
    char name[256];
    while (at && *pointer == '/') {
        size_t n = 0;
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            char ch = *pointer;
            if (ch == '~' && (pointer[1] == '0' || pointer[1] == '1'))
                ch = *++pointer == '0' ? '~' : '/';
            if (n + 1 == sizeof name)
                return NULL;
            name[n++] = ch;
        }
        name[n] = 0;
        at = cJSON_IsArray(at)
                 ? cJSON_GetArrayItem(at, (int)strtol(name, NULL, 10))
                 : cJSON_GetObjectItemCaseSensitive(at, name);
    }
    return *pointer ? NULL : at;
}

static clv_status convert_ref(llm_schema *c, const cJSON *schema,
                              const cJSON *ref, llm_writer *out)
{
    uint32_t rule;
    const char *text = cJSON_GetStringValue(ref);
    CLV_TRY(check_keywords(c, schema, "$ref", NULL));
    const cJSON *to = text && *text == '#' ? resolve(c->root, text + 1) : NULL;
    if (!to)
        return llm_schema_fail(
            c, "$ref",
            "it must name a schema of this document, as '#/$defs/NAME'");
    CLV_TRY(convert(c, to, &rule));
    llm_put(out, "r%u", rule);
    return out->status;
}

/* Without a type, the keywords tell it. */
static clv_status find_types(const llm_schema *c, const cJSON *schema,
                             bool used[N_TYPES])
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type");
    const bool is_list = cJSON_IsArray(type);
    for (const cJSON *t = is_list ? type->child : type; t;
         t = is_list ? t->next : NULL) {
        uint32_t i = 0;
        while (i < N_TYPES &&
               (!cJSON_IsString(t) || strcmp(t->valuestring, types[i].name)))
            i++;
        if (i == N_TYPES)
            return llm_schema_fail(c, "type", "there is no such type");
        used[i] = true;
    }
    /* Those of numbers may mean fractions too. */
    for (uint32_t i = 0; i < 3 && !type; i++)
        for (uint32_t k = 0; k < 6 && types[i].keywords[k]; k++)
            used[i] |= has(schema, types[i].keywords[k]);
    return CLV_OK;
}

static clv_status convert_types(llm_schema *c, const cJSON *schema,
                                llm_writer *out)
{
    bool used[N_TYPES] = {false}, any = false;
    CLV_TRY(find_types(c, schema, used));
    CLV_TRY(
        check_keywords(c, schema, has(schema, "type") ? "type" : NULL, used));
    for (uint32_t i = 0; i < N_TYPES; i++) {
        if (!used[i])
            continue;
        llm_put(out, any ? " | " : "");
        any = true;
        if (types[i].convert)
            CLV_TRY(types[i].convert(c, schema, out));
        else
            llm_put(out, "%s", types[i].name);
    }
    llm_put(out, any ? "" : "value");
    return out->status;
}

static clv_status convert_body(llm_schema *c, const cJSON *schema,
                               llm_writer *out)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const cJSON *item;
    if (cJSON_IsTrue(schema)) {
        llm_put(out, "value");
        return out->status;
    }
    if (!cJSON_IsObject(schema))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "JSON schema: %s: a schema must be an object, or true",
                         c->path);
    if ((item = cJSON_GetObjectItemCaseSensitive(schema, "$ref")))
        return convert_ref(c, schema, item, out);
    if ((item = cJSON_GetObjectItemCaseSensitive(schema, "const")))
        return convert_literals(c, schema, item, false, out);
    if ((item = cJSON_GetObjectItemCaseSensitive(schema, "enum")))
        return convert_literals(c, schema, item, true, out);
    for (uint32_t i = 0; i < 3; i++)
        if ((item = cJSON_GetObjectItemCaseSensitive(schema, lists[i])))
            return convert_any_of(c, schema, item, out);
    return convert_types(c, schema, out);
}

static clv_status convert(llm_schema *c, const cJSON *schema, uint32_t *rule)
{
    for (uint64_t i = 0; i < c->known.n; i++)
        if (c->known.items[i].schema == schema) {
            *rule = c->known.items[i].rule;
            return CLV_OK;
        }
    if (c->n_rules > MAX_RULES)
        return clv_error(CLV_ERR_LIMIT,
                         "JSON schema: %s: the grammar would have more than %d "
                         "rules",
                         c->path, MAX_RULES);
    if (c->depth == MAX_DEPTH)
        return clv_error(CLV_ERR_LIMIT,
                         "JSON schema: %s: nested more than %d deep", c->path,
                         MAX_DEPTH);
    llm_writer w = {0};
    *rule = llm_schema_rule(c);
    CLV_TRY(LLM_ARRAY_ADD(&c->known, ((llm_schema_known){schema, *rule})));
    c->depth++;
    clv_status status = convert_body(c, schema, &w);
    c->depth--;
    if (!w.status)
        w.status = status;
    return llm_schema_end_rule(c, *rule, &w);
}

static bool is_utf8(const char *text, uint64_t n)
{
    for (uint64_t i = 0, size; i < n; i += size)
        if (!(size = llm_utf8_size(text + i, n - i)))
            return false;
    return true;
}

clv_status clv_json_schema_grammar(const char *schema, uint64_t length,
                                   char **grammar)
{
    llm_schema c = {.path = "#"};
    cJSON *root = NULL;
    uint32_t rule;
    if (!schema || !grammar)
        return clv_error(CLV_ERR_INVALID,
                         "clv_json_schema_grammar: schema or grammar is NULL");
    if (length > MAX_SCHEMA)
        return clv_error(CLV_ERR_LIMIT, "JSON schema: longer than %u bytes",
                         MAX_SCHEMA);
    char *text = malloc(length + 1);
    if (!text)
        return llm_no_memory("a JSON schema");
    memcpy(text, schema, length);
    text[length] = 0;
    if (memchr(text, 0, length) || !is_utf8(text, length) ||
        !(root = cJSON_ParseWithOpts(text, NULL, true))) {
        free(text);
        return clv_error(CLV_ERR_FORMAT, "JSON schema: it is not valid JSON");
    }
    free(text);
    c.root = root;
    clv_status status = convert(&c, root, &rule);
    char first[48];
    const int n = snprintf(first, sizeof first, "root ::= r%u\n", rule);
    if (!status)
        status = llm_bytes_append(&c.out, first, (uint64_t)n);
    if (!status)
        status = llm_bytes_append(&c.out, shared_rules, sizeof shared_rules);
    cJSON_Delete(root);
    free(c.known.items);
    if (status)
        free(c.out.items);
    else
        *grammar = c.out.items;
    return status;
}
