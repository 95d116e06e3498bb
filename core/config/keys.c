#include "../base/paths.h"
#include "config.h"

#include <stdlib.h>

#define KEY(name, kind, value, text)                                           \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL}, .key = name,  \
        .type = kind, .default_value = value, .help = text                     \
    }

/* conf/cleave.ini explains the same keys at length. */
static const clv_option core_keys[] = {
    KEY("plugin_dirs", CLV_OPTION_STRING, "",
        "directories searched for cleave_*.so, absolute, separated by ':'"),
    KEY("plugins", CLV_OPTION_STRING, "",
        "plugins to load, separated by ','; empty: all, '-name': not that one"),
    KEY("devices", CLV_OPTION_STRING, "",
        "devices to use, in order of preference, separated by ','; empty: all"),
    KEY("allow_unsafe_plugins", CLV_OPTION_BOOL, "off",
        "load plugins that others could have changed, or that run code early"),
    KEY("log_level", CLV_OPTION_ENUM, "warn",
        "most detailed messages to pass on"),
    KEY("cache_dir", CLV_OPTION_STRING, "",
        "where compiled programs and measurements are kept"),
    KEY("data_dir", CLV_OPTION_STRING, "",
        "where bundled models and descriptions of chips lie"),
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "wait_timeout", .type = CLV_OPTION_FLOAT, .default_value = "600",
     .max = 1e6,
     .help = "seconds that a device may take for a step before it is given up; "
             "0: any time"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "sync", .type = CLV_OPTION_ENUM, .default_value = "fast",
     .choices = "fast|block",
     .help = "how the host waits for devices: sleep and poll as predicted, or "
             "block"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "probe", .type = CLV_OPTION_ENUM, .default_value = "auto",
     .choices = "auto|always|off",
     .help = "try plugins in a process of their own before they are loaded"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "probe_timeout", .type = CLV_OPTION_FLOAT, .default_value = "30",
     .min = 0.1, .max = 3600,
     .help = "seconds that such a trial may take"},
    KEY("plugin_files", CLV_OPTION_STRING, "",
        "plugin files of any name, absolute, separated by ':'; tried first"),
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "plan", .type = CLV_OPTION_ENUM, .default_value = "auto",
     .choices = "auto|first|layer|tensor",
     .help = "where ops run: on the first device that takes them, whole where "
             "they are best, or in parts"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "profile", .type = CLV_OPTION_ENUM, .default_value = "auto",
     .choices = "auto|off",
     .help = "measure devices when a plan needs it; off: only when asked"},
};
#define N_KEYS (sizeof core_keys / sizeof *core_keys)

#define MAX_SHARE(where, text)                                                 \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},               \
        .key = "max_share", .type = CLV_OPTION_FLOAT, .default_value = "1",    \
        .scope = where, .min = 0.05, .max = 1, .help = text                    \
    }

static const clv_option device_keys[] = {
    MAX_SHARE(CLV_SCOPE_PLUGIN,
              "part of a run's time that each of its devices may work"),
    MAX_SHARE(CLV_SCOPE_DEVICE, "part of a run's time that it may work"),
};

const clv_option *core_device_keys(uint32_t *count)
{
    *count = sizeof device_keys / sizeof *device_keys;
    return device_keys;
}

clv_status core_declare_core_keys(clv_config *config)
{
    char *plugin_dirs = NULL, *data_dir = NULL, *cache_dir = NULL;
    clv_status st = core_library_paths(&plugin_dirs, &data_dir);
    if (st == CLV_OK)
        st = core_user_cache(&cache_dir);
    if (st == CLV_OK) {
        clv_option keys[N_KEYS];
        for (size_t i = 0; i < N_KEYS; i++)
            keys[i] = core_keys[i];
        keys[0].default_value = plugin_dirs;
        keys[4].choices = "error|warn|info|debug";
        keys[5].default_value = cache_dir ? cache_dir : "";
        keys[6].default_value = data_dir;
        st = clv_config_declare(config, "core", keys, N_KEYS);
    }
    free(plugin_dirs);
    free(data_dir);
    free(cache_dir);
    return st;
}
