/*
 * Messages of protocol buffers. The project reads one kind, tokenizer.model, of
 * which a dozen fields matter: too few to depend on a library for.
 */
#pragma once

#include "../base/str.h"

typedef struct llm_message {
    const uint8_t *at, *end;
    const char *name; /* of the file */
} llm_message;

typedef struct llm_field {
    uint32_t number;
    uint64_t value; /* of a number, or the bits of a float */
    llm_str bytes;  /* of a text or a message */
} llm_field;

/* The next field; *more is false at the end. */
clv_status llm_message_next(llm_message *message, llm_field *out, bool *more);
/* The message that a field is. */
llm_message llm_message_inside(const llm_message *message, llm_str bytes);
clv_status llm_message_damaged(const llm_message *message);
