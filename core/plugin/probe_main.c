/*
 * cleave-plugin-probe: takes a plugin through its lifetime, for a host that
 * wants to know whether it survives. See probe_process.h. It prints nothing and
 * judges nothing: what counts is how far it comes.
 */
#include "../base/names.h"
#include "../config/config.h"
#include "../context/trace.h"
#include "../device/device.h"
#include "plugin_inspect.h"
#include "plugin_module.h"
#include "probe_process.h"
#include "sample.h"
#include "workers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

/* Leaks at exit are no crash. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static void report(const char *line)
{
    char text[CORE_PROBE_STEP_SIZE + 1];
    int n = snprintf(text, sizeof text, "%s\n", line);
    if (write(CORE_PROBE_FD, text, (size_t)n) != n)
        return; /* nobody listens: the host has given up */
}

/* Of what the plugin says only that it does. */
static void on_log(void *ctx, uint32_t level, const char *line)
{
    (void)ctx, (void)level, (void)line;
    report(CORE_PROBE_ALIVE);
}

static void report_use(void *id, const char *slot)
{
    char step[CORE_PROBE_STEP_SIZE];
    snprintf(step, sizeof step, "%s of %s", slot, (const char *)id);
    report(step);
}

/* argv: RANK SECTION KEY VALUE, over and over. */
static clv_status configure(clv_config *config, bool env, char **argv)
{
    clv_status st = env ? clv_config_load_env(config) : CLV_OK;
    for (; st == CLV_OK && argv[0] && argv[1] && argv[2] && argv[3]; argv += 4)
        st = core_config_give(config, argv[1], argv[2], argv[3], "host",
                              (core_config_rank)atoi(argv[0]));
    return st;
}

static void report_device(const char *id)
{
    char line[CORE_PROBE_STEP_SIZE];
    snprintf(line, sizeof line, CORE_PROBE_DEVICE "%s", id);
    report(line);
}

static clv_status open_devices(core_plugin *p, const char *left_out)
{
    clv_device_info *infos;
    uint32_t n;
    report("enumerate");
    clv_status st = core_plugin_enumerate(p, &infos, &n), first = st;
    if (st != CLV_OK)
        return st;
    for (uint32_t i = 0; i < n; i++) {
        clv_device *dev = NULL;
        char id[CORE_DEVICE_ID_SIZE];
        core_device_id(p, &infos[i], id);
        if (core_list_has(left_out, " ", id))
            continue;
        report_device(id);
        report("open");
        st = core_device_open(p, i, &infos[i], &dev);
        if (st == CLV_OK) {
            report(CORE_PROBE_USE);
            st = core_sample_run(dev, report_use, dev->id);
        }
        first = first ? first : st;
        report(CORE_PROBE_CLOSE);
        core_device_close(dev);
    }
    free(infos);
    return first;
}

static clv_status begin(core_plugin *p, const core_plugin_file *file,
                        const char *left_out)
{
    report("query");
    CLV_TRY(core_plugin_map(p, file));
    CLV_TRY(core_plugin_negotiate(p));
    CLV_TRY(core_plugin_declare(p));
    report("create");
    CLV_TRY(core_plugin_create(p));
    return open_devices(p, left_out);
}

static void end(core_plugin *p)
{
    if (p->instance) {
        report(CORE_PROBE_QUIESCE);
        p->api.quiesce(p->instance);
        report(CORE_PROBE_DESTROY);
        p->api.destroy(p->instance);
        p->instance = NULL;
    }
    report(CORE_PROBE_UNLOAD);
    core_plugin_destroy(p);
}

static clv_status try(clv_context *ctx, const char *path, const char *name,
                      const char *left_out)
{
    core_plugin_file file = {.fd = -1};
    core_manifest manifest;
    core_plugin *p = NULL;
    char problem[256];
    clv_status st = core_plugin_file_open(path, &file);
    if (st == CLV_OK)
        st = core_plugin_inspect(&file, NULL, &manifest, problem);
    if (st == CLV_OK && strcmp(manifest.name, name))
        st = CLV_ERR_FORMAT;
    if (st == CLV_OK)
        st = core_plugin_new(ctx, &file, &manifest, &p);
    if (st == CLV_OK) {
        /* Held here too, so that unloading is the last step. */
        report("map");
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        st = begin(p, &file, left_out);
        if (st != CLV_OK)
            report(CORE_PROBE_STOPPED);
        end(p);
        if (module)
            dlclose(module);
    }
    core_plugin_file_close(&file);
    return st;
}

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    clv_context ctx = {.n_workers = core_processor_count(),
                       .log = on_log,
                       .log_level = CLV_LOG_DEBUG};
    if (argc < 5)
        return 2;
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_mutex_init(&ctx.workers_mutex, NULL);
    pthread_rwlock_init(&ctx.log_lock, NULL);
    pthread_mutex_init(&ctx.calls.mutex, NULL);
    clv_status st = clv_config_create(&ctx.config);
    if (st == CLV_OK)
        st = core_trace_create(&ctx.trace);
    if (st == CLV_OK)
        st = configure(ctx.config, !strcmp(argv[3], "env"), argv + 5);
    if (st == CLV_OK)
        st = try(&ctx, argv[1], argv[2], argv[4]);
    if (st != CLV_OK)
        report(CORE_PROBE_STOPPED);
    core_workers_destroy(ctx.workers);
    report(CORE_PROBE_EXIT);
    return 0;
}
