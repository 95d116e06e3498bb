/*
 * A chat template and, behind a NUL, a conversation in JSON: any bytes of both
 * give a text or an error, and the same one again. Ranges lie in order inside
 * the text.
 */
#include <cleave/llm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const clv_chat_text *text)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < text->n_ranges; i++) {
        const clv_text_range *range = &text->ranges[i];
        if (range->start < at || !range->size ||
            range->start + range->size > text->length)
            abort();
        at = range->start + range->size + 1;
    }
    if (text->text[text->length])
        abort();
}

static void render(const clv_chat_template *t, const char *messages,
                   uint64_t length)
{
    const clv_chat_params params = {.variables = "{\"bos_token\":\"<s>\"}",
                                    .now = 1721998800};
    clv_chat_text first = {0}, second = {0};
    const clv_status status =
        clv_chat_template_apply(t, messages, length, &params, &first);
    if (status !=
        clv_chat_template_apply(t, messages, length, &params, &second))
        abort();
    if (!status) {
        check(&first);
        if (first.length != second.length ||
            memcmp(first.text, second.text, first.length))
            abort();
    }
    clv_chat_text_free(&first);
    clv_chat_text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    clv_chat_template *t;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    const size_t n = strlen(text);
    if (clv_chat_template_create(text, NULL, &t) == CLV_OK) {
        render(t, n < size ? text + n + 1 : "[]", n < size ? size - n - 1 : 2);
        clv_chat_template_destroy(t);
    }
    free(text);
    return 0;
}
