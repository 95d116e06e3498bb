/* A grammar in GBNF, or a JSON schema as one, up to the first zero byte; then
 * the rest as a text of it. */
#include "../../llm/grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void match(const char *grammar, size_t length, const char *text,
                  size_t size)
{
    llm_grammar *g;
    llm_matcher *m;
    if (llm_grammar_parse(grammar, length, &g) != CLV_OK)
        return;
    if (llm_matcher_create(g, &m) == CLV_OK) {
        for (size_t i = 0; i < size; i++) {
            const bool good = llm_matcher_accepts(m, text + i, 1);
            const bool limited = llm_matcher_status(m) != CLV_OK;
            llm_matcher_advance(m, text + i, 1);
            /* What is accepted can go on, or is complete. */
            if (!good && !limited && llm_matcher_is_complete(m))
                abort();
        }
        llm_matcher_restart(m);
        llm_matcher_accepts(m, text, (uint32_t)size);
        llm_matcher_destroy(m);
    }
    llm_grammar_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *zero = memchr(text, 0, size);
    const size_t length = zero ? (size_t)(zero - text) : size;
    const size_t rest = size - length > 200 ? 200 : size - length;
    char *grammar;
    if (clv_json_schema_grammar(text, length, &grammar) == CLV_OK) {
        match(grammar, strlen(grammar), text + length, rest);
        clv_string_free(grammar);
    }
    match(text, length, text + length, rest);
    return 0;
}
