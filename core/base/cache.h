/*
 * Bytes kept between runs, by key, as files in one directory. An entry that was
 * damaged, or is of another key with the same file name, counts as absent.
 */
#pragma once

#include <cleave/cleave.h>

/* CLV_ERR_NOT_FOUND, without a message, if absent; *data is for free(). */
clv_status core_cache_get(const char *dir, const char *key, void **data,
                          uint64_t *size);
/* Replaces the entry in one step; makes the directory if needed. */
clv_status core_cache_put(const char *dir, const char *key, const void *data,
                          uint64_t size);
