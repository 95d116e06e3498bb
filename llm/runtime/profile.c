#include "profile.h"

#include "../base/str.h"
#include "choice.h"

#include <stdlib.h>

typedef struct wanted {
    llm_shape *shapes; /* each once */
    uint32_t n;
} wanted;

static void add(wanted *w, const llm_shape *shape)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->shapes[i].n_tokens == shape->n_tokens &&
            w->shapes[i].fixed == shape->fixed)
            return;
    w->shapes[w->n++] = *shape;
}

/* Devices that take any shape run the graph for all lengths, but measurements
 * of exact lengths predict most of the other lengths too. */
static clv_status find_shapes(llm_runners *r, const uint32_t *lengths,
                              uint32_t n, uint32_t n_free, wanted *w)
{
    w->shapes = calloc(n, (LLM_MAX_TRIED + 1) * sizeof *w->shapes);
    if (!w->shapes)
        return llm_no_memory("lengths");
    for (uint32_t i = 0; i < n; i++) {
        const llm_request request = {.n = lengths[i], .n_free = n_free};
        llm_shape shapes[LLM_MAX_TRIED];
        uint32_t count;
        CLV_TRY(llm_choice_shapes(r, &request, shapes, &count));
        for (uint32_t j = 0; j < count; j++)
            add(w, &shapes[j]);
        if (!r->fixed && lengths[i] > 1 && r->n_batch > 1)
            add(w, &(llm_shape){.n_tokens = r->n_batch});
    }
    return CLV_OK;
}

/* Progress of one graph among all. */
typedef struct share {
    clv_progress_fn progress;
    void *ctx;
    uint32_t index, n;
} share;

static int on_progress(void *ctx, const char *what, double fraction)
{
    const share *s = ctx;
    return s->progress ? s->progress(s->ctx, what, (s->index + fraction) / s->n)
                       : 0;
}

clv_status llm_profile(llm_runners *r, const uint32_t *lengths, uint32_t n,
                       uint32_t n_free, const clv_profile_params *params)
{
    clv_profile_params p = params ? *params : (clv_profile_params){0};
    wanted w = {0};
    clv_status status = find_shapes(r, lengths, n, n_free, &w);
    share s = {.progress = p.progress, .ctx = p.progress_ctx, .n = w.n};
    p.devices = r->params.devices;
    p.n_devices = r->params.n_devices;
    p.progress = on_progress;
    p.progress_ctx = &s;
    for (; s.index < w.n && !status; s.index++) {
        llm_runner *runner;
        status =
            llm_runner_create(r->model, r->cache, &w.shapes[s.index], &runner);
        if (status)
            break;
        status = clv_profile_graph(r->model->ctx, runner->graph, &p);
        llm_runner_destroy(runner);
        p.again = false; /* not what was just measured */
    }
    free(w.shapes);
    return status;
}
