/* Hashes of things in memory and of keys on disk. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CORE_HASH_SEED 0xcbf29ce484222325u

/* hash extended by the bytes of data: FNV-1a, 64 bits
 * (http://www.isthe.com/chongo/tech/comp/fnv/). Stable, so fit for disk. */
static inline uint64_t core_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* hash extended by one number, in two operations; for tables in memory. */
static inline uint64_t core_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}
