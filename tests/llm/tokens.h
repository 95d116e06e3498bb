/* Checks of tokenizers. */
#pragma once

#include "check.h"
#include "temp.h"

#include <cleave/llm.h>

#include <inttypes.h>

typedef struct text_file {
    char *data;
    uint64_t size;
} text_file;

static inline text_file read_text(const char *path)
{
    clv_file_map map;
    assert_ok(clv_file_map_open(path, &map));
    text_file t = {(char *)exact_copy(map.data, map.size), map.size};
    clv_file_map_close(&map);
    return t;
}

/* Ids as "1 2 3"; freed by the caller. */
static inline char *encode(const clv_tokenizer *tok, const char *data,
                           uint64_t size, uint32_t flags)
{
    int32_t *ids;
    uint64_t n;
    assert_ok(clv_tokenize(tok, data, size, flags, &ids, &n));
    char *out = calloc(n + 1, 12);
    for (uint64_t i = 0, at = 0; i < n; i++)
        at += (uint64_t)sprintf(out + at, i ? " %" PRId32 : "%" PRId32, ids[i]);
    clv_tokens_free(ids);
    return out;
}

static inline void check_ids(const clv_tokenizer *tok, const char *data,
                             uint32_t flags, const char *expected)
{
    /* Without the NUL, for sanitizers to see a read past the end. */
    uint8_t *copy = exact_copy((const uint8_t *)data, strlen(data));
    char *ids = encode(tok, (char *)copy, strlen(data), flags);
    if (strcmp(ids, expected))
        fail_msg("'%s' gives %s, not %s", data, ids, expected);
    free(ids);
    free(copy);
}

/* decode(encode(x)) = x, and so do the bytes of each token. */
static inline void check_round_trip(const clv_tokenizer *tok, const char *data,
                                    uint64_t size)
{
    int32_t *ids;
    uint64_t n, length;
    char *back;
    assert_ok(clv_tokenize(tok, data, size, 0, &ids, &n));
    assert_ok(clv_detokenize(tok, ids, n, false, &back, &length));
    if (length != size || memcmp(back, data, size))
        fail_msg("%" PRIu64 " bytes come back as %" PRIu64 " others: '%.60s'",
                 size, length, back);
    /* The same from the bytes of each token, except the space in front. */
    char *stream = malloc(size + 2);
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t part;
        const char *token = clv_token_bytes(tok, ids[i], &part);
        assert_true(part <= size + 1 - at);
        memcpy(stream + at, token, part);
        at += part;
    }
    assert_true(at == size || (at == size + 1 && stream[0] == ' '));
    assert_memory_equal(stream + (at - size), data, size);
    free(stream);
    clv_string_free(back);
    clv_tokens_free(ids);
}
