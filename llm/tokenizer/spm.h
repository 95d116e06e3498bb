/* What tokenizers of SentencePiece have in common, whatever file they are in.
 */
#pragma once

#include "tokenizer.h"

typedef struct llm_spm {
    bool unigram;  /* else merges by score */
    bool front;    /* a space goes in front of every part of a text */
    bool collapse; /* of several spaces one stays, and none at the ends */
} llm_spm;

/* To be called when all tokens are set: indexes them. */
clv_status llm_tokenizer_set_spm(clv_tokenizer *tok, const llm_spm *spm);
