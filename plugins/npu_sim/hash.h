#pragma once

#include <cleave/plugin_node.h>

/* FNV-1a of 64 bits; begin with NPU_HASH_START. */
#define NPU_HASH_START 0xcbf29ce484222325u
static inline uint64_t npu_hash(uint64_t h, const void *data, uint64_t size)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}
