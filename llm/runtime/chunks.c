#include "chunks.h"
#include "../base/str.h"

#include <stdlib.h>
#include <string.h>

static void copy_rows(const llm_runner *runner, const llm_chunks *c,
                      uint32_t chunk)
{
    const uint64_t n = (uint64_t)c->length * runner->model->hp->n_vocab;
    if (c->rows)
        memcpy(c->rows + chunk * n, llm_runner_logits(runner),
               n * sizeof *c->rows);
}

static clv_status submit(llm_runner *runner, const llm_chunks *c,
                         uint32_t chunk, uint32_t run)
{
    if (atomic_exchange(c->cancelled, false))
        return clv_error(CLV_ERR_CANCELLED, "cancelled");
    const llm_input input = {
        .ids = c->ids + (uint64_t)chunk * c->length,
        .n = c->length,
        .first = {c->sequence, c->position + chunk * c->length},
        .far = c->far};
    return llm_runner_submit(runner, run, &input);
}

/* Those that are still in flight; which of them ended well is not asked. */
static void drain(llm_runner *runner)
{
    for (uint32_t i = 0; i < runner->n_runs; i++)
        clv_run_cancel(runner->runs[i]);
    for (uint32_t i = 0; i < runner->n_runs; i++)
        clv_run_wait(runner->runs[i]);
}

clv_status llm_chunks_run(llm_runner *runner, llm_runner_params *params,
                          const llm_chunks *c, uint32_t *done)
{
    clv_status status = CLV_OK;
    llm_runner_reserve(runner, params, c->n_flight);
    const uint32_t most =
        runner->n_runs < c->n_flight ? runner->n_runs : c->n_flight;
    uint32_t submitted = 0;
    for (*done = 0; *done < c->n && !status;) {
        while (submitted < c->n && submitted < *done + most && !status) {
            status = submit(runner, c, submitted, submitted % most);
            submitted += !status;
        }
        if (!status)
            status = llm_runner_wait(runner, *done % most);
        if (!status)
            copy_rows(runner, c, (*done)++);
    }
    if (status) {
        char message[1024];
        strncpy(message, clv_last_error(), sizeof message - 1);
        message[sizeof message - 1] = 0;
        drain(runner);
        clv_error(status, "%s", message);
    }
    return status;
}

clv_status llm_chunks_predict(const llm_runner *runner, const llm_chunks *c,
                              clv_prediction *out)
{
    int64_t *symbols = calloc(LLM_SYMBOLS * (size_t)c->n, sizeof *symbols);
    uint32_t n = 0;
    if (!symbols)
        return llm_no_memory("a prediction");
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t own[LLM_SYMBOLS];
        n = llm_runner_symbols(runner, c->length, c->position + i * c->length,
                               own);
        memcpy(symbols + (size_t)i * n, own, n * sizeof *own);
    }
    const clv_status status = clv_plan_predict_flight(runner->plan, symbols, n,
                                                      c->n, c->n_flight, out);
    free(symbols);
    return status;
}
