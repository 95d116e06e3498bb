#include "probe.h"

#include "../base/error.h"
#include "../base/grow.h"
#include "../base/cache.h"
#include "../base/names.h"
#include "../base/paths.h"
#include "../base/text.h"
#include "../config/config.h"
#include "probe_process.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* ------------------------------------------------------------------------ */
/* What a trial is about                                                    */

/* The arguments of the program; its strings are the configuration's, but for
 * the ranks. */
typedef struct arguments {
    char **list; /* ends in NULL; of them LEFT_OUT is the trial's */
    uint32_t n, capacity;
    bool failed;
} arguments;

enum { LEFT_OUT = 4 };

static void add(arguments *a, const char *text)
{
    if (!core_grow(&a->list, &a->capacity, a->n + 2ull, sizeof *a->list)) {
        a->failed = true;
        return;
    }
    a->list[a->n++] = (char *)(uintptr_t)text;
    a->list[a->n] = NULL;
}

static void add_value(void *ctx, const char *section, const char *key,
                      const char *value, core_config_rank rank)
{
    static const char *const ranks[] = {"0", "1", "2", "3", "4", "5"};
    arguments *a = ctx;
    add(a, ranks[rank]);
    add(a, section);
    add(a, key);
    add(a, value);
}

static clv_status make_arguments(const clv_context *ctx, const char *program,
                                 const core_plugin_file *file, const char *name,
                                 arguments *out)
{
    *out = (arguments){0};
    add(out, program);
    add(out, file->path);
    add(out, name);
    add(out, core_config_uses_env(ctx->config) ? "env" : "-");
    add(out, ""); /* LEFT_OUT */
    core_config_each_given(ctx->config, name, add_value, out);
    add_value(out, "core", "cache_dir",
              clv_config_get(ctx->config, "core.cache_dir"), CORE_RANK_SET);
    return out->failed ? core_no_memory("to try a plugin") : CLV_OK;
}

/* All that the outcome may depend on. */
static clv_status identity(const core_plugin_file *file, const char *name,
                           const arguments *a, char **out)
{
    const struct stat *st = &file->stat;
    core_text text = {0};
    core_text_add(&text, "trial 2\ncleave %s\n%s\n%llu %llu %lld %lld.%09ld\n",
                  clv_version(), file->path, (unsigned long long)st->st_dev,
                  (unsigned long long)st->st_ino, (long long)st->st_size,
                  (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    for (uint32_t i = 3; i < a->n; i++)
        core_text_add(&text, "%s\n", a->list[i]);
    char prefix[16 + CORE_PLUGIN_NAME_MAX];
    int n = snprintf(prefix, sizeof prefix, "CLEAVE_%s_", name);
    for (char **v = environ; *v; v++)
        if (!strncasecmp(*v, prefix, (size_t)n))
            core_text_add(&text, "%s\n", *v);
    return core_text_take(&text, out);
}

/* ------------------------------------------------------------------------ */
/* Trials that ended well                                                   */

typedef struct known {
    struct known *next;
    char id[];
} known;

/* Of this process: for where there is no cache. */
static pthread_mutex_t known_mutex = PTHREAD_MUTEX_INITIALIZER;
static known *all_known;

static bool is_known(const char *id)
{
    bool found = false;
    pthread_mutex_lock(&known_mutex);
    for (known *k = all_known; k && !found; k = k->next)
        found = !strcmp(k->id, id);
    pthread_mutex_unlock(&known_mutex);
    return found;
}

/* Without memory it is forgotten, and tried again. */
static void make_known(const char *id)
{
    size_t size = strlen(id) + 1;
    known *k = malloc(sizeof *k + size);
    if (!k)
        return;
    memcpy(k->id, id, size);
    pthread_mutex_lock(&known_mutex);
    k->next = all_known;
    all_known = k;
    pthread_mutex_unlock(&known_mutex);
}

static bool passed_before(const clv_context *ctx, const char *id)
{
    void *data = NULL;
    uint64_t size;
    if (is_known(id))
        return true;
    char *dir = core_context_cache(ctx, "trials");
    bool found = dir && core_cache_get(dir, id, &data, &size) == CLV_OK;
    free(data);
    free(dir);
    if (found)
        make_known(id);
    return found;
}

static void remember(clv_context *ctx, const char *id)
{
    make_known(id);
    char *dir = core_context_cache(ctx, "trials");
    if (dir && core_cache_put(dir, id, "", 0) != CLV_OK)
        clv_log(ctx, CLV_LOG_INFO,
                "the trial of a plugin is not remembered: %s",
                clv_last_error());
    free(dir);
}

/* ------------------------------------------------------------------------ */
/* The verdict                                                              */

/* "crashed (signal 11, SIGSEGV) in create" */
static void tell(const core_probe_end *end, double limit, char *out,
                 size_t size)
{
    const char *step = end->step[0] ? end->step : "its start";
    const char *name = NULL;
    if (end->how == CORE_PROBE_SIGNAL)
        name = sigabbrev_np(end->code);
    if (end->how == CORE_PROBE_HUNG && end->blocked)
        snprintf(out, size, "was blocked for %d s in %s", CORE_PROBE_BLOCKED,
                 step);
    else if (end->how == CORE_PROBE_HUNG && end->endless)
        snprintf(out, size,
                 "did not end within %g s (%d times core.probe_timeout) in %s",
                 CORE_PROBE_LIMITS * limit, CORE_PROBE_LIMITS, step);
    else if (end->how == CORE_PROBE_HUNG)
        snprintf(out, size,
                 "did not end within %g s (core.probe_timeout) in %s", limit,
                 step);
    else if (end->how == CORE_PROBE_SIGNAL)
        snprintf(out, size, "crashed (signal %d, SIG%s) in %s", end->code,
                 name ? name : "?", step);
    else
        snprintf(out, size, "ended the process (exit code %d) in %s", end->code,
                 step);
}

static bool on_the_way_out(const char *step)
{
    static const char *const steps[] = {CORE_PROBE_CLOSE, CORE_PROBE_QUIESCE,
                                        CORE_PROBE_DESTROY, CORE_PROBE_UNLOAD,
                                        CORE_PROBE_EXIT};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!strcmp(step, steps[i]))
            return true;
    return false;
}

static bool ended_well(const core_probe_end *end)
{
    return end->how == CORE_PROBE_ENDED && end->code == 0 &&
           !strcmp(end->step, CORE_PROBE_EXIT);
}

__attribute__((format(printf, 2, 3))) static void
add_note(core_trial *trial, const char *format, ...)
{
    const size_t used = strlen(trial->note), size = sizeof trial->note - used;
    const int begin =
        snprintf(trial->note + used, size, "%s", used ? "; " : "");
    va_list args;
    va_start(args, format);
    if ((size_t)begin < size)
        vsnprintf(trial->note + used + begin, size - (size_t)begin, format,
                  args);
    va_end(args);
}

static clv_status refuse(const char *what)
{
    return clv_error(
        CLV_ERR_REFUSED,
        "%s when tried in a process of its own; update or remove it", what);
}

static clv_status judge(clv_context *ctx, const core_probe_end *end,
                        double limit, const char *id, core_trial *out)
{
    char what[256];
    if (end->how == CORE_PROBE_UNKNOWN) {
        add_note(out, "not tried in a process of its own: this process takes "
                      "no notice of its children's end");
        return CLV_OK;
    }
    out->passed = true;
    if (ended_well(end)) {
        if (!end->stopped && !out->left_out[0])
            remember(ctx, id);
        return CLV_OK;
    }
    tell(end, limit, what, sizeof what);
    out->keep = on_the_way_out(end->step);
    out->passed = out->keep;
    if (!out->keep)
        return refuse(what);
    add_note(out,
             "%s when tried in a process of its own: it is used, and never "
             "unloaded; update it",
             what);
    return CLV_OK;
}

/* Whether it is a device that ended the process. It is on the list then; first:
 * what the first of them did. One that hangs is not tried again without: each
 * such trial takes long. */
static bool leaves_out(core_trial *trial, const core_probe_end *end,
                       double limit, char first[256])
{
    const size_t used = strlen(trial->left_out), n = strlen(end->device);
    char what[256];
    if (end->how == CORE_PROBE_UNKNOWN || end->how == CORE_PROBE_HUNG ||
        ended_well(end) || !n ||
        core_list_has(trial->left_out, " ", end->device) ||
        used + 1 + n >= sizeof trial->left_out)
        return false;
    snprintf(trial->left_out + used, sizeof trial->left_out - used, "%s%s",
             used ? " " : "", end->device);
    tell(end, limit, what, sizeof what);
    if (!used)
        memcpy(first, what, sizeof what);
    add_note(trial,
             "%s is left out: it %s when tried in a process of its own; update "
             "or remove its driver",
             end->device, what);
    return true;
}

/* One process; *started: whether there was one. */
static clv_status run(clv_context *ctx, const char *program, const char *name,
                      const arguments *a, double limit, core_probe_end *end,
                      bool *started)
{
    char what[32 + CORE_PLUGIN_NAME_MAX];
    snprintf(what, sizeof what, "trying the %s plugin", name);
    CLV_TRY(core_context_progress(ctx, what, 0));
    *started = core_probe_process(program, a->list, (uint64_t)(limit * 1e9),
                                  end) == CLV_OK;
    return core_context_progress(ctx, what, 1);
}

static clv_status try(clv_context *ctx, const char *program, const char *name,
                      const arguments *a, const char *id, core_trial *out)
{
    const double limit =
        clv_config_get_float(ctx->config, "core.probe_timeout");
    char first[256];
    core_probe_end end;
    bool started;
    do {
        a->list[LEFT_OUT] = out->left_out;
        CLV_TRY(run(ctx, program, name, a, limit, &end, &started));
        if (!started) {
            add_note(out, "not tried in a process of its own: %s",
                     clv_last_error());
            return CLV_OK;
        }
    } while (leaves_out(out, &end, limit, first));
    /* Without any device it is of no use. */
    if (out->left_out[0] && ended_well(&end) && !end.n_devices)
        return refuse(first);
    return judge(ctx, &end, limit, id, out);
}

clv_status core_probe(clv_context *ctx, const core_plugin_file *file,
                      const char *name, core_trial *out)
{
    *out = (core_trial){0};
    const uint32_t when = core_config_choice(ctx->config, "core.probe");
    if (when == CORE_PROBE_OFF)
        return CLV_OK;
    char *program, *id = NULL;
    arguments a = {0};
    clv_status st = core_probe_program(&program);
    if (st == CLV_OK)
        st = make_arguments(ctx, program, file, name, &a);
    if (st == CLV_OK)
        st = identity(file, name, &a, &id);
    if (st == CLV_OK && when == CORE_PROBE_AUTO)
        out->passed = passed_before(ctx, id);
    if (st == CLV_OK && !out->passed)
        st = try(ctx, program, name, &a, id, out);
    free(id);
    free(a.list);
    free(program);
    return st;
}
