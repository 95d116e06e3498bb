/*
 * A tokenizer, whatever file it came from. Text goes through these stages:
 *
 *   specials           split off, found in the text as it is
 *   normalizer         rewrites what lies between
 *   normalized         more special tokens, found in the rewritten text
 *   splitter           cuts the rest into pieces
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

struct clv_tokenizer {
    llm_vocab vocab;
    llm_specials specials, normalized;
    llm_normalizer normalizer;
    llm_splitter splitter;
    llm_merge_model model;
    llm_front_space front_space;
    int32_t bos, eos, pad; /* -1: none; unk is model.unknown */
    bool add_bos;
};

clv_status llm_tokenizer_create(clv_tokenizer **out);
/* Once the vocabulary is indexed: recognises control and user-defined tokens in
 * texts. */
clv_status llm_tokenizer_add_specials(clv_tokenizer *tok);
/* Marks eos and the tokens that are known to end a text by how they read. */
void llm_tokenizer_mark_ends(clv_tokenizer *tok);

/* The merge of two tokens, by their texts, into that of both. CLV_ERR_NOT_FOUND
 * if one of the three is not in the vocabulary. scratch starts as zeroes. */
clv_status llm_tokenizer_add_merge(clv_tokenizer *tok, llm_str left,
                                   llm_str right, uint32_t rank,
                                   llm_bytes *scratch);

/* The steps that go by this name in GGUF files. */
typedef struct llm_pre {
    const char *names;       /* separated by spaces */
    const char *patterns[6]; /* applied in turn; NULL: end */
    bool whole_first;        /* as in llm_merge_model */
    bool add_bos;            /* where the file does not say */
} llm_pre;
/* CLV_ERR_UNSUPPORTED, with a list of the known ones, for another name. */
clv_status llm_pre_find(llm_str name, const llm_pre **out);
/* A name, ended by a space or NUL, for n patterns applied in turn; NULL if none
 * is known. */
const char *llm_pre_name(const char *const *patterns, uint64_t n,
                         bool whole_first);
/* The pattern of GPT-2, which ByteLevel means in tokenizer.json. */
extern const char llm_pattern_gpt2[];
