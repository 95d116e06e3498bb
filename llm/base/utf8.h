/*
 * Cuts a stream of bytes into whole UTF-8 sequences: tokens of byte-level
 * vocabularies end anywhere inside a character.
 */
#pragma once

#include <cleave/cleave.h>

typedef struct llm_utf8 {
    uint8_t pending[4]; /* a sequence begun but not finished */
    uint32_t n_pending;
    char *text; /* owned; the latest answer */
    uint64_t capacity;
} llm_utf8;

/*
 * Takes n bytes and sets *text to the sequences they complete, *length bytes
 * and a NUL, valid until the next call. Bytes that are not UTF-8 become U+FFFD.
 */
clv_status llm_utf8_feed(llm_utf8 *utf8, const char *bytes, uint32_t n,
                         const char **text, uint32_t *length);
/* The same for what is left at the end of the stream: U+FFFD or nothing. */
clv_status llm_utf8_end(llm_utf8 *utf8, const char **text, uint32_t *length);
void llm_utf8_finish(llm_utf8 *utf8);
