/* Several devices by sections [cpu:NAME]: what there is, where threads run,
 * what is refused, and devices that wait for each other. */
#include "rig.h"
#include "../../kit/work/work.h"

#include <dirent.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SETTINGS 4
#define MAX_OPEN 2

/* A plugin of the case's own with several devices open: all but dev, info and
 * mem_types are the first one's. */
typedef struct opened {
    const kit_config *before; /* in force, until it is unloaded */
    kit_config config;
    char texts[MAX_SETTINGS][80];
    const char *settings[MAX_SETTINGS];
    kit_plugin at[MAX_OPEN];
    uint32_t n;
} opened;

static char warnings[1024];

static void keep_warning(clv_host *host, uint32_t level, const char *file,
                         int32_t line, const char *text)
{
    (void)host, (void)file, (void)line;
    size_t used = strlen(warnings);
    if (level <= CLV_LOG_WARN)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
}

/* The n-th core this process may use; false: it has fewer. */
static bool core(uint32_t n, int *out)
{
    cpu_set_t set;
    *out = 0;
    if (sched_getaffinity(0, sizeof set, &set))
        return false;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set) && !n--) {
            *out = i;
            return true;
        }
    return false;
}

/* Loads the plugin for these settings, up to NULL. */
static void load(kit *k, opened *o, const char *const *settings)
{
    memset(o, 0, sizeof *o);
    warnings[0] = 0;
    kit_drop_under_test(k);
    o->before = k->config;
    o->config = *k->config;
    o->config.n_settings = 0;
    while (settings[o->config.n_settings]) {
        const uint32_t i = o->config.n_settings++;
        snprintf(o->texts[i], sizeof *o->texts, "%s", settings[i]);
        o->settings[i] = o->texts[i];
    }
    o->config.settings = o->settings;
    k->config = &o->config;
    kit_plugin_load(k, &o->at[0]);
    o->at[0].host.api.log = keep_warning;
}

static void unload(opened *o)
{
    kit_plugin_unload(&o->at[0]);
    o->at[0].k->config = o->before;
}

static void open_all(kit *k, opened *o, uint32_t n)
{
    kit_plugin_create(&o->at[0]);
    KIT_CHECK(k, o->at[0].n_devices == n, "there are %u devices, not %u",
              o->at[0].n_devices, n);
    for (o->n = 0; o->n < n; o->n++) {
        kit_plugin *p = &o->at[o->n];
        *p = (kit_plugin){.k = k,
                          .host = p->host,
                          .lib = o->at[0].lib,
                          .api = o->at[0].api,
                          .inst = o->at[0].inst,
                          .infos = o->at[0].infos,
                          .n_devices = n};
        kit_plugin_open(p, o->n);
    }
}

static void close_all(opened *o)
{
    while (o->n)
        kit_plugin_close(&o->at[--o->n]);
    kit_plugin_destroy(&o->at[0]);
    unload(o);
}

/* ------------------------------------------------------------------------ */
/* What there is                                                            */

static void check_info(kit *k, const kit_plugin *p, const char *id,
                       uint32_t units)
{
    KIT_CHECK(k,
              !strcmp(p->info.id, id) && p->info.units == units &&
                  p->info.kind == CLV_DEVICE_CPU,
              "device '%s' has %u units and kind %u, not '%s' with %u",
              p->info.id, p->info.units, p->info.kind, id, units);
}

static void run_enumerate(kit *k, const void *arg)
{
    opened o;
    clv_plugin_device *dev = NULL;
    int first;
    char cores[40];
    (void)arg;
    KIT_CHECK(k, core(0, &first), "this process has no core");
    snprintf(cores, sizeof cores, "cpu:big_1.cores= %d ", first);
    load(k, &o, (const char *[]){cores, "cpu:little.threads=5", NULL});
    open_all(k, &o, 2);
    check_info(k, &o.at[0], "big_1", 1);
    check_info(k, &o.at[1], "little", 5);
    snprintf(cores, sizeof cores, ", core %d", first);
    KIT_CHECK(k,
              strstr(o.at[0].info.name, cores) &&
                  !strstr(o.at[1].info.name, ", core"),
              "the names are '%s' and '%s'", o.at[0].info.name,
              o.at[1].info.name);
    clv_status status = o.at[0].api.device_open(o.at[0].inst, 2, &dev);
    kit_expect(k, status, CLV_ERR_NOT_FOUND, "device_open(2) of two");
    close_all(&o);
}

/* A host from before sections does not have that slot. */
static void run_old_host(kit *k, const void *arg)
{
    opened o;
    (void)arg;
    load(k, &o, (const char *[]){"cpu:a.threads=1", "cpu.threads=3", NULL});
    clv_host_api *host = &o.at[0].host.api;
    host->header.struct_size = offsetof(clv_host_api, device_section);
    memset(&host->device_section, 0x5a, sizeof host->device_section);
    open_all(k, &o, 1);
    check_info(k, &o.at[0], "", 3);
    close_all(&o);
}

static void run_overlap(kit *k, const void *arg)
{
    opened o;
    int first, second;
    char a[40], b[40];
    (void)arg;
    core(0, &first);
    snprintf(a, sizeof a, "cpu:a.cores=%d", first);
    load(k, &o, (const char *[]){a, "cpu:b.cores=", NULL});
    open_all(k, &o, 2);
    snprintf(b, sizeof b, "(%d)", first);
    KIT_CHECK(k,
              strstr(warnings, "[cpu:a]") && strstr(warnings, "[cpu:b]") &&
                  strstr(warnings, b),
              "of shared cores is said: '%s'", warnings);
    close_all(&o);
    if (!core(1, &second))
        return;
    snprintf(b, sizeof b, "cpu:b.cores=%d", second);
    load(k, &o, (const char *[]){a, b, NULL});
    open_all(k, &o, 2);
    KIT_CHECK(k, !warnings[0], "of other cores is said: '%s'", warnings);
    close_all(&o);
}

/* ------------------------------------------------------------------------ */
/* What is refused                                                          */

/* create fails, and says all of these. */
static void refused(kit *k, const char *const *settings,
                    const char *const *says)
{
    opened o;
    load(k, &o, settings);
    kit_plugin *p = &o.at[0];
    clv_status status = p->api.create(&p->host.api, &p->inst);
    KIT_CHECK(k, status < 0 && !p->inst, "%s: create answers %d", settings[0],
              status);
    for (; *says; says++)
        KIT_CHECK(k, strstr(p->host.error, *says), "%s: '%s' does not say '%s'",
                  settings[0], p->host.error, *says);
    KIT_CHECK(k, !p->host.n_blocks, "%u blocks are left", p->host.n_blocks);
    k->error[0] = 0;
    unload(&o);
}

static void run_wrong_lists(kit *k, const void *arg)
{
    static const struct {
        const char *list, *place;
    } wrong[] = {{"x", "character 1 "},    {"0,", "character 3 "},
                 {",0", "character 1 "},   {"0-", "character 3 "},
                 {"1-0", "character 3 "},  {"0 0", "character 3 "},
                 {"0--1", "character 3 "}, {"-1", "character 1 "},
                 {"0x1", "character 2 "},  {"0-1-2", "character 4 "}};
    char setting[40];
    (void)arg;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(setting, sizeof setting, "cpu:b.cores=%s", wrong[i].list);
        refused(k, (const char *[]){"cpu:a.cores=", setting, NULL},
                (const char *[]){"[cpu:b] cores", wrong[i].list, wrong[i].place,
                                 "0-3,6", NULL});
    }
}

static void run_wrong_cores(kit *k, const void *arg)
{
    int first, second;
    char setting[40], says[40];
    cpu_set_t set;
    (void)arg;
    refused(k, (const char *[]){"cpu:a.cores=8190", NULL},
            (const char *[]){"[cpu:a] cores", "no core 8190", "may use", NULL});
    refused(k, (const char *[]){"cpu:a.cores=99999999999999999999", NULL},
            (const char *[]){"[cpu:a] cores", "no core", NULL});
    refused(k, (const char *[]){"cpu.threads=2", "cpu:a.cores=", NULL},
            (const char *[]){"threads is 2", "[cpu:a]", NULL});
    core(0, &first);
    if (!core(1, &second))
        return;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    KIT_CHECK(k, !sched_setaffinity(0, sizeof set, &set), "sched_setaffinity");
    snprintf(setting, sizeof setting, "cpu:a.cores=%d,%d", first, second);
    snprintf(says, sizeof says, "may not use core %d, only %d;", second, first);
    refused(k, (const char *[]){setting, NULL},
            (const char *[]){"[cpu:a] cores", says, "leave it out", NULL});
    CPU_SET(second, &set);
    KIT_CHECK(k, !sched_setaffinity(0, sizeof set, &set), "sched_setaffinity");
}

/* ------------------------------------------------------------------------ */
/* Where threads run                                                        */

static bool read_line(const char *path, const char *key, char *out, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        found = !strncmp(line, key, strlen(key));
        if (found) {
            const char *text = line + strlen(key);
            text += strspn(text, ":\t ");
            snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* Every thread of that name's beginning may run on cores, each on its own if
 * there are two lists. Returns how many there are. */
static uint32_t check_threads(kit *k, const char *name,
                              const char *const lists[2])
{
    DIR *dir = opendir("/proc/self/task");
    uint32_t n = 0;
    KIT_CHECK(k, dir, "/proc/self/task cannot be read");
    for (struct dirent *e; (e = readdir(dir));) {
        char path[300], is[64], list[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        if (e->d_name[0] == '.' || !read_line(path, "Name", is, sizeof is) ||
            strncmp(is, name, strlen(name)))
            continue;
        KIT_CHECK(k, read_line(path, "Cpus_allowed_list", list, sizeof list),
                  "%s says nothing of cores", path);
        const char *wanted = lists[lists[1] ? atoi(is + strlen(name)) % 2 : 0];
        KIT_CHECK(k, !strcmp(list, wanted),
                  "thread '%s' may run on cores %s, not %s", is, list, wanted);
        n++;
    }
    closedir(dir);
    return n;
}

static void check_two(kit *k, const char *pin, const char *const lists[2][2],
                      const char *a, const char *b)
{
    opened o;
    load(k, &o, (const char *[]){a, b, "cpu:a.threads=3", pin, NULL});
    open_all(k, &o, 2);
    uint32_t n = check_threads(k, "clv-a-", lists[0]);
    KIT_CHECK(k, n == 3, "the first device has %u threads, not 3", n);
    n = check_threads(k, "clv-second-", lists[1]);
    KIT_CHECK(k, n == 1, "the second device has %u threads, not 1", n);
    close_all(&o);
}

static void run_affinity(kit *k, const void *arg)
{
    int first, second;
    char a[40], b[40], both[24], one[12], two[12], before[256], after[256];
    (void)arg;
    KIT_CHECK(k, core(0, &first), "this process has no core");
    if (!core(1, &second)) {
        kit_skip(k, "this process has one core only");
        return;
    }
    read_line("/proc/thread-self/status", "Cpus_allowed_list", before,
              sizeof before);
    snprintf(a, sizeof a, "cpu:a.cores=%d,%d", second, first);
    snprintf(b, sizeof b, "cpu:second.cores=%d", second);
    snprintf(both, sizeof both, second == first + 1 ? "%d-%d" : "%d,%d", first,
             second);
    snprintf(one, sizeof one, "%d", first);
    snprintf(two, sizeof two, "%d", second);
    check_two(k, "cpu.pin=off",
              (const char *const[2][2]){{both, NULL}, {two, NULL}}, a, b);
    check_two(k, "cpu.pin=on",
              (const char *const[2][2]){{one, two}, {two, NULL}}, a, b);
    read_line("/proc/thread-self/status", "Cpus_allowed_list", after,
              sizeof after);
    KIT_CHECK(k, !strcmp(before, after),
              "the host's thread is on cores %s afterwards, not %s", after,
              before);
}

/* ------------------------------------------------------------------------ */
/* Devices that wait for each other                                         */

#define ROUNDS 300
#define WORDS 64

static uint64_t cpu_time_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The first device fills the begin of the memory both imported, the second
 * keeps a copy of each; each waits for the other's flag word. */
static void ping_pong(opened *o, clv_plugin_buffer *const memory[2],
                      clv_plugin_timeline *const tl[2])
{
    kit *k = o->at[0].k;
    const uint64_t *flags[2];
    for (int d = 0; d < 2; d++)
        flags[d] = kit_query(&o->at[d], tl[d]).flag;
    for (uint32_t i = 1; i <= ROUNDS; i++)
        for (int d = 0; d < 2; d++) {
            clv_command command =
                d ? kit_copy(memory[1], WORDS * 4 * i, memory[1], 0, WORDS * 4)
                  : kit_fill(memory[0], 0, WORDS * 4, i);
            const clv_timeline_point wait = {.flag = flags[!d],
                                             .value = d ? i : i - 1};
            const clv_timeline_point signal = kit_point(tl[d], i);
            KIT_OK(k, kit_try_submit(&o->at[d], &command, 1, &wait, &signal, 0),
                   "submit %u of device %d", i, d);
        }
}

/* On one core, with threads that would poll for a second: whoever waits lets
 * the other go on, so the time is the work's, not slices of waiting. */
static void run_one_core(kit *k, const void *arg)
{
    static uint32_t shared[(ROUNDS + 1) * WORDS];
    clv_plugin_buffer *memory[2];
    clv_plugin_timeline *tl[2];
    opened o;
    int first;
    char a[40], b[40];
    (void)arg;
    core(0, &first);
    snprintf(a, sizeof a, "cpu:a.cores=%d", first);
    snprintf(b, sizeof b, "cpu:b.cores=%d", first);
    load(k, &o,
         (const char *[]){a, b, "cpu.poll=1000000", "cpu:b.threads=3", NULL});
    open_all(k, &o, 2);
    for (int d = 0; d < 2; d++) {
        kit_plugin *p = &o.at[d];
        clv_import import = kit_host_import(shared, sizeof shared,
                                            CLV_ACCESS_READ | CLV_ACCESS_WRITE);
        KIT_OK(k, p->api.buffer_import(p->dev, 0, &import, &memory[d]),
               "buffer_import");
        tl[d] = kit_timeline(p, 0);
    }
    uint64_t begin = cpu_time_ns();
    ping_pong(&o, memory, tl);
    kit_await(&o.at[1], tl[1], ROUNDS, "devices that wait for each other");
    uint64_t spent = cpu_time_ns() - begin;
    for (uint32_t i = 1; i <= ROUNDS; i++)
        for (uint32_t j = 0; j < WORDS; j++)
            KIT_CHECK(k, shared[i * WORDS + j] == i,
                      "copy %u holds %u: the devices did not wait", i,
                      shared[i * WORDS + j]);
    KIT_CHECK(k, spent < 400 * KIT_MS,
              "%u turns took %u ms of processor time: waiting holds the core",
              2 * ROUNDS, (unsigned)(spent / KIT_MS));
    for (int d = 0; d < 2; d++) {
        o.at[d].api.timeline_destroy(tl[d]);
        o.at[d].api.buffer_free(memory[d]);
    }
    close_all(&o);
}

int main(void)
{
    static const kit_case cases[] = {
        {.name = "enumerate", .run = run_enumerate},
        {.name = "old_host", .run = run_old_host},
        {.name = "overlap", .run = run_overlap},
        {.name = "wrong_lists", .run = run_wrong_lists},
        {.name = "wrong_cores", .run = run_wrong_cores},
        {.name = "affinity", .run = run_affinity},
        {.name = "one_core", .run = run_one_core},
    };
    return cpu_cases_run(cases, sizeof cases / sizeof *cases);
}
