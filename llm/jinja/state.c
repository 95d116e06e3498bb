#include "state.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define MAX_MEMORY (512ull << 20)
#define MAX_STEPS (20ull << 20)
#define MAX_DEPTH 600
#define CHUNK_SIZE (64u << 10)

struct llm_chunk {
    llm_chunk *next;
    uint64_t size, used;
    max_align_t data[];
};

void llm_jinja_finish(llm_jinja *j)
{
    while (j->chunks) {
        llm_chunk *next = j->chunks->next;
        free(j->chunks);
        j->chunks = next;
    }
    free(j->text.items);
    free(j->marks.items);
}

static llm_chunk *add_chunk(llm_jinja *j, uint64_t need)
{
    const uint64_t size = need > CHUNK_SIZE ? need : CHUNK_SIZE;
    if (size > MAX_MEMORY - j->used) {
        llm_jinja_error(j, CLV_ERR_LIMIT, "takes more than %llu MiB of memory",
                        MAX_MEMORY >> 20);
        return NULL;
    }
    llm_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) {
        llm_no_memory("a chat template");
        return NULL;
    }
    j->used += size;
    chunk->size = size;
    /* A large one behind the first, which goes on being filled. */
    if (need > CHUNK_SIZE / 4 && j->chunks) {
        chunk->next = j->chunks->next;
        j->chunks->next = chunk;
    } else {
        chunk->next = j->chunks;
        j->chunks = chunk;
    }
    return chunk;
}

void *llm_jinja_alloc(llm_jinja *j, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > MAX_MEMORY)
        bytes = MAX_MEMORY + 1;
    bytes = (bytes + sizeof(max_align_t)) & ~(sizeof(max_align_t) - 1);
    llm_chunk *chunk = j->chunks;
    if (!chunk || bytes > chunk->size - chunk->used)
        chunk = add_chunk(j, bytes);
    if (!chunk)
        return NULL;
    void *at = (char *)chunk->data + chunk->used;
    chunk->used += bytes;
    return at;
}

clv_status llm_jinja_work(llm_jinja *j, uint64_t n)
{
    j->steps += n;
    if (j->steps <= MAX_STEPS)
        return CLV_OK;
    return llm_jinja_error(j, CLV_ERR_LIMIT, "takes more than %llu steps",
                           MAX_STEPS);
}

clv_status llm_jinja_enter(llm_jinja *j)
{
    CLV_TRY(llm_jinja_work(j, 1));
    if (j->depth >= MAX_DEPTH)
        return llm_jinja_error(j, CLV_ERR_LIMIT, "is nested more than %d deep",
                               MAX_DEPTH);
    j->depth++;
    return CLV_OK;
}

void llm_jinja_leave(llm_jinja *j)
{
    j->depth--;
}

clv_status llm_jinja_error(const llm_jinja *j, clv_status status,
                           const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return clv_error(status,
                     "chat template, line %u: %s; --chat-template takes "
                     "another one",
                     j->line, what);
}

clv_status llm_jinja_unknown(const llm_jinja *j, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return llm_jinja_error(j, CLV_ERR_UNSUPPORTED, "%s is not supported", what);
}
