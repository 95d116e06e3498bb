/* Parts of a session that clv_generate() uses beside llm.h. */
#pragma once

#include "model.h"

clv_model *llm_session_model(const clv_session *session);
/* Tokens of a text of n to evaluate at a time: a batch, or where batches are in
 * flight, so many that devices seldom run out of them. */
uint32_t llm_session_at_once(clv_session *session, uint32_t n);
/* [position]: the tokens in the cache, until it changes. */
const int32_t *llm_session_ids(const clv_session *session);
/* Removes a cancellation that came after the run it was meant for. */
void llm_session_forget_cancel(clv_session *session);
/* CLV_ERR_LIMIT if n more tokens do not fit the context; CLV_ERR_INVALID if an
 * id is outside the vocabulary. */
clv_status llm_session_check(const clv_session *session, const int32_t *ids,
                             uint32_t n);
