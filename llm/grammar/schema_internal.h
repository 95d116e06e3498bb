/* Parts of the conversion of JSON schemas to GBNF. */
#pragma once

#include "../base/array.h"
#include <cjson/cJSON.h>

/* Text that is being written; the first failure stays. */
typedef struct llm_writer {
    llm_bytes text;
    clv_status status;
} llm_writer;

void llm_put(llm_writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A code point in a class or, in quotes, as a literal. */
void llm_put_point(llm_writer *w, uint32_t point);
/* Any bytes, valid UTF-8, as a literal with quotes. */
void llm_put_literal(llm_writer *w, const char *text);

/* Schemas that have a rule, by their place in the document. */
typedef struct llm_schema_known {
    const cJSON *schema;
    uint32_t rule;
} llm_schema_known;

typedef struct llm_schema {
    const cJSON *root;
    llm_bytes out;
    struct {
        llm_schema_known *items;
        uint64_t n, capacity;
    } known;
    uint32_t n_rules, depth;
    char path[256]; /* for messages: "#/properties/name" */
} llm_schema;

extern const cJSON llm_schema_any;

/* An error: a keyword of the schema that the path leads to. */
clv_status llm_schema_fail(const llm_schema *c, const char *keyword,
                           const char *what);
/* Adds a step to the path; returns the length to cut it to afterwards. */
size_t llm_schema_go_to(llm_schema *c, const char *step);
uint32_t llm_schema_rule(llm_schema *c);
/* Writes a rule out, and releases its text. */
clv_status llm_schema_end_rule(llm_schema *c, uint32_t rule, llm_writer *w);
/* The rule of the schema that is a member of another one. */
clv_status llm_schema_convert_at(llm_schema *c, const cJSON *schema,
                                 const char *step, uint32_t *rule);
/* The types that have keywords. */
clv_status llm_schema_object(llm_schema *c, const cJSON *schema,
                             llm_writer *out);
clv_status llm_schema_array(llm_schema *c, const cJSON *schema,
                            llm_writer *out);
clv_status llm_schema_string(llm_schema *c, const cJSON *schema,
                             llm_writer *out);
clv_status llm_schema_integer(llm_schema *c, const cJSON *schema,
                              llm_writer *out);

/* Integers in low..high; INT64_MIN and INT64_MAX: no bound. */
void llm_put_integers(llm_writer *w, int64_t low, int64_t high);
/* The characters of a JSON string that match a regular expression. NULL, or
 * what is not in the subset. */
const char *llm_put_pattern(llm_writer *w, const char *pattern);
