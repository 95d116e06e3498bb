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

/* A whole number in 0..2^53; false for anything else. */
bool llm_json_u64(const cJSON *item, uint64_t *out);
