/* A context with the reference plugin, alone or before the CPU's. */
#pragma once

#include "../../core/test.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct test_context {
    clv_config *config;
    clv_context *ctx;
} test_context;

/* settings: "ref.key=value", separated by blanks. */
static inline test_context test_context_make(const char *settings, bool cpu)
{
    test_context t;
    char text[2048], plugins[512], *save = NULL;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    snprintf(plugins, sizeof plugins, "%s/plugins", build);
    snprintf(text, sizeof text,
             "core.plugin_dirs=%s/tests/plugins/ref%s%s "
             "core.cache_dir=%s/tests/core core.allow_unsafe_plugins=on "
             "core.plan=first "
             "core.plugins=ref%s core.devices=ref%s %s",
             build, cpu ? ":" : "", cpu ? plugins : "", build,
             cpu ? ",cpu" : "", cpu ? ",cpu" : "", settings);
    assert_ok(clv_config_create(&t.config));
    for (char *word = strtok_r(text, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        assert_ok(clv_config_set(t.config, word, "test"));
    clv_context_params params = {.config = t.config};
    assert_ok(clv_context_create(&params, &t.ctx));
    assert_int_equal(clv_context_device_count(t.ctx), cpu ? 3 : 2);
    return t;
}

static inline test_context test_context_create(const char *settings)
{
    return test_context_make(settings, false);
}

static inline void test_context_destroy(test_context *t)
{
    clv_context_destroy(t->ctx);
    clv_config_destroy(t->config);
}
