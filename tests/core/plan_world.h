/*
 * Layers of a transformer to plan for on a simulated chip, whose measurements
 * take no time to speak of. A program's tests share a cache of what was
 * measured.
 */
#pragma once

#include "layers.h"
#include "tmpdir.h"

#include "../../core/plan/plan.h"
#include "../../planner/forecast/forecast.h"

static const layers_shape shape = {.n_layers = 1,
                                   .hidden = 2048,
                                   .heads = 16,
                                   .groups = 4,
                                   .head_dim = 128,
                                   .ffn = 8192,
                                   .vocabulary = 2048,
                                   .context = 512,
                                   .tokens = 256,
                                   .dtype = CLV_DTYPE_I4,
                                   .quant = CLV_QUANT_PER_CHANNEL};

static const layers_shape deep = {.n_layers = 8,
                                  .hidden = 1024,
                                  .heads = 8,
                                  .groups = 2,
                                  .head_dim = 128,
                                  .ffn = 4096,
                                  .vocabulary = 1024,
                                  .context = 512,
                                  .tokens = 256,
                                  .dtype = CLV_DTYPE_I8,
                                  .quant = CLV_QUANT_PER_CHANNEL};

typedef struct world {
    clv_config *config;
    clv_context *ctx;
    layers l;
    char log[4096];
} world;

static tmpdir dir;

static inline int make_cache(void **state)
{
    (void)state;
    return tmpdir_make(&dir) ? 0 : -1;
}

static inline int remove_cache(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

static inline void on_log(void *ctx, uint32_t level, const char *line)
{
    world *w = ctx;
    size_t used = strlen(w->log);
    snprintf(w->log + used, sizeof w->log - used, "%u %s\n", level, line);
}

static inline void open_world(world *w, const char *chip, const char *settings,
                              const layers_shape *s)
{
    char text[2048], path[1024], *save = NULL;
    memset(w, 0, sizeof *w);
    assert_ok(clv_config_create(&w->config));
    snprintf(path, sizeof path, "%s/conf/soc/%s.ini",
             getenv("CLEAVE_TEST_SOURCE"), chip);
    assert_ok(clv_config_load_file(w->config, path));
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/plugins core.plugins=npu_sim "
             "core.allow_unsafe_plugins=on core.cache_dir=%s core.probe=off "
             "npu_sim.compute=off %s",
             getenv("CLEAVE_TEST_BUILD"), dir.path, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(w->config, word, "test"));
    const clv_context_params params = {.config = w->config,
                                       .log = on_log,
                                       .log_ctx = w,
                                       .log_level = CLV_LOG_INFO};
    assert_ok(clv_context_create(&params, &w->ctx));
    layers_build(&w->l, w->ctx, s);
}

static inline void close_world(world *w)
{
    layers_free(&w->l);
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
}

static inline clv_plan *plan_for(world *w, clv_device *const *devices,
                                 uint32_t n)
{
    clv_plan *plan;
    const clv_plan_params params = {.devices = devices, .n_devices = n};
    assert_ok(clv_plan_create(w->ctx, w->l.graph, &params, &plan));
    return plan;
}

static inline double predicted(const clv_plan *plan)
{
    assert_non_null(plan->forecast);
    return plan->forecast->makespan_ns;
}

static inline bool any_cut(const clv_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_pieces; i++)
        if (!core_piece_is_whole(&plan->pieces[i]))
            return true;
    return false;
}
