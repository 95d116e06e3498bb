/*
 * Text that grows. A failed allocation sticks: later calls do nothing and
 * core_text_take() reports it, so a writer checks once at its end.
 */
#pragma once

#include <cleave/cleave.h>

typedef struct core_text {
    char *data; /* NUL-terminated once anything was added */
    size_t size;
    uint32_t capacity;
    bool failed;
} core_text;

void core_text_add(core_text *text, const char *fmt, ...) CLV_PRINTF(2, 3);
/* string with JSON's quotes and escapes; bytes that are no UTF-8 become
 * U+FFFD. */
void core_text_add_json(core_text *text, const char *string);
void core_text_clear(core_text *text); /* keeps the memory */
void core_text_finish(core_text *text);
/* Hands the text over, for free(); CLV_ERR_NO_MEMORY if something is missing.
 * The text is finished either way. */
clv_status core_text_take(core_text *text, char **out);
