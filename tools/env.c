#include "env.h"
#include "interrupt.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BUNDLED_MODEL "models/nano-q8_0.gguf"

/* By clv_log_level. */
static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void on_log(void *ctx, uint32_t level, const char *line)
{
    tool_env *env = ctx;
    if (level > env->log_level)
        return;
    char *clean = tool_clean(line);
    char text[1024];
    snprintf(text, sizeof text, "%s: %s: %s", program_invocation_short_name,
             level_names[level < 4 ? level : 3], clean ? clean : "");
    free(clean);
    tool_progress_line(&env->progress, text);
}

static clv_status set_key(clv_config *config, const char *key,
                          const char *value, const char *origin)
{
    size_t size = strlen(key) + strlen(value) + 2;
    char *text = malloc(size);
    if (!text)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory for %zu bytes",
                         origin, size);
    snprintf(text, size, "%s=%s", key, value);
    clv_status status = clv_config_set(config, text, origin);
    free(text);
    return status;
}

static uint32_t log_level(const clv_config *config, const tool_common *common)
{
    if (!common->log_level && common->quiet)
        return CLV_LOG_ERROR;
    if (!common->log_level && common->verbose)
        return CLV_LOG_INFO;
    const char *name = clv_config_get(config, "core.log_level");
    for (uint32_t i = 0; name && i < 4; i++)
        if (!strcmp(name, level_names[i]))
            return i;
    return CLV_LOG_WARN;
}

static clv_status configure(clv_config *config, const tool_common *common)
{
    clv_status status = clv_config_load_default(config);
    for (uint32_t i = 0; !status && i < common->conf.n; i++)
        status = clv_config_load_file(config, common->conf.items[i]);
    if (!status)
        status = clv_config_load_env(config);
    for (uint32_t i = 0; !status && i < common->set.n; i++)
        status = clv_config_set(config, common->set.items[i], "--set");
    if (!status && common->devices)
        status = set_key(config, "core.devices", common->devices, "--devices");
    if (!status && common->log_level)
        status =
            set_key(config, "core.log_level", common->log_level, "--log-level");
    if (!status && common->threads > 0) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)common->threads);
        status = set_key(config, "cpu.threads", number, "--threads");
    }
    return status;
}

void tool_env_init(tool_env *env, const tool_common *common)
{
    *env = (tool_env){.common = common};
    tool_progress_init(&env->progress, !common->quiet);
}

/* A trace that cannot be written fails before the work, not after it. Devices
 * and pipes are only opened once. */
static clv_status check_trace(const char *path)
{
    struct stat st;
    clv_file_writer *writer;
    if (!path ||
        (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return CLV_OK;
    CLV_TRY(clv_file_writer_open(path, &writer));
    clv_file_writer_discard(writer);
    return CLV_OK;
}

clv_status tool_env_open(tool_env *env)
{
    const tool_common *common = env->common;
    clv_status status = check_trace(common->trace);
    if (!status)
        status = clv_config_create(&env->config);
    if (!status)
        status = configure(env->config, common);
    if (status)
        return status;
    env->log_level = log_level(env->config, common);
    if (env->log_level <= CLV_LOG_WARN)
        tool_progress_hold(&env->progress);
    return clv_context_create(
        &(clv_context_params){.config = env->config,
                              .log = on_log,
                              .log_ctx = env,
                              .log_level = env->log_level,
                              .trace = common->trace != NULL,
                              .progress = tool_progress_report,
                              .progress_ctx = &env->progress},
        &env->ctx);
}

int tool_env_close(tool_env *env, int code)
{
    tool_progress_clear(&env->progress);
    if (env->ctx && env->common->trace &&
        clv_trace_write(env->ctx, env->common->trace)) {
        tool_print_error(clv_last_error());
        if (code == TOOL_OK)
            code = TOOL_FAILED;
    }
    clv_context_destroy(env->ctx);
    clv_config_destroy(env->config);
    tool_progress_finish(&env->progress);
    return code;
}

/* The candidates' paths and reasons, "path: reason; path: reason". */
static void list_reasons(const clv_context *ctx, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < clv_context_candidate_count(ctx); i++) {
        const clv_candidate *c = clv_context_candidate(ctx, i);
        int n = snprintf(out + used, size - used, "%s%s: %s", i ? "; " : "",
                         c->path, c->status ? c->reason : "has no device");
        if (n < 0 || (size_t)n >= size - used)
            break;
        used += (size_t)n;
    }
}

clv_status tool_env_need_device(tool_env *env)
{
    bool any = clv_context_device_count(env->ctx) > 0;
    tool_progress_release(&env->progress, any);
    if (any)
        return CLV_OK;
    const char *dirs = clv_config_get(env->config, "core.plugin_dirs");
    char reasons[640];
    list_reasons(env->ctx, reasons, sizeof reasons);
    return clv_error(CLV_ERR_NOT_FOUND,
                     "no device to run on; %s%s; see 'cleave devices' and "
                     "core.plugin_dirs",
                     reasons[0] ? reasons : "no plugin lies in ",
                     reasons[0] ? "" : dirs);
}

/* ------------------------------------------------------------------------ */

static clv_status model_path(const clv_config *config, const char *path,
                             char **out)
{
    const char *dir = "", *slash = "";
    if (!path) {
        dir = clv_config_get(config, "core.data_dir");
        slash = "/";
        path = BUNDLED_MODEL;
    }
    size_t size = strlen(dir) + strlen(path) + 2;
    char *text = malloc(size);
    if (!text)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory for %zu bytes", path,
                         size);
    snprintf(text, size, "%s%s%s", dir, slash, path);
    *out = text;
    return CLV_OK;
}

clv_status tool_model_path(const char *path, char **out)
{
    clv_config *config = NULL;
    clv_status status = clv_config_create(&config);
    if (!status && !path)
        status = clv_config_load_default(config);
    if (!status && !path)
        status = clv_config_load_env(config);
    if (!status)
        status = model_path(config, path, out);
    clv_config_destroy(config);
    return status;
}

clv_status tool_env_load(tool_env *env, const char *path, clv_model **out,
                         char **used, uint64_t *load_ns)
{
    clv_status status = tool_env_open(env);
    if (!status)
        status = tool_env_need_device(env);
    if (!status)
        status = model_path(env->config, path, used);
    if (status)
        return status;
    uint64_t begin = clv_now_ns();
    const clv_model_params params = {
        .progress = tool_progress_report,
        .progress_ctx = &env->progress,
        .copy = env->weights && !env->weights->mmap,
        .lock = env->weights && env->weights->mlock,
    };
    status = clv_model_load(env->ctx, *used, &params, out);
    tool_progress_clear(&env->progress);
    *load_ns = clv_now_ns() - begin;
    return status;
}

clv_status tool_need_tokenizer(const clv_model *model, const char *path)
{
    if (clv_model_tokenizer(model))
        return CLV_OK;
    return clv_error(CLV_ERR_NOT_FOUND,
                     "%s: holds no tokenizer; take a GGUF file with one, or "
                     "put tokenizer.json beside the weights",
                     path);
}

const char *tool_model_name(const clv_model *model,
                            char out[TOOL_MODEL_NAME_MAX])
{
    const clv_model_info *info = clv_model_describe(model);
    char params[TOOL_QUANTITY_MAX];
    snprintf(out, TOOL_MODEL_NAME_MAX, "%s %s %s", info->architecture,
             tool_count(info->n_params, params), info->quant);
    return out;
}

const char *tool_device_list(const tool_env *env, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < clv_context_device_count(env->ctx); i++) {
        int n = snprintf(out + used, size - used, "%s%s", i ? "," : "",
                         clv_device_id(clv_context_device(env->ctx, i)));
        if (n < 0 || (size_t)n >= size - used) {
            memcpy(out + size - 4, "...", 4);
            break;
        }
        used += (size_t)n;
    }
    return out;
}

/* Not by getrusage(): its figure is that of the process before exec(), too. */
uint64_t tool_peak_memory(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

uint32_t tool_kv_dtype(const char *name)
{
    return !strcmp(name, "f32")    ? CLV_DTYPE_F32
           : !strcmp(name, "q8_0") ? CLV_DTYPE_Q8_0
                                   : CLV_DTYPE_F16;
}
