/* A tokenizer.json, and a text through what it makes. */
#include "../../llm/tokenizer/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "ab  12.\u00e9<s>\u2581 e\u0301\n\xff\xc3 c";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    clv_tokenizer *tok;
    int32_t *ids;
    uint64_t n, length;
    char *back;
    if (llm_tokenizer_from_json((const char *)data, size, "fuzz.json", &tok) !=
        CLV_OK)
        return 0;
    if (clv_tokenize(tok, text, sizeof text - 1,
                     CLV_TOKENIZE_BOS | CLV_TOKENIZE_SPECIAL, &ids,
                     &n) == CLV_OK) {
        if (clv_detokenize(tok, ids, n, true, &back, &length) != CLV_OK)
            abort();
        clv_string_free(back);
        clv_tokens_free(ids);
    }
    clv_tokenizer_destroy(tok);
    return 0;
}
