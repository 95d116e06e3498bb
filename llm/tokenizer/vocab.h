/*
 * Vocabularies: tokens by id and by text.
 *
 * A token has two forms. Its text is its form in the file, where spaces or all
 * bytes are written as other characters; its bytes are what it adds to a text.
 * Lookups go by key: the bytes in byte-level vocabularies, the text in others.
 * All strings belong to the vocabulary.
 */
#pragma once

#include "../base/array.h"

/* As GGUF numbers them. */
typedef enum llm_token_type {
    LLM_TOKEN_UNDEFINED = 0,
    LLM_TOKEN_NORMAL = 1,
    LLM_TOKEN_UNKNOWN = 2,
    LLM_TOKEN_CONTROL = 3,
    LLM_TOKEN_USER_DEFINED = 4, /* recognised in any text */
    LLM_TOKEN_UNUSED = 5,
    LLM_TOKEN_BYTE = 6, /* "<0x0A>" */
} llm_token_type;

typedef struct llm_token {
    const char *text, *bytes;
    uint32_t text_size; /* 0: an id without a token */
    uint32_t bytes_size;
    float score;
    uint8_t type; /* llm_token_type */
    bool end;     /* ends a text */
} llm_token;

llm_str llm_token_text(const llm_token *token);
llm_str llm_token_bytes(const llm_token *token);

typedef struct llm_arena_chunk llm_arena_chunk;

typedef struct llm_vocab {
    llm_token *tokens; /* [n] */
    uint32_t n;
    bool byte_level;       /* spelled in GPT-2's alphabet of bytes */
    llm_str space;         /* the text of a space; size 0: none */
    int32_t byte_ids[256]; /* the token of a single byte, -1: none */
    uint64_t longest;      /* bytes of the longest key */
    uint32_t *slots;       /* [mask + 1], id + 1 by hash of the key; 0: free */
    uint32_t mask;
    llm_arena_chunk *chunks;
} llm_vocab;

#define LLM_MAX_TOKENS (1u << 24)

/* n tokens without text, type NORMAL. */
clv_status llm_vocab_init(llm_vocab *vocab, uint32_t n);
void llm_vocab_finish(llm_vocab *vocab);

/* A copy that belongs to the vocabulary. */
clv_status llm_vocab_store(llm_vocab *vocab, llm_str s, llm_str *out);
clv_status llm_vocab_set(llm_vocab *vocab, uint32_t id, llm_str text,
                         llm_token_type type, float score);
/* To be called when all tokens are set: makes their bytes and the index.
 * CLV_ERR_FORMAT if a text occurs twice. */
clv_status llm_vocab_index(llm_vocab *vocab, bool byte_level, llm_str space);

/* The token with this key; -1 if there is none. Ordinary tokens hide special
 * ones of the same key. */
int32_t llm_vocab_find(const llm_vocab *vocab, const char *key, uint64_t n);
/* The token with this text, of any type; -1: none. Slow: a linear search. */
int32_t llm_vocab_find_text(const llm_vocab *vocab, llm_str text);
/* Appends to *out the bytes that a text in GPT-2's alphabet encodes; a text
 * with other characters is appended as it is. */
clv_status llm_vocab_spelled_bytes(llm_str text, llm_bytes *out);
/* The alphabet's character of a byte, as UTF-8. */
uint32_t llm_vocab_spell_byte(uint8_t byte, char out[2]);
/* The byte of "<0x0A>"; -1: not such a text. */
int llm_token_byte(llm_str text);
/* Whether merging can make it: not a control, unknown or byte token. */
bool llm_token_is_mergeable(const llm_token *token);
/* Whether it is left out of a text unless special tokens are asked for. */
bool llm_token_is_special(const llm_token *token);
