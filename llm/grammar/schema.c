/* JSON schemas to GBNF. docs/grammar.md lists the keywords. */
#include "schema_internal.h"

#include "../base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 128
#define MAX_RULES 4000 /* about what a grammar can have */
#define MAX_NAME 256   /* of a property, bytes */
#define MAX_SCHEMA (1u << 20)

static const cJSON anything = {.type = cJSON_True};

/* Schemas that have a rule, by their place in the document. */
typedef struct known {
    const cJSON *schema;
    uint32_t rule;
} known;

typedef struct converter {
    const cJSON *root;
    llm_bytes out;
    struct {
        known *items;
        uint64_t n, capacity;
    } known;
    uint32_t n_rules, depth;
    char path[256]; /* for messages: "#/properties/name" */
} converter;

/* ------------------------------------------------------------------------ */
/* Writing                                                                  */

void llm_put(llm_writer *w, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!w->status && n > 0)
        w->status = llm_bytes_append(&w->text, text, (uint64_t)n);
}

void llm_put_point(llm_writer *w, uint32_t point)
{
    char text[5] = {0};
    if (point < 0x20 || point == 0x7f) {
        llm_put(w, "\\x%02X", point);
        return;
    }
    llm_utf8_encode(point, text);
    llm_put(w, "%s%s",
            point < 0x80 && strchr("\"\\[]-^", (int)point) ? "\\" : "", text);
}

void llm_put_literal(llm_writer *w, const char *text)
{
    const char *end = text + strlen(text);
    llm_put(w, "\"");
    while (text < end) {
        uint32_t size = llm_utf8_size(text, (uint64_t)(end - text));
        size = size ? size : 1;
        llm_put_point(w,
                      size == 1 ? (uint8_t)*text : llm_utf8_decode(text, size));
        text += size;
    }
    llm_put(w, "\"");
}

/* ------------------------------------------------------------------------ */
/* Messages                                                                 */

static clv_status fail(const converter *c, const char *keyword,
                       const char *what)
{
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "JSON schema: %s: '%s': %s; docs/grammar.md lists what is "
                     "supported",
                     c->path, llm_str_show(llm_str_of(keyword)).text, what);
}

/* Adds a step to the path; returns the length to cut it to afterwards. */
static size_t go_to(converter *c, const char *step)
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

static uint32_t new_rule(converter *c)
{
    return c->n_rules++;
}

/* Writes a rule out, and releases its text. */
static clv_status end_rule(converter *c, uint32_t rule, llm_writer *w)
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

static clv_status convert(converter *c, const cJSON *schema, uint32_t *rule);

/* The rule of the schema that is a member of another one. */
static clv_status convert_at(converter *c, const cJSON *schema,
                             const char *step, uint32_t *rule)
{
    const size_t n = go_to(c, step);
    CLV_TRY(convert(c, schema, rule));
    c->path[n] = 0;
    return CLV_OK;
}

/* A whole number under keyword, else *out unchanged. */
static clv_status read_count(const converter *c, const cJSON *schema,
                             const char *keyword, uint64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    if (!item)
        return CLV_OK;
    const double value = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(value >= 0 && value <= 1e15) ||
        value != floor(value))
        return fail(c, keyword, "it must be a whole number of 0 or more");
    *out = (uint64_t)value;
    return CLV_OK;
}

static clv_status read_bounds(const converter *c, const cJSON *schema,
                              const char *min, const char *max, uint64_t *low,
                              uint64_t *high)
{
    *low = 0;
    *high = UINT64_MAX;
    CLV_TRY(read_count(c, schema, min, low));
    CLV_TRY(read_count(c, schema, max, high));
    if (*low > *high)
        return fail(c, max, "it is less than the minimum");
    return CLV_OK;
}

static void put_bounds(llm_writer *w, uint64_t low, uint64_t high)
{
    if (high == UINT64_MAX)
        llm_put(w, "{%llu,}", (unsigned long long)low);
    else
        llm_put(w, "{%llu,%llu}", (unsigned long long)low,
                (unsigned long long)high);
}

/* ------------------------------------------------------------------------ */
/* Objects                                                                  */

/* A rule for keys, as written in JSON without quotes and escapes, that are none
 * of n words. Those have the first `depth` bytes in common, and are sorted. */
static clv_status convert_other_keys(converter *c, char *const *words,
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
    *rule = new_rule(c);
    return end_rule(c, *rule, &w);
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

static clv_status convert_others(converter *c, const cJSON *schema, members *m)
{
    const char *keyword = "additionalProperties";
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    uint32_t value, n = 0;
    m->has_others = item ? !cJSON_IsFalse(item) : !m->n;
    if (!m->has_others)
        return CLV_OK;
    CLV_TRY(convert_at(c, item ? item : &anything, keyword, &value));
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
    m->others = new_rule(c);
    return end_rule(c, m->others, &w);
}

static bool is_required(const cJSON *required, const char *name)
{
    for (const cJSON *r = required ? required->child : NULL; r; r = r->next)
        if (cJSON_IsString(r) && !strcmp(r->valuestring, name))
            return true;
    return false;
}

static clv_status check_members(const converter *c, const members *m)
{
    if (m->properties && !cJSON_IsObject(m->properties))
        return fail(c, "properties", "it must be an object");
    if (m->required && !cJSON_IsArray(m->required))
        return fail(c, "required", "it must be a list");
    for (const cJSON *r = m->required ? m->required->child : NULL; r;
         r = r->next)
        if (!cJSON_IsString(r) ||
            !cJSON_GetObjectItemCaseSensitive(m->properties, r->valuestring))
            return fail(c, "required",
                        "each of its items must name one of the properties");
    for (const cJSON *p = m->properties ? m->properties->child : NULL; p;
         p = p->next)
        if (strlen(p->string) > MAX_NAME)
            return fail(c, "properties", "a name is longer than 256 bytes");
        else if (cJSON_GetObjectItemCaseSensitive(m->properties, p->string) !=
                 p)
            return fail(c, "properties", "a name is there twice");
    return CLV_OK;
}

/* From the last property to the first: two rules for what can follow, with a
 * property before it and without. */
static clv_status convert_object(converter *c, const cJSON *schema,
                                 llm_writer *out)
{
    members m = {cJSON_GetObjectItemCaseSensitive(schema, "properties"),
                 cJSON_GetObjectItemCaseSensitive(schema, "required"), 0, false,
                 0};
    CLV_TRY(check_members(c, &m));
    m.n = (uint32_t)cJSON_GetArraySize(m.properties);
    CLV_TRY(convert_others(c, schema, &m));

    uint32_t later = new_rule(c), first = new_rule(c);
    llm_writer w = {0}, v = {0};
    if (m.has_others) {
        llm_put(&w, "(\",\" ws r%u)*", m.others);
        llm_put(&v, "(r%u r%u)?", m.others, later);
    }
    CLV_TRY(end_rule(c, later, &w));
    CLV_TRY(end_rule(c, first, &v));
    const cJSON *p = m.n ? m.properties->child->prev : NULL;
    for (uint32_t i = 0; i < m.n; i++, p = p->prev) {
        uint32_t value;
        const size_t length = go_to(c, "properties");
        CLV_TRY(convert_at(c, p, p->string, &value));
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
        later = new_rule(c);
        first = new_rule(c);
        CLV_TRY(end_rule(c, later, &w));
        CLV_TRY(end_rule(c, first, &v));
    }
    llm_put(out, "\"{\" ws r%u ws \"}\"", first);
    return out->status;
}

/* ------------------------------------------------------------------------ */
/* Other types                                                              */

static clv_status convert_array(converter *c, const cJSON *schema,
                                llm_writer *out)
{
    const cJSON *tuple =
        cJSON_GetObjectItemCaseSensitive(schema, "prefixItems");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    uint64_t low, high;
    uint32_t rule;
    CLV_TRY(read_bounds(c, schema, "minItems", "maxItems", &low, &high));
    llm_put(out, "\"[\" ws ");
    if (tuple) {
        if (!cJSON_IsArray(tuple) || (items && !cJSON_IsFalse(items)) || low ||
            high != UINT64_MAX)
            return fail(c, "prefixItems",
                        "it must be a list, with neither items beside it nor a "
                        "number of them");
        for (const cJSON *i = tuple->child; i; i = i->next) {
            CLV_TRY(convert_at(c, i, "prefixItems", &rule));
            llm_put(out, "%sr%u ", i == tuple->child ? "" : "\",\" ws ", rule);
        }
    } else if (high) {
        CLV_TRY(convert_at(c, items ? items : &anything, "items", &rule));
        llm_put(out, "(r%u (\",\" ws r%u)", rule, rule);
        put_bounds(out, low ? low - 1 : 0,
                   high == UINT64_MAX ? high : high - 1);
        llm_put(out, ")%s ", low ? "" : "?");
    }
    llm_put(out, "ws \"]\"");
    return out->status;
}

static clv_status convert_string(converter *c, const cJSON *schema,
                                 llm_writer *out)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(schema, "pattern");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(schema, "format");
    uint64_t low, high;
    CLV_TRY(read_bounds(c, schema, "minLength", "maxLength", &low, &high));
    const bool bounded = low || high != UINT64_MAX;
    if (!!pattern + !!format + bounded > 1)
        return fail(c, pattern ? "pattern" : "format",
                    "it cannot stand beside a format or a length");
    llm_put(out, "\"\\\"\" ");
    if (pattern) {
        const char *text = cJSON_GetStringValue(pattern);
        const char *problem =
            text ? llm_put_pattern(out, text) : "what is no text";
        char message[160];
        snprintf(message, sizeof message, "there is %s in it",
                 problem ? problem : "");
        if (problem)
            return fail(c, "pattern", message);
    } else if (format) {
        static const char *const names[] = {"date", "time", "date-time",
                                            "uuid"};
        const char *text = cJSON_GetStringValue(format);
        uint32_t i = 0;
        while (i < 4 && (!text || strcmp(text, names[i])))
            i++;
        if (i == 4)
            return fail(c, "format", "it can be date, time, date-time or uuid");
        llm_put(out, "%s", i == 2 ? "date \"T\" time" : names[i]);
    } else {
        llm_put(out, "char");
        put_bounds(out, low, high);
    }
    llm_put(out, " \"\\\"\"");
    return out->status;
}

/* A bound of an integer; fractions round to the inside. step: 1 for a minimum,
 * -1 for a maximum. */
static clv_status read_integer(const converter *c, const cJSON *schema,
                               const char *keyword, int exclusive, int step,
                               int64_t *bound)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(schema, keyword);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 1e15))
        return fail(c, keyword, "it must be a number of at most 15 digits");
    const double x = item->valuedouble;
    const double whole = step > 0 ? ceil(x) : floor(x);
    const int64_t value = (int64_t)whole + (exclusive && whole == x ? step : 0);
    if (step > 0 ? value > *bound : value < *bound)
        *bound = value;
    return CLV_OK;
}

static clv_status convert_integer(converter *c, const cJSON *schema,
                                  llm_writer *out)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    CLV_TRY(read_integer(c, schema, "minimum", 0, 1, &low));
    CLV_TRY(read_integer(c, schema, "exclusiveMinimum", 1, 1, &low));
    CLV_TRY(read_integer(c, schema, "maximum", 0, -1, &high));
    CLV_TRY(read_integer(c, schema, "exclusiveMaximum", 1, -1, &high));
    if (low > high)
        return fail(c, "minimum", "no whole number is in the range");
    llm_put_integers(out, low, high);
    return out->status;
}

/* ------------------------------------------------------------------------ */
/* Schemas                                                                  */

typedef clv_status (*convert_fn)(converter *, const cJSON *, llm_writer *);

/* A type: the keywords for it, and how it is converted. */
static const struct type {
    const char *name, *keywords[6];
    convert_fn convert; /* NULL: the rule of that name */
} types[] = {
    {"object",
     {"properties", "required", "additionalProperties"},
     convert_object},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}, convert_array},
    {"string", {"minLength", "maxLength", "pattern", "format"}, convert_string},
    {"integer",
     {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
     convert_integer},
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
static clv_status check_keywords(const converter *c, const cJSON *schema,
                                 const char *keyword, const bool *used)
{
    for (const cJSON *k = schema->child; k; k = k->next) {
        bool good =
            is_note(k->string) || (keyword && !strcmp(k->string, keyword));
        for (uint32_t t = 0; t < N_TYPES && !good; t++)
            good = used && used[t] && is_in(k->string, types[t].keywords, 6);
        if (!good)
            return fail(c, k->string,
                        keyword ? "it is not supported here"
                                : "it is not supported without a type");
    }
    return CLV_OK;
}

static clv_status convert_literals(converter *c, const cJSON *schema,
                                   const cJSON *values, bool is_list,
                                   llm_writer *out)
{
    static const char *const beside[] = {"type"};
    if (is_list && (!cJSON_IsArray(values) || !values->child))
        return fail(c, "enum", "it must be a list of at least one value");
    for (const cJSON *k = schema->child; k; k = k->next)
        if (k != values && !is_note(k->string) && !is_in(k->string, beside, 1))
            return fail(c, k->string, "it is not supported here");
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

static clv_status convert_any_of(converter *c, const cJSON *schema,
                                 const cJSON *list, llm_writer *out)
{
    CLV_TRY(check_keywords(c, schema, list->string, NULL));
    if (!cJSON_IsArray(list) || !list->child)
        return fail(c, list->string, "it must be a list of schemas");
    if (!strcmp(list->string, "allOf") && list->child->next)
        return fail(c, "allOf", "it can have one schema");
    for (const cJSON *s = list->child; s; s = s->next) {
        uint32_t rule;
        CLV_TRY(convert_at(c, s, list->string, &rule));
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

static clv_status convert_ref(converter *c, const cJSON *schema,
                              const cJSON *ref, llm_writer *out)
{
    uint32_t rule;
    const char *text = cJSON_GetStringValue(ref);
    CLV_TRY(check_keywords(c, schema, "$ref", NULL));
    const cJSON *to = text && *text == '#' ? resolve(c->root, text + 1) : NULL;
    if (!to)
        return fail(
            c, "$ref",
            "it must name a schema of this document, as '#/$defs/NAME'");
    CLV_TRY(convert(c, to, &rule));
    llm_put(out, "r%u", rule);
    return out->status;
}

/* Without a type, the keywords tell it. */
static clv_status find_types(const converter *c, const cJSON *schema,
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
            return fail(c, "type", "there is no such type");
        used[i] = true;
    }
    /* Those of numbers may mean fractions too. */
    for (uint32_t i = 0; i < 3 && !type; i++)
        for (uint32_t k = 0; k < 6 && types[i].keywords[k]; k++)
            used[i] |= has(schema, types[i].keywords[k]);
    return CLV_OK;
}

static clv_status convert_types(converter *c, const cJSON *schema,
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

static clv_status convert_body(converter *c, const cJSON *schema,
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

static clv_status convert(converter *c, const cJSON *schema, uint32_t *rule)
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
    *rule = new_rule(c);
    CLV_TRY(LLM_ARRAY_ADD(&c->known, ((known){schema, *rule})));
    c->depth++;
    clv_status status = convert_body(c, schema, &w);
    c->depth--;
    if (!w.status)
        w.status = status;
    return end_rule(c, *rule, &w);
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
    converter c = {.path = "#"};
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
