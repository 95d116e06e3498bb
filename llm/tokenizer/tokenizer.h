/*
 * A tokenizer from any kind of file. Text goes through these stages:
 *
 *   specials           are found in the text as it is, and split off
 *   normalizer         rewrites the text between them
 *   normalized         more special tokens, found in the rewritten text
 *   splitter           splits the rest into pieces
 *   model              merges each piece into tokens
 *
 * It does not change once loaded, so threads may share it; what encoding needs
 * to write lies in an encoder of each call.
 */
#pragma once

#include "merge.h"
#include "special.h"
#include "split.h"

/* The space that the normalizer or the splitter puts in front of a text. */
typedef enum llm_front_space {
    LLM_FRONT_SPACE_NONE,
    LLM_FRONT_SPACE_START,     /* of the text as a whole */
    LLM_FRONT_SPACE_FRAGMENTS, /* of every part between special tokens */
} llm_front_space;

/* Chat templates that a file may hold. */
typedef enum llm_template_use {
    LLM_TEMPLATE_DEFAULT,
    LLM_TEMPLATE_TOOLS, /* where the conversation offers tools */
    LLM_TEMPLATE_COUNT
} llm_template_use;

struct clv_tokenizer {
    llm_vocab vocab;
    llm_specials specials, normalized;
    llm_normalizer normalizer;
    llm_splitter splitter;
    llm_merge_model model;
    llm_front_space front_space;
    bool collapse;         /* the normalizer leaves one of several spaces */
    int32_t bos, eos, pad; /* -1: none; unk is model.unknown */
    bool add_bos;
    char *templates[LLM_TEMPLATE_COUNT]; /* NULL: none */
};

clv_status llm_tokenizer_create(clv_tokenizer **out);
/* To be called when the vocabulary is indexed: recognises control and
 * user-defined tokens in texts. */
clv_status llm_tokenizer_add_specials(clv_tokenizer *tok);
/* Marks eos, and the tokens whose text is known to end a text. */
void llm_tokenizer_mark_ends(clv_tokenizer *tok);

/* Keeps a chat template. One with a NUL ends there, and one that is none is
 * refused when it is used. */
clv_status llm_tokenizer_set_template(clv_tokenizer *tok, llm_template_use use,
                                      llm_str text);

/* Adds the merge of two tokens, given by their texts. CLV_ERR_NOT_FOUND if one
 * of the three is not in the vocabulary. scratch starts as zeros. */
clv_status llm_tokenizer_add_merge(clv_tokenizer *tok, llm_str left,
                                   llm_str right, uint32_t rank,
                                   llm_bytes *scratch);
