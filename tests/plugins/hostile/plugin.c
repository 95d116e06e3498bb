#include "hostile.h"
#include "../ref/settings.h"

#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

CLV_PLUGIN_MANIFEST("name = hostile\n"
                    "abi = 1\n"
                    "devices = other\n");

static const hostile_mode *const subjects[] = {
    hostile_devices,  hostile_caps,      hostile_memory,
    hostile_results,  hostile_timelines, hostile_work,
    hostile_programs, hostile_times,     hostile_processes,
};

clv_plugin_api hostile_active;
const clv_host_api *hostile_host;

static clv_plugin_api table;
static char mode[64];

bool hostile_is(const char *name)
{
    return !strcmp(mode, name);
}

void hostile_sleep(uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

/* Without a store to NULL, of which sanitizers would print a line first. */
void hostile_crash(void)
{
    raise(SIGSEGV);
}

/* ------------------------------------------------------------------------ */
/* Modes                                                                     */

static const hostile_mode *find_mode(void)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (const hostile_mode *m = subjects[i]; m->name; m++)
            if (hostile_is(m->name))
                return m;
    return NULL;
}

/* Slots are pointers of one size from create to fault_inject. */
static void overlay(clv_plugin_api *api, const clv_plugin_api *slots)
{
    for (size_t at = offsetof(clv_plugin_api, create);
         at <= offsetof(clv_plugin_api, fault_inject); at += sizeof(void *)) {
        void *slot;
        memcpy(&slot, (const char *)slots + at, sizeof slot);
        if (slot)
            memcpy((char *)api + at, &slot, sizeof slot);
    }
}

/* "what:slot", of the faults that any slot can have. */
static bool is_slot_mode(void)
{
    static const char *const faults[] = {"error", "silent", "status", "empty",
                                         "crash", "abort",  "exit",   "print",
                                         "hang",  "memory", "warn"};
    const char *colon = strchr(mode, ':');
    for (size_t i = 0; colon && i < sizeof faults / sizeof *faults; i++)
        if (strlen(faults[i]) == (size_t)(colon - mode) &&
            !strncmp(mode, faults[i], (size_t)(colon - mode)))
            return true;
    return false;
}

static bool mode_is(const char *fault, const char *slot)
{
    size_t n = strlen(fault);
    return !strncmp(mode, fault, n) && mode[n] == ':' &&
           !strcmp(mode + n + 1, slot);
}

/* Until the cache directory holds what was built, as with drivers. */
static bool is_first_build(void)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    char path[1024];
    snprintf(path, sizeof path, "%s/hostile", cache ? cache : ".");
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    return fd >= 0 && !close(fd);
}

bool hostile_meddles(const char *slot, clv_status *status)
{
    const clv_host_api *host = hostile_host;
    if (mode_is("crash", slot))
        hostile_crash();
    if (mode_is("abort", slot))
        abort();
    if (mode_is("exit", slot))
        exit(0);
    while (mode_is("hang", slot))
        hostile_sleep(1000000000);
    if (mode_is("print", slot)) {
        printf("hostile: %s was called\n", slot);
        fflush(stdout);
    }
    if (mode_is("warn", slot) && is_first_build())
        fprintf(stderr, "1 warning generated.\n");
    if (mode_is("error", slot)) {
        char text[80];
        snprintf(text, sizeof text, "hostile: %s fails as told", slot);
        *status = host->set_error(host->host, CLV_ERR_INTERNAL, 0, text);
        return true;
    }
    if (mode_is("memory", slot)) {
        *status = host->set_error(host->host, CLV_ERR_NO_MEMORY, 0,
                                  "hostile: no memory, as told");
        return true;
    }
    *status = mode_is("silent", slot)   ? CLV_ERR_INTERNAL
              : mode_is("status", slot) ? -99
                                        : CLV_OK;
    return *status || mode_is("empty", slot);
}

/* ------------------------------------------------------------------------ */

static clv_status create(const clv_host_api *host, clv_plugin_instance **out)
{
    const char *value = host->option(host->host, "mode");
    clv_status status;
    snprintf(mode, sizeof mode, "%s", value ? value : "");
    hostile_host = host;
    hostile_active = ref_api;
    const hostile_mode *m = find_mode();
    if (m)
        overlay(&hostile_active, &m->slots);
    else if (!is_slot_mode() && !hostile_is("none"))
        return clv_fail(host, CLV_ERR_INVALID,
                        "hostile: there is no mode "
                        "'%s'",
                        mode);
    if (hostile_meddles("create", &status))
        return status;
    return hostile_active.create(host, out);
}

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    static const clv_option options[] = {
        REF_OPTION("mode", STRING, "none", 0, 0, "what is wrong"), REF_OPTIONS};
    table = hostile_active = ref_api;
    hostile_fill_table(&table);
    table.create = create;
    table.description = "misbehaves as told, for tests";
    table.options = options;
    table.n_options = sizeof options / sizeof *options;
    return clv_query_answer(in, out, 1, &table);
}
