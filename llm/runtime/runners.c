#include "runners.h"

#include "../base/str.h"
#include "choice.h"
#include "residency.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* The list                                                                 */

static bool same_shape(const llm_shape *a, const llm_shape *b)
{
    return a->n_tokens == b->n_tokens && a->fixed == b->fixed &&
           a->all_logits == b->all_logits && a->apart == b->apart &&
           a->flight == b->flight;
}

llm_runner *llm_runners_find(const llm_runners *r, const llm_shape *shape)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (same_shape(&r->items[i]->shape, shape))
            return r->items[i];
    return NULL;
}

bool llm_runners_hold(const llm_runners *r, const llm_runner *runner)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->items[i] == runner)
            return true;
    return false;
}

static void drop_oldest(llm_runners *r)
{
    llm_runner_destroy(r->items[--r->n]);
}

static void destroy_workspaces(llm_runners *r)
{
    clv_workspace_destroy(r->params.workspace);
    r->params.workspace = NULL;
    for (uint32_t i = 0; i < LLM_MAX_FLIGHT; i++) {
        clv_workspace_destroy(r->params.others[i]);
        r->params.others[i] = NULL;
    }
}

/* What all of them worked in stays as long as one is there. */
static clv_status empty_workspaces(llm_runners *r)
{
    if (r->n)
        return CLV_OK;
    destroy_workspaces(r);
    return clv_workspace_create(r->model->ctx, &r->params.workspace);
}

/* Out of the list; nothing if it is not there. */
static void take_out(llm_runners *r, const llm_runner *runner)
{
    uint32_t i = 0;
    while (i < r->n && r->items[i] != runner)
        i++;
    if (i < r->n)
        memmove(&r->items[i], &r->items[i + 1],
                (--r->n - i) * sizeof *r->items);
}

/* Moves a runner, which may be a new one, to the front. */
static void put_first(llm_runners *r, llm_runner *runner)
{
    uint32_t i = 0;
    while (i < r->n && r->items[i] != runner)
        i++;
    if (i == r->n)
        r->n++;
    memmove(&r->items[1], &r->items[0], i * sizeof *r->items);
    r->items[0] = runner;
}

void llm_runners_keep(llm_runners *r, llm_runner *runner)
{
    while (r->n >= LLM_MAX_RUNNERS)
        drop_oldest(r);
    put_first(r, runner);
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

static clv_device *device_at(const llm_runners *r, uint32_t i)
{
    return r->params.devices ? r->params.devices[i]
                             : clv_context_device(r->model->ctx, i);
}

static uint32_t count_devices(const llm_runners *r)
{
    return r->params.devices ? r->params.n_devices
                             : clv_context_device_count(r->model->ctx);
}

static void look_at_devices(llm_runners *r)
{
    const uint64_t size = clv_model_describe(r->model)->size;
    r->fixed = r->params.scarce = false;
    r->memory = UINT64_MAX;
    for (uint32_t i = 0; i < count_devices(r); i++) {
        clv_device *dev = device_at(r, i);
        if (!dev || clv_device_lost(dev))
            continue;
        r->fixed |=
            (clv_device_info_of(dev)->flags & CLV_DEVICE_STATIC_SHAPES) != 0;
        if (size <= clv_device_room(dev))
            continue;
        r->params.scarce = true;
        if (clv_device_info_of(dev)->memory_size < r->memory)
            r->memory = clv_device_info_of(dev)->memory_size;
    }
}

void llm_runners_finish(llm_runners *r)
{
    while (r->n)
        drop_oldest(r);
    destroy_workspaces(r);
    free((void *)r->params.devices);
    free(r->lengths);
    r->params = (llm_runner_params){0};
    r->lengths = NULL;
    r->n_lengths = r->n_choices = 0;
    r->compile_ns = 0;
    r->lead = (llm_lead){0};
    r->reserve = (llm_work){0};
}

clv_status llm_runners_reset(llm_runners *r, clv_device *const *devices,
                             uint32_t n_devices, char *const *plans,
                             uint32_t n_plans)
{
    llm_runners_finish(r);
    if (devices) {
        clv_device **left = malloc(n_devices * sizeof *left);
        if (!left)
            return llm_no_memory("devices");
        for (uint32_t i = 0; i < n_devices; i++)
            if (!devices[i] || !clv_device_lost(devices[i]))
                left[r->params.n_devices++] = devices[i];
        r->params.devices = left;
    }
    r->params.plans = plans;
    r->params.n_plans = n_plans;
    look_at_devices(r);
    return clv_workspace_create(r->model->ctx, &r->params.workspace);
}

/* ------------------------------------------------------------------------ */
/* Compiling                                                                */

/* The clock of a device that compiles one length at a time; 0: none is known.
 */
static double compile_clock(const llm_runners *r)
{
    for (uint32_t i = 0; i < count_devices(r); i++) {
        clv_device *dev = device_at(r, i);
        clv_moment now;
        if (!clv_device_lost(dev) &&
            clv_device_info_of(dev)->flags & CLV_DEVICE_STATIC_SHAPES &&
            !clv_device_now(dev, &now))
            return now.ns;
    }
    return 0;
}

/* Shorter batches do as well, in less memory. */
static bool is_longer(const llm_runners *r, const llm_runner *runner)
{
    return !runner->shape.fixed && runner->shape.n_tokens > r->n_batch;
}

/* Compiles a runner. If a device has no more memory or no more space for
 * programs, the oldest runners are destroyed first; if it still has none, it is
 * left out. None of this is done for batches that are longer than usual. */
static clv_status make_ready(llm_runners *r, llm_runner *runner)
{
    clv_status status;
    while (r->n >= LLM_MAX_RUNNERS)
        drop_oldest(r);
    for (;;) {
        const double begin = compile_clock(r);
        const uint64_t compiled = clv_context_programs(r->model->ctx).compiled;
        status = llm_runner_compile(runner, &r->params, r->cache);
        if (!status && runner->shape.fixed &&
            clv_context_programs(r->model->ctx).compiled > compiled)
            r->compile_ns = compile_clock(r) - begin;
        if ((status != CLV_ERR_LIMIT && status != CLV_ERR_NO_MEMORY) ||
            is_longer(r, runner))
            return status;
        if (!r->n) {
            clv_device *dev = clv_plan_short_device(runner->plan);
            if (dev)
                clv_device_leave_out(dev);
            return status;
        }
        drop_oldest(r);
        CLV_TRY(empty_workspaces(r));
    }
}

static bool is_there(const llm_runners *r, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->items[i]->shape.n_tokens == n_tokens)
            return true;
    return false;
}

/* But those of graphs of so many tokens. */
static void drop_others(llm_runners *r, uint32_t a, uint32_t b)
{
    for (uint32_t i = r->n; i-- > 0;) {
        llm_runner *runner = r->items[i];
        if (runner->shape.n_tokens == a || runner->shape.n_tokens == b)
            continue;
        take_out(r, runner);
        llm_runner_destroy(runner);
    }
}

/* ------------------------------------------------------------------------ */
/* Weights that do not find room                                            */

/* Plans are made again if runs showed other costs than the lead was chosen by.
 * The weights stay on devices until others take their place. */
static void look_again(llm_runners *r)
{
    if (!llm_residency_is_doubted(r))
        return;
    drop_others(r, 0, 0);
    r->lead.n = 0;
}

/* Whether such runs have the graph whose plan is made first. */
static bool leads(const llm_runners *r, const llm_request *request)
{
    if (r->lead.n > 1 && r->fixed)
        return request->n == r->lead.n;
    return llm_choice_length(r, request) == r->lead.n_tokens;
}

/* What the plan of such runs is to leave. */
static llm_work reserve_of(const llm_runners *r, const llm_request *request)
{
    return leads(r, request) ? llm_residency_reserve(r, &r->lead)
                             : (llm_work){0};
}

/* Where not all weights find room, those of the lead's plan come first, of
 * single tokens for example, which work with each of them once a token: what
 * other plans are given is left, one at a time, and what lies there already. */
static clv_status make_room(llm_runners *r, const llm_request *request)
{
    const llm_request lead = {.n = r->lead.n,
                              .n_free = r->lead.n > 1 ? r->cache->n_ctx
                                                      : request->n_free,
                              .all_logits = request->all_logits};
    llm_runner *runner;
    if (!r->params.scarce || leads(r, request) ||
        is_there(r, llm_choice_length(r, request)))
        return CLV_OK;
    drop_others(r, r->lead.n_tokens, 1);
    return r->n ? CLV_OK : llm_runners_get(r, &lead, &runner);
}

clv_status llm_runners_weigh(llm_runners *r, const llm_request *request,
                             const clv_device *dev, uint64_t bytes, double *ns)
{
    if (clv_context_objective(r->model->ctx).prompt) {
        CLV_TRY(llm_residency_choose(r));
        CLV_TRY(make_room(r, request));
    }
    if (r->lead.n)
        r->params.reserve = reserve_of(r, request);
    const clv_status status = llm_choice_weigh(r, request, dev, bytes, ns);
    r->params.reserve = (llm_work){0};
    return status;
}

/* One of them, or a new one that is planned. */
static clv_status choose(llm_runners *r, const llm_request *request,
                         llm_runner **out)
{
    r->params.reserve = reserve_of(r, request);
    clv_status status = llm_choice_make(r, request, out);
    if (!status) {
        if (r->params.scarce && (*out)->shape.n_tokens == r->lead.n_tokens &&
            (*out)->learned == CLV_LEARNED_COSTS)
            /* The new plan need not keep to theirs. */
            drop_others(r, r->lead.n_tokens, r->lead.n_tokens);
        llm_runner_plan_again(*out, &r->params);
    }
    r->params.reserve = (llm_work){0};
    return status;
}

clv_status llm_runners_get(llm_runners *r, const llm_request *request,
                           llm_runner **out)
{
    llm_runner *runner;
    look_again(r);
    CLV_TRY(llm_residency_choose(r));
    CLV_TRY(make_room(r, request));
    clv_status status = choose(r, request, &runner);
    if (!status && !runner->exec) {
        take_out(r, runner); /* it may have had another plan */
        status = make_ready(r, runner);
        if (status)
            llm_runner_destroy(runner);
    }
    if (status)
        return status;
    put_first(r, runner);
    *out = runner;
    return CLV_OK;
}
