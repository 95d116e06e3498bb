#include "vocab.h"
#include "../base/utf8.h"

#include <string.h>

#define CHUNK_SIZE (1u << 20)
#define ALPHABET 324 /* code points up to U+0143 */

struct llm_arena_chunk {
    llm_arena_chunk *next;
    uint64_t used, size;
    char data[];
};

clv_status llm_vocab_init(llm_vocab *vocab, uint32_t n)
{
    *vocab = (llm_vocab){0};
    memset(vocab->byte_ids, 0xff, sizeof vocab->byte_ids);
    if (n > LLM_MAX_TOKENS)
        return clv_error(CLV_ERR_LIMIT,
                         "vocabulary of %u tokens: at most %u "
                         "are supported",
                         n, LLM_MAX_TOKENS);
    vocab->tokens = calloc(n ? n : 1, sizeof *vocab->tokens);
    if (!vocab->tokens)
        return llm_no_memory("tokens");
    vocab->n = n;
    for (uint32_t i = 0; i < n; i++)
        vocab->tokens[i].type = LLM_TOKEN_NORMAL;
    return CLV_OK;
}

void llm_vocab_finish(llm_vocab *vocab)
{
    for (llm_arena_chunk *chunk = vocab->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(vocab->tokens);
    free(vocab->slots);
    *vocab = (llm_vocab){0};
}

clv_status llm_vocab_store(llm_vocab *vocab, llm_str s, llm_str *out)
{
    llm_arena_chunk *chunk = vocab->chunks;
    if (!chunk || chunk->size - chunk->used < s.size) {
        uint64_t size = s.size > CHUNK_SIZE ? s.size : CHUNK_SIZE;
        chunk = malloc(sizeof *chunk + size);
        if (!chunk)
            return llm_no_memory("the texts of tokens");
        *chunk = (llm_arena_chunk){.next = vocab->chunks, .size = size};
        vocab->chunks = chunk;
    }
    char *data = chunk->data + chunk->used;
    if (s.size)
        memcpy(data, s.data, s.size);
    chunk->used += s.size;
    *out = (llm_str){data, s.size};
    return CLV_OK;
}

static clv_status store_sized(llm_vocab *vocab, llm_str s, const char **data,
                              uint32_t *size)
{
    llm_str stored = {0};
    if (s.size > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "a token of %llu bytes: at most %d are supported",
                         (unsigned long long)s.size, INT32_MAX);
    CLV_TRY(llm_vocab_store(vocab, s, &stored));
    *data = stored.data;
    *size = (uint32_t)stored.size;
    return CLV_OK;
}

llm_str llm_token_text(const llm_token *token)
{
    return (llm_str){token->text, token->text_size};
}

llm_str llm_token_bytes(const llm_token *token)
{
    return (llm_str){token->bytes, token->bytes_size};
}

clv_status llm_vocab_set(llm_vocab *vocab, uint32_t id, llm_str text,
                         llm_token_type type, float score)
{
    llm_token *token = &vocab->tokens[id];
    token->type = (uint8_t)type;
    token->score = score;
    return store_sized(vocab, text, &token->text, &token->text_size);
}

bool llm_token_is_mergeable(const llm_token *token)
{
    return token->type != LLM_TOKEN_CONTROL &&
           token->type != LLM_TOKEN_UNKNOWN && token->type != LLM_TOKEN_BYTE;
}

bool llm_token_is_special(const llm_token *token)
{
    return token->type == LLM_TOKEN_CONTROL ||
           token->type == LLM_TOKEN_UNKNOWN || !token->text_size;
}

/* ------------------------------------------------------------------------ */
/* Spelling                                                                 */

/* GPT-2's alphabet: a byte that is printable in Latin-1 is its own code point,
 * the others have those from U+0100 on. */
static bool is_plain(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

uint32_t llm_vocab_spell_byte(uint8_t byte, char out[2])
{
    uint32_t point = byte;
    if (!is_plain(byte)) {
        point = 0x100;
        for (uint32_t other = 0; other < byte; other++)
            point += !is_plain(other);
    }
    char text[4];
    uint32_t size = llm_utf8_encode(point, text);
    memcpy(out, text, 2);
    return size;
}

/* The byte of a code point; -1: not in the alphabet. */
static int alphabet_byte(uint32_t point)
{
    if (point < 0x100)
        return is_plain(point) ? (int)point : -1;
    if (point >= ALPHABET)
        return -1;
    uint32_t skip = point - 0x100;
    for (uint32_t byte = 0; byte < 256; byte++)
        if (!is_plain(byte) && !skip--)
            return (int)byte;
    return -1;
}

clv_status llm_vocab_spelled_bytes(llm_str text, llm_bytes *out)
{
    uint64_t start = out->n;
    for (uint64_t i = 0; i < text.size;) {
        uint32_t size = llm_utf8_size(text.data + i, text.size - i);
        int byte =
            size ? alphabet_byte(llm_utf8_decode(text.data + i, size)) : -1;
        if (byte < 0) {
            out->n = start;
            return llm_bytes_append(out, text.data, text.size);
        }
        char c = (char)byte;
        CLV_TRY(llm_bytes_append(out, &c, 1));
        i += size;
    }
    return CLV_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int llm_token_byte(llm_str text)
{
    if (text.size != 6 || memcmp(text.data, "<0x", 3) || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static clv_status unspell_spaces(const llm_vocab *vocab, llm_str text,
                                 llm_bytes *out)
{
    llm_str space = vocab->space;
    for (uint64_t i = 0; i < text.size;) {
        bool match = space.size && text.size - i >= space.size &&
                     !memcmp(text.data + i, space.data, space.size);
        CLV_TRY(llm_bytes_append(out, match ? " " : text.data + i, 1));
        i += match ? space.size : 1;
    }
    return CLV_OK;
}

static clv_status set_bytes(llm_vocab *vocab, uint32_t id, llm_bytes *scratch)
{
    llm_token *token = &vocab->tokens[id];
    bool special = llm_token_is_special(token);
    scratch->n = 0;
    if (token->type == LLM_TOKEN_BYTE) {
        int byte = llm_token_byte(llm_token_text(token));
        if (byte < 0)
            return clv_error(CLV_ERR_FORMAT,
                             "token %u, '%s', is marked as a "
                             "byte but is not of the form <0x00>",
                             id, llm_str_show(llm_token_text(token)).text);
        char c = (char)byte;
        vocab->byte_ids[byte] = (int32_t)id;
        CLV_TRY(llm_bytes_append(scratch, &c, 1));
    } else if (special ||
               (vocab->byte_level && token->type == LLM_TOKEN_USER_DEFINED)) {
        token->bytes = token->text;
        token->bytes_size = token->text_size;
        return CLV_OK;
    } else if (vocab->byte_level) {
        CLV_TRY(llm_vocab_spelled_bytes(llm_token_text(token), scratch));
        if (scratch->n == 1 && llm_token_is_mergeable(token))
            vocab->byte_ids[(uint8_t)scratch->items[0]] = (int32_t)id;
    } else {
        CLV_TRY(unspell_spaces(vocab, llm_token_text(token), scratch));
    }

    if (llm_str_equal((llm_str){scratch->items, scratch->n},
                      llm_token_text(token))) {
        token->bytes = token->text;
        token->bytes_size = token->text_size;
        return CLV_OK;
    }
    return store_sized(vocab, (llm_str){scratch->items, scratch->n},
                       &token->bytes, &token->bytes_size);
}

/* ------------------------------------------------------------------------ */
/* Index                                                                    */

static uint32_t hash(const char *key, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)key[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

static llm_str key_of(const llm_vocab *vocab, uint32_t id)
{
    const llm_token *token = &vocab->tokens[id];
    return vocab->byte_level ? llm_token_bytes(token) : llm_token_text(token);
}

static clv_status insert(llm_vocab *vocab, uint32_t id)
{
    llm_str key = key_of(vocab, id);
    uint32_t slot = hash(key.data, key.size) & vocab->mask;
    for (; vocab->slots[slot]; slot = (slot + 1) & vocab->mask) {
        uint32_t other = vocab->slots[slot] - 1;
        if (!llm_str_equal(key_of(vocab, other), key))
            continue;
        llm_str text = llm_token_text(&vocab->tokens[id]);
        if (llm_str_equal(llm_token_text(&vocab->tokens[other]), text))
            return clv_error(CLV_ERR_FORMAT,
                             "token %u, '%s', has the same "
                             "text as token %u",
                             id, llm_str_show(text).text, other);
        return CLV_OK;
    }
    vocab->slots[slot] = id + 1;
    if (key.size > vocab->longest)
        vocab->longest = key.size;
    return CLV_OK;
}

/* Ordinary tokens first, then those that merging rarely makes. */
static int rank_of(const llm_token *token)
{
    if (!llm_token_is_mergeable(token))
        return 2;
    return token->type == LLM_TOKEN_USER_DEFINED ? 1 : 0;
}

clv_status llm_vocab_index(llm_vocab *vocab, bool byte_level, llm_str space)
{
    vocab->byte_level = byte_level;
    clv_status status = llm_vocab_store(vocab, space, &vocab->space);
    llm_bytes scratch = {0};
    for (uint32_t id = 0; id < vocab->n && !status; id++)
        status = set_bytes(vocab, id, &scratch);
    free(scratch.items);
    if (status)
        return status;

    uint32_t size = 16;
    while (size / 4 * 3 < vocab->n)
        size *= 2;
    vocab->slots = calloc(size, sizeof *vocab->slots);
    if (!vocab->slots)
        return llm_no_memory("tokens");
    vocab->mask = size - 1;
    for (int rank = 0; rank < 3; rank++) {
        for (uint32_t id = 0; id < vocab->n; id++) {
            const llm_token *token = &vocab->tokens[id];
            if (token->text_size && rank_of(token) == rank)
                CLV_TRY(insert(vocab, id));
        }
    }
    return CLV_OK;
}

int32_t llm_vocab_find(const llm_vocab *vocab, const char *key, uint64_t n)
{
    if (n > vocab->longest)
        return -1;
    uint32_t slot = hash(key, n) & vocab->mask;
    for (; vocab->slots[slot]; slot = (slot + 1) & vocab->mask) {
        uint32_t id = vocab->slots[slot] - 1;
        if (llm_str_equal(key_of(vocab, id), (llm_str){key, n}))
            return (int32_t)id;
    }
    return -1;
}

int32_t llm_vocab_find_text(const llm_vocab *vocab, llm_str text)
{
    for (uint32_t id = 0; text.size && id < vocab->n; id++)
        if (llm_str_equal(llm_token_text(&vocab->tokens[id]), text))
            return (int32_t)id;
    return -1;
}
