/* A tokenizer.model of SentencePiece, and a text through it. */
#include "../../llm/tokenizer/model.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "ab  12.\u00e9<s>\u2581 e\u0301\n\xff\xc3 c";

static void use(const clv_tokenizer *tok)
{
    int32_t *ids;
    uint64_t n, length;
    char *back;
    if (clv_tokenize(tok, text, sizeof text - 1,
                     CLV_TOKENIZE_BOS | CLV_TOKENIZE_SPECIAL, &ids,
                     &n) != CLV_OK)
        return;
    if (clv_detokenize(tok, ids, n, true, &back, &length) != CLV_OK)
        abort();
    clv_string_free(back);
    clv_tokens_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    clv_tokenizer *tok;
    if (llm_tokenizer_parse_model(data, size, "fuzz.model", &tok) != CLV_OK)
        return 0;
    use(tok);
    clv_tokenizer_destroy(tok);
    return 0;
}
