#include "../core/drivers.h"
#include "rig.h"

#include <stdio.h>
#include <unistd.h>

bool rig_on_driver(void)
{
    return getenv("CLEAVE_TEST_DRIVER") != NULL;
}

clv_context *rig_context(void)
{
    clv_context *ctx;
    assert_ok(clv_context_create(&(clv_context_params){0}, &ctx));
    if (rig_on_driver() && !clv_context_device_count(ctx))
        test_no_driver(getenv("CLEAVE_TEST_DRIVER"));
    assert_true(clv_context_device_count(ctx) > 0);
    return ctx;
}

void rig_open(rig_world *world, const char *conf, const char *settings)
{
    char text[4096], path[4096], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    const char *source = getenv("CLEAVE_TEST_SOURCE");
    *world = (rig_world){0};
    assert_true(build && source);
    assert_ok(clv_config_create(&world->config));
    if (conf) {
        snprintf(path, sizeof path, "%s/conf/%s", source, conf);
        assert_ok(clv_config_load_file(world->config, path));
    }
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref:%s/plugins:"
             "%s/examples/plugin core.cache_dir=%s/tests/llm/unused "
             "core.allow_unsafe_plugins=on core.profile=off "
             "core.plan=first %s",
             build, build, build, build, settings);
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(world->config, word, "test"));
    const clv_context_params params = {.config = world->config};
    assert_ok(clv_context_create(&params, &world->ctx));
    assert_true(clv_context_device_count(world->ctx) > 0);
}

void rig_close(rig_world *world)
{
    clv_context_destroy(world->ctx);
    clv_config_destroy(world->config);
}

clv_model *rig_model(clv_context *ctx, const tiny_params *params,
                     llm_source **source)
{
    clv_model *model;
    llm_source *tiny = tiny_create(params);
    if (source)
        *source = tiny;
    assert_ok(llm_model_create(ctx, tiny, NULL, &model));
    return model;
}

clv_session *rig_session(clv_model *model, uint32_t n_ctx, uint32_t n_batch,
                         uint32_t kv_dtype)
{
    clv_session *session;
    const clv_session_params params = {
        .n_ctx = n_ctx,
        .n_batch = n_batch,
        .kv_dtype = kv_dtype,
    };
    assert_ok(clv_session_create(model, &params, &session));
    return session;
}

double rig_error(const float *x, const float *reference, uint64_t n)
{
    double difference = 0, total = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - reference[i];
        difference += d * d;
        total += (double)reference[i] * reference[i];
    }
    return difference / total;
}

int32_t rig_best(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

void rig_assert_choice(const float *x, const float *reference, uint32_t n,
                       double error)
{
    const int32_t a = rig_best(x, n), b = rig_best(reference, n);
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += (double)reference[i] * reference[i];
    if (a != b && reference[b] - reference[a] > 4 * sqrt(error * total / n))
        fail_msg("token %d, the reference has %d, by %g of %g", a, b,
                 reference[b] - reference[a], sqrt(total / n));
}

static const char *shared_path(const char *name)
{
    static char path[4096];
    const char *dir = getenv("CLEAVE_TEST_SHARED");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "../shared", name);
    return path;
}

bool rig_has_shared(const char *name)
{
    return !access(shared_path(name), R_OK);
}

const char *rig_shared(const char *name)
{
    if (!rig_has_shared(name))
        skip();
    return shared_path(name);
}
