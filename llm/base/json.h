/*
 * Checked access to JSON that comes from outside, on top of cJSON.
 */
#pragma once

#include <cleave/llm.h>

#include <cjson/cJSON.h>

/* Parses size bytes; name is for messages. *out is freed with cJSON_Delete().
 * The document must be an object. */
clv_status llm_json_parse(const void *data, uint64_t size, const char *name,
                          cJSON **out);
/* The same from a file. */
clv_status llm_json_load(const char *path, cJSON **out);
/* The same from DIR/FILE; *out is NULL if there is no such file. */
clv_status llm_json_load_in(const char *dir, const char *file, cJSON **out);

/* A member; NULL if it is absent or null. object may be NULL. */
const cJSON *llm_json_get(const cJSON *object, const char *key);
/* A member that is a string; else NULL. */
const char *llm_json_string(const cJSON *object, const char *key);
/* A member that is true or false; else fallback. */
bool llm_json_flag(const cJSON *object, const char *key, bool fallback);
/* A whole number in 0..2^53; false for anything else. */
bool llm_json_u64(const cJSON *item, uint64_t *out);
