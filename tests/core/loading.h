/* What the tests of loading share: directories with plugins of their own. */
#pragma once

#include "test.h"

#include "message.h"
#include "tmpdir.h"

#include <cleave/plugin.h>

static tmpdir dir, other;

static inline int setup(void **state)
{
    (void)state;
    return tmpdir_make(&dir) && tmpdir_make(&other) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    tmpdir_remove(&other);
    return 0;
}

/* The test plugin of that variant; end it with clv_file_map_close(). */
static inline clv_file_map read_variant(const char *variant)
{
    char from[1024];
    snprintf(from, sizeof from, "%s/tests/plugins/variants/cleave_%s.so",
             getenv("CLEAVE_TEST_BUILD"), variant);
    clv_file_map map;
    assert_ok(clv_file_map_open(from, &map));
    return map;
}

/* Copies it to a file of that name; the result is its path. */
static inline const char *install_as(const tmpdir *to, const char *variant,
                                     const char *file)
{
    clv_file_map map = read_variant(variant);
    const char *path = tmpdir_write(to, file, map.data, map.size);
    clv_file_map_close(&map);
    return path;
}

static inline const char *install(const tmpdir *to, const char *variant)
{
    char name[128];
    snprintf(name, sizeof name, "cleave_%s.so", variant);
    return install_as(to, variant, name);
}

/* Copies a variant with another manifest; text has size bytes. */
static inline const char *install_variant_manifest(const tmpdir *to,
                                                   const char *variant,
                                                   const char *text,
                                                   size_t size)
{
    char mark[64], file[128];
    snprintf(mark, sizeof mark, "name = %s\n", variant);
    snprintf(file, sizeof file, "cleave_%s.so", variant);
    clv_file_map map = read_variant(variant);
    uint8_t *copy = malloc(map.size);
    assert_non_null(copy);
    memcpy(copy, map.data, map.size);
    uint8_t *at = memmem(copy, map.size, mark, strlen(mark));
    assert_non_null(at);
    size_t room = strlen((char *)at);
    assert_true(size <= room);
    memset(at, 0, room);
    memcpy(at, text, size);
    const char *path = tmpdir_write(to, file, copy, map.size);
    free(copy);
    clv_file_map_close(&map);
    return path;
}

static inline const char *install_manifest(const tmpdir *to, const char *text,
                                           size_t size)
{
    return install_variant_manifest(to, "good", text, size);
}

/* A context over dir, or over dirs; set: further settings, NULL at the end. */
static inline clv_status open_context(const char *dirs, const char *const *set,
                                      clv_config **config, clv_context **ctx)
{
    char text[2048];
    snprintf(text, sizeof text, "core.plugin_dirs=%s", dirs ? dirs : dir.path);
    assert_ok(clv_config_create(config));
    assert_ok(clv_config_set(*config, text, "test"));
    assert_ok(clv_config_set(*config, "core.cache_dir=", "test"));
    for (; set && *set; set++)
        assert_ok(clv_config_set(*config, *set, "--set"));
    clv_context_params params = {.config = *config};
    return clv_context_create(&params, ctx);
}

typedef struct opened {
    clv_config *config;
    clv_context *ctx;
} opened;

static inline opened open_ok(const char *dirs, const char *const *set)
{
    opened o;
    assert_ok(open_context(dirs, set, &o.config, &o.ctx));
    return o;
}

static inline void close_opened(opened *o)
{
    clv_context_destroy(o->ctx);
    clv_config_destroy(o->config);
}

/* Its reason has every part. */
static inline void assert_reason(const clv_candidate *c, const char *parts)
{
    clv_error(CLV_ERR_INTERNAL, "%s", c->reason);
    assert_message(parts);
}

/* The only candidate stops at stage with status, for the reasons given. */
static inline void assert_stops(uint32_t stage, clv_status status,
                                const char *parts)
{
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context(NULL, NULL, &config, &ctx));
    assert_int_equal(clv_context_candidate_count(ctx), 1);
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_reason(c, parts);
    assert_int_equal(c->status, status);
    assert_int_equal(c->stage, stage);
    assert_true(c->path[0] == '/');
    assert_int_equal(clv_context_device_count(ctx), 0);
    clv_device *dev;
    assert_int_equal(clv_context_find_device(ctx, "cpu", &dev),
                     CLV_ERR_NOT_FOUND);
    assert_message(parts); /* it explains why there is none */
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

static inline void assert_variant_stops(const char *variant, uint32_t stage,
                                        clv_status status, const char *parts)
{
    const char *path = install(&dir, variant);
    assert_stops(stage, status, parts);
    unlink(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
