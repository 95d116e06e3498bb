#include "residency.h"

#include "choice.h"

#include <math.h>

/* The plan of a batch is first if that gains so much: costs are not known
 * better. */
#define GAIN 0.01
/* So often the lead is chosen: runs correct costs less and less. */
#define MAX_CHOICES 3
/* A longer batch that nobody asked for works on this part of a memory more than
 * a usual one, at most. */
#define MORE_PART 8

typedef struct comparison {
    llm_runners *r;
    clv_objective objective;
    uint32_t n_batch; /* of the prompt */
} comparison;

/* Of the whole text. */
typedef struct sum {
    double ns, nj;
    bool metered; /* every run's energy is known */
} sum;

/* ------------------------------------------------------------------------ */
/* Forecast                                                                  */

/* So many runs of n tokens, the middle one of which ends at a position. */
static clv_status add(sum *s, const llm_runner *runner, double n_runs,
                      uint32_t n, uint32_t end)
{
    int64_t symbols[LLM_SYMBOLS];
    clv_prediction prediction;
    const uint32_t rows = runner->shape.fixed ? runner->shape.n_tokens : n;
    if (end > runner->n_ctx)
        end = runner->n_ctx;
    const uint32_t n_symbols =
        llm_runner_symbols(runner, n, end > rows ? end - rows : 0, symbols);
    CLV_TRY(clv_plan_predict(runner->plan, symbols, n_symbols, &prediction));
    s->ns += n_runs * prediction.ns;
    s->nj += n_runs * prediction.energy_nj;
    s->metered &= prediction.energy_nj > 0;
    return CLV_OK;
}

static clv_status forecast(const comparison *c, const llm_runner *prompt,
                           const llm_runner *one, sum *out)
{
    const uint32_t n = c->objective.prompt, after = c->objective.generated;
    const uint32_t whole = n / c->n_batch, rest = n % c->n_batch;
    *out = (sum){.metered = true};
    if (whole)
        CLV_TRY(add(out, prompt, whole, c->n_batch,
                    (uint32_t)(((uint64_t)n - rest + c->n_batch) / 2)));
    if (rest)
        CLV_TRY(add(out, prompt, 1, rest, n));
    return after ? add(out, one, after, 1, n + after / 2 + 1) : CLV_OK;
}

static double effort_of(const comparison *c, const sum *s)
{
    const double weight = c->objective.energy;
    return weight > 0 && s->metered
               ? pow(s->ns, 1 - weight) * pow(s->nj, weight)
               : s->ns;
}

/* ------------------------------------------------------------------------ */
/* Plans                                                                     */

/* What a batch of n tokens works on. */
static clv_status find_work(const llm_runners *r, uint32_t n, llm_work *out)
{
    const llm_shape shape = {.n_tokens = n};
    llm_runner *runner;
    CLV_TRY(llm_runner_create(r->model, r->cache, &shape, &runner));
    const clv_status status = llm_runner_work(runner, &r->params, out);
    llm_runner_destroy(runner);
    return status;
}

llm_work llm_residency_reserve(const llm_runners *r, const llm_lead *lead)
{
    return (llm_work){r->reserve.bytes, lead->n > 1 ? 0 : r->reserve.values};
}

/* It comes after another plan, if there is one. */
static clv_status make(llm_runners *r, uint32_t n, const llm_runner *after,
                       llm_work reserve, llm_runner **out)
{
    const llm_request request = {
        .n = n, .n_free = r->cache->n_ctx, .prepare = true};
    r->params.after = after ? after->plan : NULL;
    r->params.reserve = reserve;
    const clv_status status = llm_choice_make(r, &request, out);
    r->params.after = NULL;
    r->params.reserve = (llm_work){0};
    r->n_choices = 0; /* with this residency alone */
    return status;
}

/* The sum with the plan of such runs first. */
static clv_status weigh(const comparison *c, llm_lead *lead, sum *out)
{
    llm_runners *r = c->r;
    const bool prompt_first = lead->n > 1;
    llm_runner *first = NULL, *later = NULL;
    clv_status status =
        make(r, lead->n, NULL, llm_residency_reserve(r, lead), &first);
    if (!status)
        status = make(r, prompt_first ? 1 : c->n_batch, first, (llm_work){0},
                      &later);
    if (!status)
        status = forecast(c, prompt_first ? first : later,
                          prompt_first ? later : first, out);
    if (!status)
        lead->n_tokens = first->shape.n_tokens;
    llm_runner_destroy(later);
    llm_runner_destroy(first);
    return status;
}

static void tell(const comparison *c, const sum *prompt, const sum *one)
{
    clv_log(c->r->model->ctx, CLV_LOG_INFO,
            "devices hold weights for %u tokens of a prompt and %u after it: "
            "%.3f s with those for prompts first, %.3f with those for single "
            "tokens first",
            c->objective.prompt, c->objective.generated, prompt->ns * 1e-9,
            one->ns * 1e-9);
}

/* Where plans cannot be compared, the lead stays as it is. */
static clv_status compare(comparison *c)
{
    llm_lead single = c->r->lead, batch = single;
    batch.n = c->n_batch;
    sum one, prompt;
    CLV_TRY(weigh(c, &single, &one));
    CLV_TRY(weigh(c, &batch, &prompt));
    if (effort_of(c, &prompt) < effort_of(c, &one) * (1 - GAIN))
        c->r->lead = batch;
    tell(c, &prompt, &one);
    return CLV_OK;
}

/* Whether another lead than single tokens may be better. */
static bool has_choice(const llm_runners *r)
{
    return clv_context_objective(r->model->ctx).prompt > 1 && r->n_batch > 1 &&
           r->params.scarce && !r->params.n_plans;
}

bool llm_residency_is_doubted(const llm_runners *r)
{
    bool learned = false;
    for (uint32_t i = 0; i < r->n; i++)
        learned |= r->items[i]->learned == CLV_LEARNED_COSTS;
    return learned && r->lead.n && r->lead.n_choices < MAX_CHOICES &&
           has_choice(r);
}

clv_status llm_residency_choose(llm_runners *r)
{
    comparison c = {.r = r, .objective = clv_context_objective(r->model->ctx)};
    if (r->params.scarce && !r->reserve.bytes)
        CLV_TRY(find_work(r, r->n_batch, &r->reserve));
    if (r->lead.n)
        return CLV_OK;
    c.n_batch =
        c.objective.prompt < r->n_batch ? c.objective.prompt : r->n_batch;
    r->lead =
        (llm_lead){.n = 1, .n_tokens = 1, .n_choices = r->lead.n_choices + 1};
    if (!has_choice(r))
        return CLV_OK;
    const clv_status status = compare(&c);
    if (!status || status == CLV_ERR_NO_MEMORY || status == CLV_ERR_CANCELLED)
        return status;
    clv_log(r->model->ctx, CLV_LOG_WARN,
            "core.objective weighs prompts, but plans cannot be compared, so "
            "weights for single tokens come first: %s",
            clv_last_error());
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Batches                                                                   */

clv_status llm_residency_lengthen(llm_runners *r, uint32_t most)
{
    llm_work usual, work;
    if (!r->params.scarce || r->fixed || r->params.n_plans ||
        most <= r->n_batch)
        return CLV_OK;
    CLV_TRY(find_work(r, r->n_batch, &usual));
    for (uint32_t n = most; n > r->n_batch; n /= 2) {
        CLV_TRY(find_work(r, n, &work));
        if (work.bytes > usual.bytes + r->memory / MORE_PART)
            continue;
        r->n_batch = n;
        r->reserve = work;
        clv_log(r->model->ctx, CLV_LOG_INFO,
                "prompts run in batches of up to %u tokens, as weights are "
                "copied to devices for each, in %llu MiB of their memory",
                n, (unsigned long long)(work.bytes >> 20));
        return CLV_OK;
    }
    return CLV_OK;
}
