/*
 * Bytes kept between runs, by key, as files in one directory. An entry that was
 * damaged, or is of another key with the same file name, counts as absent.
 */
#pragma once

#include <cleave/cleave.h>

/* CLV_ERR_NOT_FOUND, without a message, if absent; *data is for free(). */
clv_status core_cache_get(const char *dir, const char *key, void **data,
                          uint64_t *size);
/* Whether there is a file for the key, sound or not. */
bool core_cache_exists(const char *dir, const char *key);
/* No error where there is none. */
void core_cache_remove(const char *dir, const char *key);
/* Removes the files of the directory that were not used for the longest time
 * until those left have no more bytes than the limit. */
clv_status core_cache_trim(const char *dir, uint64_t limit);
/* Replaces the entry in one step; makes the directory if needed. */
clv_status core_cache_put(const char *dir, const char *key, const void *data,
                          uint64_t size);
