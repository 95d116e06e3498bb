#include "../base/paths.h"
#include "config.h"

#include <stdlib.h>
#include <string.h>

/* ...: more of the option, as .choices = "on|off" */
#define KEY_WITH(name, kind, value, text, ...)                                 \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL}, .key = name,  \
        .type = kind, .default_value = value, .help = text, __VA_ARGS__        \
    }
#define KEY(name, kind, value, text)                                           \
    KEY_WITH(name, kind, value, text, .scope = CLV_SCOPE_PLUGIN)

/* Choices stand in the order of their enums in config.h.
 * conf/cleave.ini explains the same keys at length. */
static const clv_option core_keys[] = {
    KEY("plugin_dirs", CLV_OPTION_STRING, "",
        "directories searched for cleave_*.so, absolute, separated by ':'"),
    KEY("plugin_files", CLV_OPTION_STRING, "",
        "plugin files of any name, absolute, separated by ':'; tried first"),
    KEY("plugins", CLV_OPTION_STRING, "",
        "plugins to load, separated by ','; empty: all, '-name': not that one"),
    KEY("devices", CLV_OPTION_STRING, "",
        "devices to use, in order of preference, separated by ','; empty: all"),
    KEY_WITH("plan", CLV_OPTION_ENUM, "auto",
             "where ops run: on the first device that takes them, whole where "
             "they are best, or in parts",
             .choices = "auto|first|layer|tensor"),
    KEY("objective", CLV_OPTION_STRING, "0",
        "what plans are to be low in: 0 time, 1 energy, 0.5 the product of "
        "both; 2048:64: devices hold weights for so many tokens of a prompt "
        "and after it"),
    KEY_WITH("expected_runs", CLV_OPTION_INT, "10000",
             "runs of a plan over which compiling its programs is spread when "
             "plans are compared; 0: compiling does not count",
             .max = 1000000000),
    KEY("popularity", CLV_OPTION_BOOL, "on",
        "learn which experts of a model are chosen most, and have plans place "
        "those first"),
    KEY_WITH("profile", CLV_OPTION_ENUM, "auto",
             "measure devices when a plan needs it; off: only when asked",
             .choices = "auto|off"),
    KEY_WITH("sync", CLV_OPTION_ENUM, "fast",
             "how the host waits for devices: sleep and poll as predicted, or "
             "block",
             .choices = "fast|block"),
    KEY_WITH("dispatch", CLV_OPTION_ENUM, "unlock",
             "which step of several runs in flight goes first: the one that "
             "lets most work of the busiest device begin, or the oldest run's",
             .choices = "unlock|age"),
    KEY_WITH("precision", CLV_OPTION_ENUM, "plain",
             "which variants of ops plans may use: those no less precise than "
             "the plain one, any, or the most precise alone",
             .choices = "plain|fast|best"),
    KEY("allow_unsafe_plugins", CLV_OPTION_BOOL, "off",
        "load plugins that others could have changed, or that run code early"),
    KEY_WITH("log_level", CLV_OPTION_ENUM, "warn",
             "most detailed messages to pass on",
             .choices = "error|warn|info|debug"),
    KEY("cache_dir", CLV_OPTION_STRING, "",
        "where compiled programs, measurements and plans are kept"),
    KEY_WITH("program_cache", CLV_OPTION_INT, "1024",
             "MiB of compiled programs that are kept for each plugin; 0: none",
             .max = 1 << 24),
    KEY("data_dir", CLV_OPTION_STRING, "",
        "where bundled models and descriptions of chips lie"),
    KEY_WITH("host_memory", CLV_OPTION_INT, "0",
             "MiB of the host's memory for weights that are used in the mapped "
             "file; what exceeds it is read again by each run; 0: 7/8 of what "
             "is free",
             .max = 1 << 30),
    KEY_WITH("file_speed", CLV_OPTION_INT, "0",
             "MB/s at which plans expect weights to be read from the file; 0: "
             "as measured",
             .max = 1 << 24),
    KEY_WITH("wait_timeout", CLV_OPTION_FLOAT, "600",
             "seconds that a device may take for a step before it is given up; "
             "0: any time",
             .max = 1e6),
    KEY_WITH("probe", CLV_OPTION_ENUM, "auto",
             "try plugins in a process of their own before they are loaded",
             .choices = "auto|always|off"),
    KEY_WITH("probe_timeout", CLV_OPTION_FLOAT, "30",
             "seconds that such a trial may take without a "
             "message of the plugin",
             .min = 0.1, .max = 3600),
};
#define N_KEYS (sizeof core_keys / sizeof *core_keys)

#define MAX_SHARE(where, text)                                                 \
    KEY_WITH("max_share", CLV_OPTION_FLOAT, "1", text, .scope = where,         \
             .min = 0.05, .max = 1)

#define MAX_MEMORY(where, text)                                                \
    KEY_WITH("max_memory", CLV_OPTION_INT, "0", text, .scope = where,          \
             .max = 1 << 24)

static const clv_option device_keys[] = {
    MAX_SHARE(CLV_SCOPE_PLUGIN,
              "part of a run's time that each of its devices may work"),
    MAX_SHARE(CLV_SCOPE_DEVICE, "part of a run's time that it may work"),
    MAX_MEMORY(
        CLV_SCOPE_PLUGIN,
        "MiB of its own memory that each of its devices may use; 0: all"),
    MAX_MEMORY(CLV_SCOPE_DEVICE,
               "MiB of its own memory that it may use; 0: all"),
};

const clv_option *core_device_keys(uint32_t *count)
{
    *count = sizeof device_keys / sizeof *device_keys;
    return device_keys;
}

static void set_default(clv_option *keys, const char *key, const char *value)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (value && !strcmp(keys[i].key, key))
            keys[i].default_value = value;
}

clv_status core_declare_core_keys(clv_config *config)
{
    char *plugin_dirs = NULL, *data_dir = NULL, *cache_dir = NULL;
    clv_status st = core_library_paths(&plugin_dirs, &data_dir);
    if (st == CLV_OK)
        st = core_user_cache(&cache_dir);
    if (st == CLV_OK) {
        clv_option keys[N_KEYS];
        memcpy(keys, core_keys, sizeof keys);
        set_default(keys, "plugin_dirs", plugin_dirs);
        set_default(keys, "cache_dir", cache_dir);
        set_default(keys, "data_dir", data_dir);
        st = clv_config_declare(config, "core", keys, N_KEYS);
    }
    free(plugin_dirs);
    free(data_dir);
    free(cache_dir);
    return st;
}
