#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_states(llm_runner *r, const llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        char name[32];
        snprintf(name, sizeof(name), "k.%u", i);
        r->io.k[i] = clv_graph_state(r->graph, name, cache->dtype, 2,
                                     clv_tensor_dims(cache->k[i]));
        snprintf(name, sizeof(name), "v.%u", i);
        r->io.v[i] = clv_graph_state(r->graph, name, cache->dtype, 2,
                                     clv_tensor_dims(cache->v[i]));
    }
}

static clv_status build(llm_runner *r, const llm_kv_cache *cache)
{
    clv_status status = clv_graph_create(&r->graph);
    if (status)
        return status;
    clv_graph *g = r->graph;
    llm_graph *io = &r->io;
    io->graph = g;
    io->k = calloc(cache->n_layers, sizeof(*io->k));
    io->v = calloc(cache->n_layers, sizeof(*io->v));
    if (!io->k || !io->v)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "out of memory for a graph of %u layers",
                         cache->n_layers);
    clv_dim n = clv_dim_fixed(1);
    if (r->max_tokens > 1)
        n = clv_graph_symbol(g, "n_tokens", 1, r->max_tokens);
    io->rows = clv_graph_symbol(g, "n_rows", 1, cache->n_ctx);
    io->ids = clv_graph_input(g, "ids", CLV_DTYPE_I32, 1, &n);
    io->pos = clv_graph_input(g, "pos", CLV_DTYPE_I32, 1, &n);
    io->out_ids = CLV_NO_TENSOR;
    if (r->max_tokens > 1 && !r->all_logits) {
        const clv_dim one = clv_dim_fixed(1);
        io->out_ids = clv_graph_input(g, "out_ids", CLV_DTYPE_I32, 1, &one);
    }
    add_states(r, cache);
    r->logits = r->model->arch->build(io, r->model->hp, &r->model->weights);
    clv_graph_output(g, r->logits, "logits");
    return clv_graph_check(g);
}

static clv_status bind_states(llm_runner *r, const llm_kv_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_layers; i++) {
        clv_status status = clv_exec_bind(r->exec, r->io.k[i], cache->k[i]);
        if (!status)
            status = clv_exec_bind(r->exec, r->io.v[i], cache->v[i]);
        if (status)
            return status;
    }
    return CLV_OK;
}

/* By a saved plan, if one was made for this graph. */
static clv_status make_plan(llm_runner *r, const llm_runner_params *params)
{
    const clv_plan_params devices = {
        .devices = params->devices,
        .n_devices = params->n_devices,
    };
    clv_context *ctx = r->model->ctx;
    for (uint32_t i = 0; i < params->n_plans; i++)
        if (clv_plan_fits(r->graph, params->plans[i], strlen(params->plans[i])))
            return clv_plan_parse(ctx, r->graph, &devices, params->plans[i],
                                  strlen(params->plans[i]), &r->plan);
    if (params->n_plans)
        clv_log(ctx, CLV_LOG_WARN,
                "no saved plan was made for runs of %s%u token%s over this "
                "model and context; they are planned anew",
                r->max_tokens > 1 ? "up to " : "", r->max_tokens,
                r->max_tokens > 1 ? "s" : "");
    return clv_plan_create(ctx, r->graph, &devices, &r->plan);
}

static clv_status compile(llm_runner *r, const llm_kv_cache *cache,
                          const llm_runner_params *params)
{
    clv_status status = build(r, cache);
    if (!status)
        status = make_plan(r, params);
    if (!status)
        status = clv_exec_create(r->plan, &r->exec);
    if (!status)
        status = bind_states(r, cache);
    return status;
}

clv_status llm_runner_create(clv_model *model, const llm_kv_cache *cache,
                             const llm_runner_params *params, llm_runner **out)
{
    llm_runner *r = calloc(1, sizeof(*r));
    if (!r)
        return clv_error(CLV_ERR_NO_MEMORY, "out of memory for a plan");
    r->model = model;
    r->max_tokens = params->max_tokens;
    r->all_logits = params->all_logits;

    pthread_mutex_lock(&model->lock);
    clv_status status = compile(r, cache, params);
    pthread_mutex_unlock(&model->lock);
    if (status) {
        llm_runner_destroy(r);
        return status;
    }
    *out = r;
    return CLV_OK;
}

void llm_runner_destroy(llm_runner *runner)
{
    if (!runner)
        return;
    pthread_mutex_lock(&runner->model->lock);
    clv_exec_destroy(runner->exec);
    clv_plan_destroy(runner->plan);
    clv_graph_destroy(runner->graph);
    pthread_mutex_unlock(&runner->model->lock);
    free(runner->io.k);
    free(runner->io.v);
    free(runner);
}

static int32_t *input(const llm_runner *r, clv_value value)
{
    return clv_tensor_data(clv_exec_tensor(r->exec, value));
}

clv_status llm_runner_run(llm_runner *runner, const int32_t *ids, uint32_t n,
                          uint32_t position)
{
    memcpy(input(runner, runner->io.ids), ids, n * sizeof(*ids));
    int32_t *pos = input(runner, runner->io.pos);
    for (uint32_t i = 0; i < n; i++)
        pos[i] = (int32_t)(position + i);
    if (runner->io.out_ids != CLV_NO_TENSOR)
        *input(runner, runner->io.out_ids) = (int32_t)(n - 1);

    int64_t symbols[2];
    uint32_t n_symbols = 0;
    if (runner->max_tokens > 1)
        symbols[n_symbols++] = n;
    symbols[n_symbols++] = (int64_t)position + n;
    return clv_exec_run(runner->exec, symbols, n_symbols);
}

const float *llm_runner_logits(const llm_runner *runner)
{
    return clv_tensor_data(clv_exec_tensor(runner->exec, runner->logits));
}
