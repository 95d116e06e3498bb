/*
 * conf/cleave.ini against the keys that the core and its plugins declare: the
 * same keys, each with its default, as ";key = value"; those of single
 * devices below an example of such a section, ";[cpu:big]".
 */
#include "../../core/config/config.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_KEYS 96
#define EXAMPLE "big" /* the device that the file describes */

typedef struct key {
    char name[128], value[128];
} key;

typedef struct keys {
    key list[MAX_KEYS];
    int n;
} keys;

static const char *find(const keys *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (!strcmp(k->list[i].name, name))
            return k->list[i].value;
    return NULL;
}

static void add(keys *k, const char *section, const char *name,
                const char *value)
{
    assert_true(k->n < MAX_KEYS);
    key *entry = &k->list[k->n++];
    snprintf(entry->name, sizeof entry->name, "%s.%s", section, name);
    snprintf(entry->value, sizeof entry->value, "%s", value);
}

static void read_conf(keys *k)
{
    char path[1024], line[512], section[64] = "", name[64];
    snprintf(path, sizeof path, "%s/conf/cleave.ini",
             getenv("CLEAVE_TEST_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "[%63[a-z0-9_]]", section) == 1 ||
            sscanf(line, ";[%63[a-z0-9_:]]", section) == 1 || line[0] != ';')
            continue;
        assert_int_equal(sscanf(line, ";%63[a-z0-9_] =%n", name, &at), 1);
        assert_true(at > 0);
        add(k, section, name, line + at + (line[at] == ' '));
    }
    fclose(f);
}

/* Defaults that depend on where libcleave lies and who runs it. */
static bool depends(const char *name)
{
    return !strcmp(name, "core.plugin_dirs") ||
           !strcmp(name, "core.cache_dir") || !strcmp(name, "core.data_dir");
}

static void check_declared(void *ctx, const char *section,
                           const clv_option *option)
{
    keys *k = ctx;
    char name[128];
    bool devices = !strcmp(section, "cpu"); /* are described */
    if (strcmp(section, "core") && !devices && strcmp(section, "opencl"))
        return;
    if (option->scope == CLV_SCOPE_DEVICE && !devices)
        return;
    snprintf(name, sizeof name, "%s%s.%s", section,
             option->scope == CLV_SCOPE_DEVICE ? ":" EXAMPLE : "", option->key);
    const char *value = find(k, name);
    if (!value)
        fail_msg("conf/cleave.ini does not explain %s", name);
    if (strcmp(value, depends(name) ? "" : option->default_value))
        fail_msg("conf/cleave.ini: %s = %s, its default is %s", name, value,
                 option->default_value);
}

static void test_conf(void **state)
{
    (void)state;
    static keys k;
    read_conf(&k);
    char dirs[1024];
    snprintf(dirs, sizeof dirs, "core.plugin_dirs=%s/plugins",
             getenv("CLEAVE_TEST_BUILD"));
    clv_config *config;
    clv_context *ctx;
    assert_ok(clv_config_create(&config));
    assert_ok(clv_config_set(config, dirs, "test"));
    assert_ok(clv_config_set(config, "core.cache_dir=", "test"));
    assert_ok(clv_config_set(config, "core.plugins=cpu,opencl,vulkan", "test"));
    assert_ok(clv_config_set(config, "opencl.loader=/nonexistent", "test"));
    assert_ok(clv_config_set(config, "cpu:" EXAMPLE ".cores=", "test"));
    clv_context_params params = {.config = config};
    assert_ok(clv_context_create(&params, &ctx));
    core_config_each(config, check_declared, &k);
    for (int i = 0; i < k.n; i++)
        if (!clv_config_get(config, k.list[i].name))
            fail_msg("conf/cleave.ini explains %s, which is no key",
                     k.list[i].name);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* The file is a configuration itself, with nothing set. */
static void test_loads(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/conf/cleave.ini",
             getenv("CLEAVE_TEST_SOURCE"));
    clv_config *config;
    assert_ok(clv_config_create(&config));
    assert_ok(clv_config_load_file(config, path));
    assert_string_equal(clv_config_origin(config, "core.log_level"),
                        "built-in");
    clv_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conf),
        cmocka_unit_test(test_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
