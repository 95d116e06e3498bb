/*
 * Prints what the environment has set: the value of core.log_level, and whether
 * the user's configuration and cache are looked for where it says. The test
 * runs it with and without elevated privileges.
 */
#include "../../core/base/paths.h"

#include <stdio.h>
#include <stdlib.h>

static const char *or_none(const char *text)
{
    return text ? text : "none";
}

int main(void)
{
    clv_config *config;
    char *ini, *cache;
    if (clv_config_create(&config) || clv_config_load_default(config) ||
        clv_config_load_env(config) || core_user_config(&ini) ||
        core_user_cache(&cache)) {
        printf("%s\n", clv_last_error());
        return 1;
    }
    printf("level %s, key by %s, ini %s, cache %s\n",
           clv_config_get(config, "core.log_level"),
           clv_config_origin(config, "core.plugin_dirs"), or_none(ini),
           or_none(cache));
    free(ini);
    free(cache);
    clv_config_destroy(config);
    return 0;
}
