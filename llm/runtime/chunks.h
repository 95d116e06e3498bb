/* A long text as chunks whose runs are in flight together. */
#pragma once

#include "runners.h"

#include <stdatomic.h>

typedef struct llm_chunks {
    const int32_t *ids; /* [n * length] */
    uint32_t n, length; /* chunks, and tokens of each */
    uint32_t sequence;
    uint32_t position; /* of the first token */
    uint32_t n_flight; /* runs at once, at least 1 */
    bool far;
    atomic_bool *cancelled; /* ends them when it becomes true, and is reset */
    float *rows; /* [n * length, n_vocab]: logits of all tokens; or NULL */
} llm_chunks;

/* With one runner for their length. *done: so many of the first have ended
 * well, also where it fails. No run is in flight when it returns. */
clv_status llm_chunks_run(llm_runner *runner, llm_runner_params *params,
                          const llm_chunks *chunks, uint32_t *done);
/* What that should take. */
clv_status llm_chunks_predict(const llm_runner *runner,
                              const llm_chunks *chunks, clv_prediction *out);
