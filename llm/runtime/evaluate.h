/*
 * Evaluation: tokens run in batches, one at a time or several in flight, as
 * split.h chooses. Where a device fails, the rest runs without it.
 */
#pragma once

#include "session.h"

/* Runs a batch, and if a device fails, again without it. input NULL: only
 * prepares for one. */
clv_status llm_session_run(clv_session *session, const llm_request *request,
                           const llm_input *input, llm_runner **runner);
/* No longer names runners that others replaced. */
void llm_session_forget_dropped(clv_session *session);
/* Tokens of a text of n to evaluate at a time: a batch, or where batches are in
 * flight, so many that devices seldom run out of them. */
uint32_t llm_session_at_once(clv_session *session, uint32_t n);
/* CLV_ERR_LIMIT if n more tokens do not fit the context; CLV_ERR_INVALID if an
 * id is outside the vocabulary. */
clv_status llm_session_check(const clv_session *session, const int32_t *ids,
                             uint32_t n);
