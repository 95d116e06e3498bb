/*
 * The configuration's internals.
 *
 * Values of a section that is not declared yet (its keys and their types are
 * unknown) are kept and checked once it is. A key has the value of the source
 * with the highest rank, in whatever order sources were read. All strings stay
 * valid until the configuration is destroyed.
 *
 * Reading from several threads is safe; writing excludes everything else.
 */
#pragma once

#include <cleave/cleave.h>

typedef enum core_config_rank {
    CORE_RANK_BUILTIN = 0,
    CORE_RANK_SYSTEM = 1,
    CORE_RANK_USER = 2,
    CORE_RANK_FILE = 3,
    CORE_RANK_ENV = 4,
    CORE_RANK_SET = 5,
} core_config_rank;

/* The values of the core's keys that are choices, in the order in which keys.c
 * lists them; core.log_level has clv_log_level. */
typedef enum core_plan_choice {
    CORE_PLAN_AUTO = 0,
    CORE_PLAN_FIRST = 1,
    CORE_PLAN_LAYER = 2,
    CORE_PLAN_TENSOR = 3,
} core_plan_choice;
typedef enum core_profile_choice {
    CORE_PROFILE_AUTO = 0,
    CORE_PROFILE_OFF = 1,
} core_profile_choice;
typedef enum core_sync_choice {
    CORE_SYNC_FAST = 0,
    CORE_SYNC_BLOCK = 1,
} core_sync_choice;
typedef enum core_dispatch_choice {
    CORE_DISPATCH_UNLOCK = 0,
    CORE_DISPATCH_AGE = 1,
} core_dispatch_choice;
typedef enum core_precision_choice {
    CORE_PRECISION_PLAIN = 0,
    CORE_PRECISION_FAST = 1,
    CORE_PRECISION_BEST = 2,
} core_precision_choice;
typedef enum core_probe_choice {
    CORE_PROBE_AUTO = 0,
    CORE_PROBE_ALWAYS = 1,
    CORE_PROBE_OFF = 2,
} core_probe_choice;

/* The value of a key of type CLV_OPTION_ENUM, by its position among the
 * choices; 0 for a key that is not declared. */
uint32_t core_config_choice(const clv_config *config, const char *key);

/* Characters of a section's or key's name. */
#define CORE_CONFIG_MAX_NAME 48

/* Gives a key its value, if no stronger source has. Checked now if the section
 * is declared, else once it is. */
clv_status core_config_give(clv_config *config, const char *section,
                            const char *key, const char *value,
                            const char *origin, core_config_rank rank);

/* Declares section [core]; its directories have their defaults by paths.h. */
clv_status core_declare_core_keys(clv_config *config);
/* The core's keys in the sections of plugins and of their devices. */
const clv_option *core_device_keys(uint32_t *count);

/* Reads ini text as if from a file of this name. */
clv_status core_config_parse(clv_config *config, const char *name,
                             const void *text, uint64_t size,
                             core_config_rank rank);

/* An error if values wait for a section that nobody declared, unless
 * may_wait(ctx, section): then it belongs to a plugin that did not load. */
clv_status core_config_check_waiting(clv_config *config,
                                     bool (*may_wait)(void *ctx,
                                                      const char *section),
                                     void *ctx);

/* Calls fn for every declared key, in order of declaration. */
void core_config_each(const clv_config *config,
                      void (*fn)(void *ctx, const char *section,
                                 const clv_option *option),
                      void *ctx);
/* The index-th device of a plugin that has a section, [plugin:device], in the
 * order they were first named; NULL past the last one. Valid as long as the
 * configuration. */
const char *core_config_device_section(const clv_config *config,
                                       const char *plugin, uint32_t index);
/* Calls fn for every value that a source gave to a key of the plugin's
 * sections, declared or not. The environment's come only once they are
 * declared. */
void core_config_each_given(const clv_config *config, const char *plugin,
                            void (*fn)(void *ctx, const char *section,
                                       const char *key, const char *value,
                                       core_config_rank rank),
                            void *ctx);
/* Whether the environment is a source. */
bool core_config_uses_env(const clv_config *config);
/* Undoes one declaration; without any, the section's values wait again. */
void core_config_undeclare(clv_config *config, const char *section);

/* Its strings and tables stay until the process ends, also once destroyed. */
void core_config_keep(clv_config *config);

/* Checks value against the option's type and range; why not: with a message
 * without origin. */
clv_status core_option_check(const clv_option *option, const char *value);
/* Checks a table of options as a plugin hands it in. */
clv_status core_options_check(const char *section, const clv_option *options,
                              uint32_t count);
/* Position of the value among choices "a|b|c"; UINT32_MAX: it is none. */
uint32_t core_option_choice(const char *choices, const char *value);
int64_t core_option_int(const char *value);
double core_option_float(const char *value);
bool core_option_bool(const char *value);
