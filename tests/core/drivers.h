/* GPU drivers that a machine has, for tests of the plugins that use them. */
#pragma once

#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define TEST_SKIPPED 77
#define TEST_DEVICE_ID 64

/* Skips the program for want of a device, or fails where drivers are needed. */
static inline void test_no_driver(const char *plugin)
{
    printf("skipped: no device for plugin %s; scripts/setup.sh installs a "
           "driver\n",
           plugin);
    exit(getenv("CLEAVE_TEST_NEED_DRIVERS") ? 1 : TEST_SKIPPED);
}

/* The id of the first device that a plugin offers. */
static inline void test_find_driver(const char *plugin, char id[TEST_DEVICE_ID])
{
    char dirs[4096];
    clv_config *config;
    clv_context *ctx;
    const char *build = getenv("CLEAVE_TEST_BUILD");
    assert_non_null(build);
    snprintf(dirs, sizeof dirs, "core.plugin_dirs=%s/plugins", build);
    assert_ok(clv_config_create(&config));
    assert_ok(clv_config_set(config, dirs, "test"));
    snprintf(dirs, sizeof dirs, "core.plugins=%s", plugin);
    assert_ok(clv_config_set(config, dirs, "test"));
    assert_ok(clv_config_set(config, "core.allow_unsafe_plugins=on", "test"));
    assert_ok(
        clv_context_create(&(clv_context_params){.config = config}, &ctx));
    if (!clv_context_device_count(ctx))
        test_no_driver(plugin);
    snprintf(id, TEST_DEVICE_ID, "%s",
             clv_device_id(clv_context_device(ctx, 0)));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}
