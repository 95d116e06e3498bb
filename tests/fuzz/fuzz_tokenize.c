/*
 * Any bytes as a text, for a vocabulary of GPT-2's kind and one of
 * SentencePiece's: they come back as they were.
 */
#include "../../llm/tokenizer/json.h"
#include "../../llm/tokenizer/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SPACE "\u2581"

/* All bytes, then some merges. */
static clv_tokenizer *byte_level(void)
{
    char json[16384];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
        "false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u0120\u0120\":256,"
        "\"aa\":257,\"aaa\":258,\"\u0120a\":259,\"\u00c3\u00a9\":260");
    for (int byte = 0; byte < 256; byte++) {
        char spelled[3] = "";
        uint32_t used = llm_vocab_spell_byte((uint8_t)byte, spelled);
        spelled[used] = 0;
        n += (size_t)snprintf(json + n, sizeof json - n, ",\"%s%s\":%d",
                              byte == '"' || byte == '\\' ? "\\" : "", spelled,
                              byte);
    }
    n += (size_t)snprintf(json + n, sizeof json - n,
                          "},\"merges\":[\"\u0120 \u0120\",\"a a\",\"aa a\","
                          "\"\u0120 a\",\"\u00c3 \u00a9\"]}}");
    clv_tokenizer *tok;
    if (llm_tokenizer_from_json(json, n, "bytes", &tok) != CLV_OK)
        abort();
    return tok;
}

static clv_tokenizer *marked(void)
{
    char json[16384];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
        "\"Prepend\",\"prepend\":\"" SPACE "\"},{\"type\":\"Replace\","
        "\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{"
        "\"" SPACE "\":256,\"a\":257,\"aa\":258,\"" SPACE SPACE "\":259,"
        "\"" SPACE "a\":260,\"\u00e9\":261");
    for (int byte = 0; byte < 256; byte++)
        n += (size_t)snprintf(json + n, sizeof json - n, ",\"<0x%02X>\":%d",
                              byte, byte);
    n += (size_t)snprintf(json + n, sizeof json - n,
                          "},\"merges\":[\"" SPACE " " SPACE
                          "\",\"a a\",\"" SPACE " a\"]}}");
    clv_tokenizer *tok;
    if (llm_tokenizer_from_json(json, n, "marked", &tok) != CLV_OK)
        abort();
    return tok;
}

static void round_trip(const clv_tokenizer *tok, const char *text,
                       uint64_t size)
{
    int32_t *ids;
    uint64_t n, length;
    char *back;
    if (clv_tokenize(tok, text, size, 0, &ids, &n) != CLV_OK ||
        clv_detokenize(tok, ids, n, false, &back, &length) != CLV_OK ||
        length != size || (size && memcmp(back, text, size)))
        abort();
    clv_string_free(back);
    clv_tokens_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static clv_tokenizer *bytes, *pieces;
    if (!bytes) {
        bytes = byte_level();
        pieces = marked();
    }
    round_trip(bytes, (const char *)data, size);
    /* What spells a space cannot be told from one. */
    if (!memmem(data, size, SPACE, strlen(SPACE)))
        round_trip(pieces, (const char *)data, size);
    return 0;
}
