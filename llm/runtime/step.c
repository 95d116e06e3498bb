/* One token of each of several sequences, in one batch. */
#include "evaluate.h"

#include "../base/str.h"

#include <stdlib.h>

static clv_status check_step(const clv_session *s, const clv_step *step,
                             uint32_t i)
{
    const uint32_t n_vocab = s->model->hp->n_vocab;
    if (step->sequence >= s->cache.n_sequences)
        return clv_error(CLV_ERR_INVALID,
                         "step %u is of sequence %u; the session has %u "
                         "(n_sequences)",
                         i, step->sequence, s->cache.n_sequences);
    if (step->id < 0 || (uint32_t)step->id >= n_vocab)
        return clv_error(CLV_ERR_INVALID,
                         "step %u is id %d; the vocabulary has 0..%u", i,
                         step->id, n_vocab - 1);
    if (s->sequences[step->sequence].position >= s->n_ctx)
        return clv_error(CLV_ERR_LIMIT,
                         "sequence %u is as long as the context of %u tokens; "
                         "use a larger one (n_ctx)",
                         step->sequence, s->n_ctx);
    return CLV_OK;
}

static clv_status check_steps(const clv_session *s, const clv_step *steps,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        CLV_TRY(check_step(s, &steps[i], i));
        for (uint32_t j = 0; j < i; j++)
            if (steps[j].sequence == steps[i].sequence)
                return clv_error(CLV_ERR_INVALID,
                                 "steps %u and %u are both of sequence %u", j,
                                 i, steps[i].sequence);
    }
    return CLV_OK;
}

/* What the tokens are run with; the caller's memory holds places and ids. */
static clv_status prepare(clv_session *s, const clv_step *steps, uint32_t n,
                          llm_place *places, int32_t *ids, uint32_t *n_free)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        llm_sequence *q = &s->sequences[steps[i].sequence];
        CLV_TRY(llm_sequence_reserve(q, 1, s->n_ctx));
        ids[i] = steps[i].id;
        places[i] = (llm_place){steps[i].sequence, q->position};
        longest = q->position + 1 > longest ? q->position + 1 : longest;
    }
    /* Rows of padding are those of the last token: they need no room. A single
     * token has none. */
    *n_free = n > 1 ? s->n_batch : s->n_ctx - places[0].position;
    return llm_session_choose_rope(s, longest);
}

static clv_status run(clv_session *s, const clv_step *steps, uint32_t n,
                      llm_place *places, int32_t *ids)
{
    llm_request request = {.n = n, .all_logits = n > 1, .apart = n > 1};
    llm_runner *runner;
    CLV_TRY(prepare(s, steps, n, places, ids, &request.n_free));
    const llm_input input = {.ids = ids,
                             .n = n,
                             .first = places[0],
                             .places = n > 1 ? places : NULL,
                             .far = s->far};
    CLV_TRY(llm_session_run(s, &request, &input, &runner));
    s->latest = runner;
    s->several = NULL;
    for (uint32_t i = 0; i < n; i++)
        llm_sequence_add(&s->sequences[steps[i].sequence], &steps[i].id, 1);
    return CLV_OK;
}

clv_status clv_session_step(clv_session *session, const clv_step *steps,
                            uint32_t n, const float **logits)
{
    if (!session || !steps || !n || !logits)
        return clv_error(CLV_ERR_INVALID,
                         "clv_session_step: no session, steps or logits");
    if (n > session->n_batch)
        return clv_error(CLV_ERR_LIMIT,
                         "%u steps at once; a batch has %u tokens (n_batch)", n,
                         session->n_batch);
    CLV_TRY(check_steps(session, steps, n));
    if (atomic_exchange(&session->cancelled, false))
        return clv_error(CLV_ERR_CANCELLED, "cancelled");
    llm_place *places = calloc(n, sizeof *places);
    int32_t *ids = calloc(n, sizeof *ids);
    const clv_status status = places && ids
                                  ? run(session, steps, n, places, ids)
                                  : llm_no_memory("steps");
    free(places);
    free(ids);
    if (!status)
        *logits = llm_runner_logits(session->latest);
    return status;
}
