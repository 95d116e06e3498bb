/*
 * The state of one rendering: its memory, and how much it may still do.
 */
#pragma once

#include "../base/array.h"

typedef struct llm_jinja llm_jinja;
typedef struct llm_value llm_value;
typedef struct llm_scope llm_scope;
typedef struct llm_chunk llm_chunk;

struct llm_jinja {
    llm_chunk *chunks;
    uint64_t used;         /* bytes of memory */
    uint64_t steps;        /* so far */
    uint32_t depth;        /* of nested evaluation */
    uint32_t line;         /* being evaluated */
    llm_bytes text, marks; /* texts being made, one behind the other */
    llm_scope *globals;
    const llm_value *block; /* what the filters of a block are applied to */
    uint64_t reads, writes; /* of namespaces */
    int64_t now;            /* seconds since 1970 */
};

void llm_jinja_finish(llm_jinja *j);
/* Zeroed memory for n items of a size; NULL, with a message, if there is none
 * or the rendering has used what it may. */
void *llm_jinja_alloc(llm_jinja *j, uint64_t n, uint64_t size);
/* Counts n steps; CLV_ERR_LIMIT if there are too many. */
clv_status llm_jinja_work(llm_jinja *j, uint64_t n);
/* To be called before and after nested work: CLV_ERR_LIMIT if it is too deep.
 */
clv_status llm_jinja_enter(llm_jinja *j);
void llm_jinja_leave(llm_jinja *j);
/* Sets a message that names the line and --chat-template. */
clv_status llm_jinja_error(const llm_jinja *j, clv_status status,
                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* For what Python may have and we have not: "line 3: WHAT is not supported". */
clv_status llm_jinja_unknown(const llm_jinja *j, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
