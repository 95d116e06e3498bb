/*
 * What a command on devices needs around it: configuration, context, log,
 * progress, trace; and the steps that several commands share.
 */
#pragma once

#include "options.h"
#include "progress.h"

#include <cleave/llm.h>

/* Of --mmap and --mlock. */
typedef struct tool_weights {
    bool mmap, mlock;
} tool_weights;

typedef struct tool_env {
    const tool_common *common;
    const tool_weights *weights; /* NULL: mapped */
    tool_progress progress;
    uint32_t log_level; /* most detailed clv_log_level to show */
    clv_config *config;
    clv_context *ctx;
} tool_env;

void tool_env_init(tool_env *env, const tool_common *common);
/* Configuration from files, environment and command line, then the context.
 * Warnings about plugins are held until there is a device after all: else the
 * error says the same. */
clv_status tool_env_open(tool_env *env);
/* Fails, naming every plugin's reason, if there is no device to run on. */
clv_status tool_env_need_device(tool_env *env);
/* Writes the trace, if one is wanted; returns the exit code, which is code
 * unless that fails. An env that was only initialised is legal. */
int tool_env_close(tool_env *env, int code);

/* path if given, else the bundled model's by the default configuration; freed
 * with free(). For commands without devices. */
clv_status tool_model_path(const char *path, char **out);
/* Opens the environment, makes sure of a device and loads a model with
 * progress: path if given, else the bundled one. *used: the path, freed with
 * free(), perhaps set on failure too; *load_ns: how long loading took. */
clv_status tool_env_load(tool_env *env, const char *path, clv_model **out,
                         char **used, uint64_t *load_ns);
/* Fails if the model holds no tokenizer. */
clv_status tool_need_tokenizer(const clv_model *model, const char *path);

#define TOOL_MODEL_NAME_MAX 192
/* "llama 8.13 M q8_0" */
const char *tool_model_name(const clv_model *model,
                            char out[TOOL_MODEL_NAME_MAX]);
/* "cpu, opencl:0"; cut with "..." if it does not fit. */
const char *tool_device_list(const tool_env *env, char *out, size_t size);
/* The most this program has held in memory; 0 if unknown. */
uint64_t tool_peak_memory(void);
/* CLV_DTYPE_F16, F32 or Q8_0, from an option of those choices. */
uint32_t tool_kv_dtype(const char *name);
