#include "config.h"

#include "../base/error.h"
#include "../base/names.h"
#include "../base/paths.h"
#include "ini_text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct source {
    clv_config *config;
    const char *name;
    core_config_rank rank;
} source;

static clv_status take(void *ctx, const char *sec, const char *key,
                       const char *value, uint32_t line)
{
    const source *s = ctx;
    char *origin = core_format("%s:%u", s->name, line);
    if (!origin)
        return core_no_memory("for the configuration");
    clv_status st =
        core_config_give(s->config, sec, key, value, origin, s->rank);
    free(origin);
    return st;
}

clv_status core_config_parse(clv_config *config, const char *name,
                             const void *data, uint64_t size,
                             core_config_rank rank)
{
    source s = {config, name, rank};
    return core_ini_parse(name, data, size, take, &s);
}

static clv_status load(clv_config *config, const char *path,
                       core_config_rank rank)
{
    clv_file_map map;
    CLV_TRY(clv_file_map_open(path, &map));
    clv_status st = core_config_parse(config, path, map.data, map.size, rank);
    clv_file_map_close(&map);
    return st;
}

clv_status clv_config_load_file(clv_config *config, const char *path)
{
    return load(config, path, CORE_RANK_FILE);
}

clv_status clv_config_load_default(clv_config *config)
{
    clv_status st = CLV_OK;
    if (!access(CORE_SYSTEM_CONFIG, F_OK))
        st = load(config, CORE_SYSTEM_CONFIG, CORE_RANK_SYSTEM);
    char *path = NULL;
    if (st == CLV_OK)
        st = core_user_config(&path);
    if (st == CLV_OK && path && !access(path, F_OK))
        st = load(config, path, CORE_RANK_USER);
    free(path);
    return st;
}

clv_status clv_config_set(clv_config *config, const char *assignment,
                          const char *origin)
{
    const char *equals = strchr(assignment, '=');
    const char *dot = strchr(assignment, '.');
    char sec[CORE_CONFIG_MAX_NAME + 1], key[CORE_CONFIG_MAX_NAME + 1];
    if (!equals || !dot || dot > equals || dot == assignment ||
        dot + 1 == equals)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: '%s' is not of the form section.key=value",
                         origin, assignment);
    size_t n = (size_t)(dot - assignment), m = (size_t)(equals - dot - 1);
    if (n > CORE_CONFIG_MAX_NAME || m > CORE_CONFIG_MAX_NAME)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: names in '%s' are longer than %d characters",
                         origin, assignment, CORE_CONFIG_MAX_NAME);
    memcpy(sec, assignment, n);
    memcpy(key, dot + 1, m);
    sec[n] = key[m] = 0;
    return core_config_give(config, sec, key, equals + 1, origin,
                            CORE_RANK_SET);
}
