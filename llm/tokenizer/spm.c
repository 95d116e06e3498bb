#include "spm.h"

#define SPACE "\u2581"

static clv_status add_replace(clv_tokenizer *tok, const char *pattern,
                              bool literal, const char *content)
{
    llm_rewrite rewrite = {.kind = LLM_REWRITE_REPLACE,
                           .content = llm_str_of(content)};
    CLV_TRY(llm_regex_create(llm_str_of(pattern), literal, &rewrite.pattern));
    return llm_normalizer_add(&tok->normalizer, rewrite);
}

clv_status llm_tokenizer_set_spm(clv_tokenizer *tok, const llm_spm *spm)
{
    tok->collapse = spm->collapse;
    if (spm->collapse) {
        CLV_TRY(add_replace(tok, "\\A +| +\\z", false, ""));
        CLV_TRY(add_replace(tok, " {2,}", false, " "));
    }
    if (spm->front) {
        tok->front_space = LLM_FRONT_SPACE_FRAGMENTS;
        CLV_TRY(llm_normalizer_add(&tok->normalizer,
                                   (llm_rewrite){.kind = LLM_REWRITE_PREPEND,
                                                 .content = llm_str_of(" ")}));
    }
    CLV_TRY(add_replace(tok, " ", true, SPACE));
    CLV_TRY(llm_vocab_index(&tok->vocab, false, llm_str_of(SPACE)));
    tok->model.order = spm->unigram ? LLM_MERGE_UNIGRAM : LLM_MERGE_SCORE;
    tok->model.fuse_unknown = spm->unigram;
    return spm->unigram ? llm_unigram_init(&tok->model.unigram, &tok->vocab)
                        : CLV_OK;
}
