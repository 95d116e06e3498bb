#include "tokenizer.h"

static const llm_token *token_of(const clv_tokenizer *tok, int32_t id)
{
    return id >= 0 && (uint32_t)id < tok->vocab.n ? &tok->vocab.tokens[id]
                                                  : NULL;
}

/* Whether encoding puts a space in front of what follows this token. It does
 * not where the unknown token stands for a part of a text. */
static bool space_follows(const clv_tokenizer *tok, const llm_token *token)
{
    return tok->front_space == LLM_FRONT_SPACE_FRAGMENTS &&
           token - tok->vocab.tokens != tok->model.unknown &&
           (llm_token_is_special(token) ||
            token->type == LLM_TOKEN_USER_DEFINED);
}

static clv_status decode(const clv_tokenizer *tok, const int32_t *ids,
                         uint64_t n, bool special, llm_bytes *out)
{
    /* A space before the first token or after a special one is not text. */
    bool front = tok->front_space != LLM_FRONT_SPACE_NONE;
    for (uint64_t i = 0; i < n; i++) {
        const llm_token *token = token_of(tok, ids[i]);
        if (!token)
            return clv_error(CLV_ERR_INVALID,
                             "token id %d is not in the vocabulary of %u",
                             ids[i], tok->vocab.n);
        llm_str bytes = llm_token_bytes(token);
        bool spaced = space_follows(tok, token);
        if (llm_token_is_special(token)) {
            if (special)
                CLV_TRY(llm_bytes_append(out, bytes.data, bytes.size));
            front = front || spaced;
            continue;
        }
        if (front && !spaced && bytes.size && bytes.data[0] == ' ') {
            bytes.data++;
            bytes.size--;
        }
        front = spaced;
        CLV_TRY(llm_bytes_append(out, bytes.data, bytes.size));
    }
    return llm_bytes_append(out, "", 1);
}

clv_status clv_detokenize(const clv_tokenizer *tok, const int32_t *ids,
                          uint64_t n, bool special, char **text,
                          uint64_t *length)
{
    llm_bytes out = {0};
    clv_status status = decode(tok, ids, n, special, &out);
    if (status) {
        free(out.items);
        return status;
    }
    *text = out.items;
    *length = out.n - 1;
    return CLV_OK;
}

const char *clv_token_bytes(const clv_tokenizer *tok, int32_t id,
                            uint32_t *length)
{
    const llm_token *token = token_of(tok, id);
    if (!token || llm_token_is_special(token)) {
        *length = 0;
        return "";
    }
    *length = (uint32_t)token->bytes_size;
    return token->bytes;
}

bool clv_token_is_end(const clv_tokenizer *tok, int32_t id)
{
    const llm_token *token = token_of(tok, id);
    return token && token->end;
}
