#include "runner.h"

#include "importance.h"

#include "../base/array.h"
#include "../base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_states(llm_runner *r, const llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "k.%u", i);
        r->io.k[i] = clv_graph_state(r->graph, name, cache->dtype, 2,
                                     clv_tensor_dims(cache->k[i]));
        snprintf(name, sizeof name, "v.%u", i);
        r->io.v[i] = clv_graph_state(r->graph, name, cache->dtype, 2,
                                     clv_tensor_dims(cache->v[i]));
    }
}

/* x rounded, in a layer for which that is asked. */
static clv_value round_for(llm_runner *r, clv_value x, uint64_t product)
{
    const llm_rounding *how = r->shape.rounding;
    clv_graph *g = r->graph;
    if (how->layers[product] != how->layer)
        return x;
    if (!how->divisors)
        return clv_graph_round(g, x, how->scale);
    const clv_value inverse = clv_graph_weight(g, "inverse", how->inverse);
    x = clv_graph_round(g, clv_graph_mul(g, x, inverse), how->scale);
    return clv_graph_mul(g, x, clv_graph_weight(g, "divisors", how->divisors));
}

static clv_value observe(void *ctx, clv_value x, const llm_weight *w)
{
    llm_runner *r = ctx;
    const llm_observed o = {x, w};
    const uint64_t product = r->observed.n;
    bool known = r->shape.rounding;
    for (uint64_t i = 0; i < r->observed.n; i++)
        known |= r->observed.items[i].x == x;
    if (!known)
        clv_graph_output(r->graph, x, w->name);
    if (LLM_ARRAY_ADD(&r->observed, o))
        r->observed.failed = true;
    return r->shape.rounding ? round_for(r, x, product) : x;
}

static clv_status build(llm_runner *r, const llm_kv_cache *cache)
{
    CLV_TRY(clv_graph_create(&r->graph));
    clv_graph *g = r->graph;
    llm_graph *io = &r->io;
    io->graph = g;
    io->hp = r->model->hp;
    io->weights = &r->model->weights;
    io->k = calloc(cache->n_layers, sizeof *io->k);
    io->v = calloc(cache->n_layers, sizeof *io->v);
    if (!io->k || !io->v)
        return llm_no_memory("a graph");
    const clv_dim n =
        r->shape.fixed ? clv_dim_fixed(r->shape.n_tokens)
                       : clv_graph_symbol(g, "n_tokens", 1, r->shape.n_tokens);
    const uint32_t n_cache = cache->n_ctx * cache->n_sequences;
    io->rows = clv_graph_symbol(g, "n_rows", 1, n_cache);
    io->ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    io->pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    io->cache_rows = io->pos;
    io->first = CLV_NO_TENSOR;
    if (cache->n_sequences > 1) {
        io->seen = clv_graph_symbol(g, "n_seen", 1, cache->n_ctx);
        io->cache_rows = clv_graph_input(g, "rows", CLV_DTYPE_I32, 1, &n);
        io->first = clv_graph_input(g, "first", CLV_DTYPE_I32, 1, &n);
        io->apart = r->shape.apart;
    }
    io->out_ids = CLV_NO_TENSOR;
    if (r->shape.n_tokens > 1 && !r->shape.all_logits) {
        const clv_dim one = clv_dim_fixed(1);
        io->out_ids = clv_graph_input(g, "out_ids", CLV_DTYPE_I32, 1, &one);
    }
    const clv_dim column[] = {n, clv_dim_fixed(1)};
    io->ones = io->weights->outliers
                   ? clv_graph_input(g, "ones", CLV_DTYPE_F32, 2, column)
                   : CLV_NO_TENSOR;
    const clv_value ones = io->ones;
    const clv_dim pairs = clv_dim_fixed(io->hp->rope_dim / 2);
    io->rope_main =
        io->weights->rope[LLM_ROPE_FAR]
            ? clv_graph_input(g, "rope_freqs", CLV_DTYPE_F32, 1, &pairs)
            : CLV_NO_TENSOR;
    add_states(r, cache);
    if (r->model->popularity && r->shape.n_tokens > 1) {
        io->chosen = malloc(io->hp->n_layers * sizeof *io->chosen);
        if (!io->chosen)
            return llm_no_memory("a graph");
        memset(io->chosen, 0xff, io->hp->n_layers * sizeof *io->chosen);
    }
    if (r->shape.observed || r->shape.rounding) {
        io->observe = observe;
        io->observe_ctx = r;
    }
    r->logits = io->hp->arch->build(io);
    io->ones = ones; /* later layers have rows of it */
    if (r->observed.failed)
        return llm_no_memory("a graph");
    clv_graph_output(g, r->logits, "logits");
    return clv_graph_check(g);
}

static clv_status bind_states(llm_runner *r, const llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        CLV_TRY(clv_exec_bind(r->exec, r->io.k[i], cache->k[i]));
        CLV_TRY(clv_exec_bind(r->exec, r->io.v[i], cache->v[i]));
    }
    return CLV_OK;
}

clv_status llm_runner_create(clv_model *model, const llm_kv_cache *cache,
                             const llm_shape *shape, llm_runner **out)
{
    llm_runner *r = calloc(1, sizeof *r);
    if (!r)
        return llm_no_memory("a plan");
    r->model = model;
    r->shape = *shape;
    r->n_ctx = cache->n_ctx;
    pthread_mutex_lock(&model->lock);
    clv_status status = build(r, cache);
    pthread_mutex_unlock(&model->lock);
    if (status) {
        llm_runner_destroy(r);
        return status;
    }
    *out = r;
    return CLV_OK;
}

/* With its runs. */
static void drop_exec(llm_runner *r)
{
    for (uint32_t i = 1; i < r->n_runs; i++)
        clv_run_destroy(r->runs[i]);
    clv_exec_destroy(r->exec);
    r->exec = NULL;
    r->n_runs = 0;
    r->latest = NULL;
}

void llm_runner_destroy(llm_runner *runner)
{
    if (!runner)
        return;
    pthread_mutex_lock(&runner->model->lock);
    drop_exec(runner);
    clv_plan_destroy(runner->plan);
    clv_graph_destroy(runner->graph);
    pthread_mutex_unlock(&runner->model->lock);
    free(runner->observed.items);
    free(runner->io.k);
    free(runner->io.v);
    free(runner->io.chosen);
    free(runner);
}

/* ------------------------------------------------------------------------ */
/* Plans                                                                    */

/* NULL: there is none. */
static const char *saved_plan(const llm_runner *r,
                              const llm_runner_params *params)
{
    for (uint32_t i = 0; i < params->n_plans; i++)
        if (clv_plan_fits(r->graph, params->plans[i], strlen(params->plans[i])))
            return params->plans[i];
    return NULL;
}

bool llm_runner_is_saved(const llm_runner *runner,
                         const llm_runner_params *params)
{
    return saved_plan(runner, params) != NULL;
}

/* What a plan is to be for. */
typedef struct purpose {
    clv_plan_params params;
    int64_t symbols[LLM_PLAN_FLIGHT * LLM_SYMBOLS];
} purpose;

/* Runs in flight are spread over the context, as those of a long text. */
static void set_flight(const llm_runner *r, purpose *p)
{
    const uint32_t n = r->shape.n_tokens;
    uint32_t count = 0;
    for (uint32_t i = 0; i < LLM_PLAN_FLIGHT; i++) {
        const uint32_t end =
            (uint32_t)((uint64_t)r->n_ctx * (i + 1) / LLM_PLAN_FLIGHT);
        count +=
            llm_runner_symbols(r, n, end > n ? end - n : 0, p->symbols + count);
    }
    p->params.n_flight = LLM_PLAN_FLIGHT;
    p->params.flight_symbols = p->symbols;
}

/* To be used where it is. */
static const clv_plan_params *
purpose_of(const llm_runner *r, const llm_runner_params *params, purpose *p)
{
    *p = (purpose){.params = {.devices = params->devices,
                              .n_devices = params->n_devices,
                              .workspace = params->workspace,
                              .reserve = params->reserve.bytes,
                              .reserve_values = params->reserve.values,
                              .after = params->after}};
    if (r->shape.flight)
        set_flight(r, p);
    return &p->params;
}

clv_status llm_runner_plan(llm_runner *r, const llm_runner_params *params)
{
    purpose p;
    const clv_plan_params *what = purpose_of(r, params, &p);
    clv_context *ctx = r->model->ctx;
    const char *saved = saved_plan(r, params);
    pthread_mutex_lock(&r->model->lock);
    clv_status status = saved ? clv_plan_parse(ctx, r->graph, what, saved,
                                               strlen(saved), &r->plan)
                              : clv_plan_create(ctx, r->graph, what, &r->plan);
    pthread_mutex_unlock(&r->model->lock);
    return status;
}

clv_status llm_runner_work(const llm_runner *r, const llm_runner_params *params,
                           llm_work *out)
{
    purpose p;
    const clv_plan_params *what = purpose_of(r, params, &p);
    pthread_mutex_lock(&r->model->lock);
    const clv_status status =
        clv_plan_work(r->model->ctx, r->graph, what, &out->bytes, &out->values);
    pthread_mutex_unlock(&r->model->lock);
    return status;
}

void llm_runner_plan_again(llm_runner *r, const llm_runner_params *params)
{
    purpose p;
    const clv_plan_params *what = purpose_of(r, params, &p);
    clv_context *ctx = r->model->ctx;
    clv_plan *plan;
    if (r->learned != CLV_LEARNED_COSTS || saved_plan(r, params))
        return;
    r->learned = CLV_LEARNED_NOTHING;
    pthread_mutex_lock(&r->model->lock);
    if (params->scarce)
        drop_exec(r);
    if (clv_plan_create(ctx, r->graph, what, &plan)) {
        clv_log(ctx, CLV_LOG_WARN, "the plan stays as it is: %s",
                clv_last_error());
    } else if (clv_plan_equal(plan, r->plan)) {
        clv_plan_destroy(plan);
    } else {
        clv_log(ctx, CLV_LOG_INFO,
                "runs of up to %u tokens have a new plan: devices take other "
                "times than was predicted",
                r->shape.n_tokens);
        drop_exec(r);
        clv_plan_destroy(r->plan);
        r->plan = plan;
        r->learned = CLV_LEARNED_LITTLE;
    }
    pthread_mutex_unlock(&r->model->lock);
}

clv_status llm_runner_weigh(const llm_runner *r,
                            const llm_runner_params *params,
                            const clv_device *dev, uint64_t bytes, double *ns)
{
    purpose p;
    const clv_plan_params *what = purpose_of(r, params, &p);
    pthread_mutex_lock(&r->model->lock);
    clv_status status =
        clv_plan_weigh(r->model->ctx, r->graph, what, dev, bytes, ns);
    pthread_mutex_unlock(&r->model->lock);
    return status;
}

bool llm_runner_is_real(const llm_runner *runner)
{
    clv_device *dev;
    for (uint32_t i = 0; (dev = clv_plan_device(runner->plan, i)); i++)
        if (clv_device_info_of(dev)->clock != CLV_CLOCK_VIRTUAL)
            return true;
    return false;
}

double llm_runner_predicted(const llm_runner *runner)
{
    return runner->plan ? clv_plan_summarise(runner->plan).predicted_ns : 0;
}

/* ------------------------------------------------------------------------ */
/* Compiling                                                                */

clv_status llm_runner_compile(llm_runner *r, const llm_runner_params *params,
                              const llm_kv_cache *cache)
{
    pthread_mutex_lock(&r->model->lock);
    clv_status status =
        clv_exec_create_in(r->plan, params->workspace, &r->exec);
    if (!status)
        status = bind_states(r, cache);
    if (status) {
        drop_exec(r);
    } else {
        r->runs[0] = clv_exec_own_run(r->exec);
        r->n_runs = 1;
    }
    pthread_mutex_unlock(&r->model->lock);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                     */

static void *data_of(const clv_run *run, clv_value value)
{
    return clv_tensor_data(clv_run_tensor((clv_run *)run, value));
}

static void set_rope(const llm_runner *r, const clv_run *run, bool far)
{
    const llm_weight *w =
        r->io.weights->rope[far ? LLM_ROPE_FAR : LLM_ROPE_MAIN];
    if (r->io.rope_main != CLV_NO_TENSOR)
        memcpy(data_of(run, r->io.rope_main), clv_tensor_data(w->tensor),
               clv_tensor_size(w->tensor));
}

/* Of n tokens, in `rows` rows with padding, the last of which are at these rows
 * of the cache and of their sequence. */
static uint32_t set_symbols(const llm_runner *r, uint32_t rows,
                            int64_t last_row, int64_t last,
                            int64_t symbols[LLM_SYMBOLS])
{
    uint32_t count = 0;
    if (!r->shape.fixed)
        symbols[count++] = rows;
    symbols[count++] = last_row + 1;
    if (r->io.first != CLV_NO_TENSOR)
        symbols[count++] = last + 1;
    return count;
}

static uint32_t rows_of(const llm_runner *r, uint32_t n)
{
    return r->shape.fixed ? r->shape.n_tokens : n;
}

uint32_t llm_runner_symbols(const llm_runner *runner, uint32_t n,
                            uint32_t position, int64_t symbols[LLM_SYMBOLS])
{
    const uint32_t rows = rows_of(runner, n);
    const int64_t last = (int64_t)position + (runner->shape.apart ? 1 : rows);
    return set_symbols(runner, rows, last - 1, last - 1, symbols);
}

/* Of row i; padding follows the last token, or where tokens are apart is in its
 * place. */
static llm_place place_of(const llm_input *input, uint32_t i)
{
    const uint32_t last = input->n - 1;
    llm_place place = input->first;
    if (input->places)
        return input->places[i < last ? i : last];
    place.position += i;
    return place;
}

/* Positions, and rows of the cache. */
static void set_places(llm_runner *r, const clv_run *run,
                       const llm_input *input, uint32_t rows)
{
    const bool several = r->io.first != CLV_NO_TENSOR;
    int32_t *pos = data_of(run, r->io.pos);
    int32_t *at = data_of(run, r->io.cache_rows);
    int32_t *first = several ? data_of(run, r->io.first) : NULL;
    int64_t last_row = 0, last = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const llm_place p = place_of(input, i);
        const int64_t begin = (int64_t)p.sequence * r->n_ctx;
        pos[i] = (int32_t)p.position;
        at[i] = (int32_t)(begin + p.position);
        if (several)
            first[i] = (int32_t)begin;
        last_row = at[i] > last_row ? at[i] : last_row;
        last = pos[i] > last ? pos[i] : last;
    }
    r->n_symbols = set_symbols(r, rows, last_row, last, r->symbols);
}

clv_status llm_runner_submit(llm_runner *runner, uint32_t index,
                             const llm_input *input)
{
    clv_run *run = runner->runs[index];
    const uint32_t n = input->n, rows = rows_of(runner, n);
    int32_t *all = data_of(run, runner->io.ids);
    runner->n_rows[index] = n;
    /* Padding repeats the last token: a scale that a device finds for all rows
     * together then fits the real ones. */
    for (uint32_t i = 0; i < rows; i++)
        all[i] = input->ids[i < n ? i : n - 1];
    set_places(runner, run, input, rows);
    if (runner->io.out_ids != CLV_NO_TENSOR)
        *(int32_t *)data_of(run, runner->io.out_ids) = (int32_t)(n - 1);
    set_rope(runner, run, input->far);
    for (uint32_t i = 0; runner->io.ones != CLV_NO_TENSOR && i < rows; i++)
        ((float *)data_of(run, runner->io.ones))[i] = 1;
    return clv_run_submit(run, runner->symbols, runner->n_symbols);
}

/* Runs of single tokens do not tell, as reading that would take time in each.
 * The last layer has the row whose logits are wanted. */
static void count_experts(const llm_runner *r, uint32_t index)
{
    const uint32_t n_layers = r->io.hp->n_layers;
    for (uint32_t i = 0; r->io.chosen && i < n_layers; i++) {
        const bool one = i + 1 == n_layers && r->io.out_ids != CLV_NO_TENSOR;
        if (r->io.chosen[i] != CLV_NO_TENSOR)
            llm_popularity_count(r->model->popularity, i,
                                 data_of(r->runs[index], r->io.chosen[i]),
                                 one ? 1 : r->n_rows[index]);
    }
}

clv_status llm_runner_wait(llm_runner *runner, uint32_t index)
{
    CLV_TRY(llm_source_check(runner->model->source,
                             clv_run_wait(runner->runs[index])));
    runner->latest = runner->runs[index];
    count_experts(runner, index);
    if (clv_exec_learn(runner->exec, &runner->learned))
        clv_log(runner->model->ctx, CLV_LOG_WARN,
                "the run is done, but what it took is not learned: %s",
                clv_last_error());
    return CLV_OK;
}

clv_status llm_runner_run(llm_runner *runner, const llm_input *input)
{
    CLV_TRY(llm_runner_submit(runner, 0, input));
    return llm_runner_wait(runner, 0);
}

static clv_status add_run(llm_runner *r, llm_runner_params *params)
{
    clv_workspace **workspace = &params->others[r->n_runs];
    if (!*workspace)
        CLV_TRY(clv_workspace_create(r->model->ctx, workspace));
    CLV_TRY(clv_run_create(r->exec, *workspace, &r->runs[r->n_runs]));
    r->n_runs++;
    return CLV_OK;
}

void llm_runner_reserve(llm_runner *r, llm_runner_params *params, uint32_t n)
{
    clv_status status = CLV_OK;
    pthread_mutex_lock(&r->model->lock);
    while (r->n_runs < n && r->n_runs < LLM_MAX_FLIGHT && !status)
        status = add_run(r, params);
    pthread_mutex_unlock(&r->model->lock);
    if (status)
        clv_log(r->model->ctx, CLV_LOG_WARN,
                "%u runs in flight instead of %u: %s", r->n_runs, n,
                clv_last_error());
}

const float *llm_runner_logits(const llm_runner *runner)
{
    return data_of(runner->latest, runner->logits);
}

const float *llm_runner_value(const llm_runner *runner, clv_value value,
                              uint64_t *n)
{
    const clv_tensor *t = clv_run_tensor((clv_run *)runner->latest, value);
    *n = 1;
    for (uint32_t i = 0; i < clv_tensor_rank(t); i++)
        *n *= (uint64_t)clv_tensor_dims(t)[i];
    return data_of(runner->latest, value);
}
