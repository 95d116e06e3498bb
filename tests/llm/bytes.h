/*
 * Files made by the tests, byte by byte, without the library's own writers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static inline void put(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            abort();
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void put_u32(bytes *b, uint32_t value)
{
    put(b, &value, sizeof value);
}

static inline void put_u64(bytes *b, uint64_t value)
{
    put(b, &value, sizeof value);
}

static inline void put_f32(bytes *b, float value)
{
    put(b, &value, sizeof value);
}

static inline void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* In the form of GGUF. */
static inline void put_string(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put_text(b, text);
}

static inline void put_key(bytes *b, const char *key, uint32_t type)
{
    put_string(b, key);
    put_u32(b, type);
}

static inline void put_zeros(bytes *b, size_t n)
{
    static const uint8_t zero;
    while (n--)
        put(b, &zero, 1);
}

static inline void put_alignment(bytes *b, size_t alignment)
{
    put_zeros(b, (alignment - b->size % alignment) % alignment);
}

static inline void put_gguf_head(bytes *b, uint64_t n_tensors, uint64_t n_kv)
{
    put_text(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}

/* dims innermost first, as in the file. */
static inline void put_tensor(bytes *b, const char *name, uint32_t rank,
                              const uint64_t *dims, uint32_t type,
                              uint64_t offset)
{
    put_string(b, name);
    put_u32(b, rank);
    put(b, dims, rank * sizeof *dims);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

/* size bytes in memory of exactly that size, so that sanitizers see any read
 * past the end. */
static inline uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}
