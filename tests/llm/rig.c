#include "rig.h"

#include <stdio.h>
#include <unistd.h>

clv_context *rig_context(void)
{
    clv_context *ctx;
    assert_ok(clv_context_create(&(clv_context_params){0}, &ctx));
    assert_true(clv_context_device_count(ctx) > 0);
    return ctx;
}

clv_model *rig_model(clv_context *ctx, const tiny_params *params,
                     llm_source **source)
{
    clv_model *model;
    llm_source *tiny = tiny_create(params);
    if (source)
        *source = tiny;
    assert_ok(llm_model_create(ctx, tiny, &model));
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

const char *rig_shared(const char *name)
{
    static char path[4096];
    const char *dir = getenv("CLEAVE_TEST_SHARED");
    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "../shared", name);
    if (access(path, R_OK))
        skip();
    return path;
}
