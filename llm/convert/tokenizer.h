/*
 * A tokenizer as settings of a GGUF file.
 */
#pragma once

#include "../files/gguf_write.h"

/*
 * Adds the description of tok to w: byte-level vocabularies as "gpt2", those
 * like SentencePiece as "llama". dir is the directory of tok: its
 * tokenizer.json says how texts are split. n_vocab: rows of the embedding; ids
 * past the vocabulary are written as unused tokens.
 *
 * CLV_ERR_UNSUPPORTED if GGUF cannot describe tok.
 */
clv_status llm_convert_tokenizer(const clv_tokenizer *tok, const char *dir,
                                 uint32_t n_vocab, llm_gguf_writer *w);
