/*
 * cleave-plugin-check: whether a plugin keeps the contract of plugin.h.
 */
#include "perf_table.h"
#include "support.h"
#include "runner.h"
#include "plugin/conf.h"

#include "../tools/interrupt.h"
#include "../tools/options.h"
#include "../tools/text.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct check_args {
    tool_common common;
    const char *format;
    tool_strings filters, groups, devices, exclude, xfail, expect, ops, models;
    tool_strings conf, set;
    kit_conf settings; /* both together */
    uint32_t n_filed;  /* of them, from files */
    double timeout;
    int64_t seed, max_hangs;
    bool verbose, thorough, list, perf, support;
} check_args;

#define AT(member) offsetof(check_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRINGS(0, "filter", "PATTERN", AT(filters),
                     "only cases that match, as in 'cpu/ops.matmul.*'; may be "
                     "repeated"),
    TOOL_OPT_STRINGS(0, "group", "NAME", AT(groups),
                     "only this group; may be repeated"),
    TOOL_OPT_STRINGS(
        0, "device", "ID", AT(devices),
        "only this device, as in vulkan:llvmpipe; may be repeated"),
    TOOL_OPT_STRINGS(0, "conf", "FILE", AT(conf),
                     "set the plugin's options as an ini file has them; may be "
                     "repeated"),
    TOOL_OPT_STRINGS(0, "set", "KEY=VALUE", AT(set),
                     "set an option of the plugin, as in cpu.threads=2; may be "
                     "repeated"),
    TOOL_OPT_STRINGS(0, "exclude", "PATTERN", AT(exclude),
                     "never run these cases; may be repeated"),
    TOOL_OPT_STRINGS(0, "xfail", "PATTERN", AT(xfail),
                     "these cases fail, for now: it is an error if one "
                     "passes; may be repeated"),
    TOOL_OPT_STRINGS(0, "expect", "FILE", AT(expect),
                     "lines of 'exclude PATTERN reason' and 'xfail PATTERN "
                     "reason'; may be repeated"),
    TOOL_OPT_FLOAT(0, "timeout", AT(timeout), 0.1, 86400,
                   "seconds that the plugin may take in a case"),
    TOOL_OPT_INT(0, "max-hangs", AT(max_hangs), 0, 1000000,
                 "end after so many cases that hang; 0: never"),
    TOOL_OPT_INT(0, "seed", AT(seed), 0, 9007199254740992.0,
                 "of random values"),
    TOOL_OPT_FLAG(0, "thorough", AT(thorough),
                  "more shapes, whole models' sizes, longer loops"),
    TOOL_OPT_FLAG(0, "list", AT(list), "list the cases, and run none"),
    TOOL_OPT_FLAG(0, "support", AT(support),
                  "test nothing; print what the devices take, and why not"),
    TOOL_OPT_FLAG(0, "perf", AT(perf),
                  "measure how fast the devices are, and check nothing"),
    TOOL_OPT_STRINGS(0, "op", "NAME", AT(ops),
                     "with --perf, only this op; may be repeated"),
    TOOL_OPT_STRINGS(0, "model", "PATTERN", AT(models),
                     "with --perf, only shapes of models that match, as in "
                     "'llama3-8b.ffn_*'; may be repeated"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), "text|tap|junit|json",
                    "text, tap, junit or json"),
    TOOL_OPT_FLAG('v', "verbose", AT(verbose), "a line for every case"),
    {0},
};

static const tool_command command = {
    .name = "cleave-plugin-check",
    .title = "cleave-plugin-check",
    .operands = "PLUGIN.so",
    .summary = "Tests whether a backend plugin keeps the contract of "
               "cleave/plugin.h.",
    .details =
        "Cases run in processes of their own: a plugin that crashes or hangs "
        "fails that case and no other. Patterns are those of "
        "the shell, over device/group.case; cases without a device have "
        "'plugin' in its place.\n"
        "Exits with 0 if the plugin conforms, 1 if not, 2 if the command line "
        "is wrong.",
    .examples =
        "  cleave-plugin-check ./cleave_vpu.so\n"
        "  cleave-plugin-check ./cleave_vpu.so --group ops --device vpu:0 -v\n"
        "  cleave-plugin-check ./cleave_vpu.so --expect known.txt -o junit > "
        "report.xml\n"
        "  cleave-plugin-check ./cleave_vpu.so --filter '*/ops.matmul.q8_0*' "
        "--seed 7\n"
        "  cleave-plugin-check ./cleave_vpu.so --support -o json\n"
        "  cleave-plugin-check ./cleave_vpu.so --perf --op matmul\n"
        "  cleave-plugin-check --list\n",
    .options = options,
    .no_devices = true,
    .min_operands = 0,
    .max_operands = 1,
};

/* ------------------------------------------------------------------------ */
/* Arguments                                                                */

static int check_groups(const check_args *args)
{
    for (uint32_t i = 0; i < args->groups.n; i++) {
        const char *names[16];
        uint32_t n = 0;
        bool found = false;
        for (; n < kit_n_groups && n < 16; n++) {
            names[n] = kit_groups[n]->name;
            found |= !strcmp(names[n], args->groups.items[i]);
        }
        const char *near = tool_nearest(args->groups.items[i], names, n);
        if (!found)
            return tool_usage(
                "--group %s: there is no such group%s%s%s",
                args->groups.items[i], near ? "; did you mean '" : "",
                near ? near : "; --list shows them", near ? "'?" : "");
    }
    return -1;
}

static int read_settings(check_args *args)
{
    char error[KIT_TEXT_SIZE];
    bool good = true;
    for (uint32_t i = 0; i < args->conf.n; i++)
        if (!kit_conf_read(&args->settings, args->conf.items[i], error))
            return tool_usage("%s", error);
    args->n_filed = args->settings.n;
    for (uint32_t i = 0; i < args->set.n && good; i++)
        good = kit_conf_add(&args->settings, args->set.items[i]);
    if (!good)
        tool_print_error("out of memory for the settings");
    return good ? -1 : TOOL_FAILED;
}

static int check_settings(const check_args *args)
{
    for (uint32_t i = 0; i < args->set.n; i++) {
        const char *s = args->set.items[i];
        const char *equals = strchr(s, '='), *dot = strchr(s, '.');
        if (!equals || !dot || dot > equals || dot == s || dot + 1 == equals)
            return tool_usage("--set %s: not of the form NAME.key=VALUE", s);
    }
    return -1;
}

static bool add_patterns(kit_expectations *list, const tool_strings *patterns,
                         uint32_t kind, const char *option)
{
    bool good = true;
    for (uint32_t i = 0; i < patterns->n; i++)
        good = kit_expectations_add(list, kind, patterns->items[i],
                                    "on the command line", option) &&
               good;
    return good;
}

static int read_expectations(const check_args *args, kit_expectations *list)
{
    char error[KIT_TEXT_SIZE];
    if (!add_patterns(list, &args->exclude, KIT_EXCLUDE, "--exclude") ||
        !add_patterns(list, &args->xfail, KIT_XFAIL, "--xfail")) {
        tool_print_error("out of memory");
        return TOOL_FAILED;
    }
    for (uint32_t i = 0; i < args->expect.n; i++)
        if (!kit_expectations_read(list, args->expect.items[i], error))
            return tool_usage("%s", error);
    return -1;
}

/* ------------------------------------------------------------------------ */
/* Places                                                                   */

typedef struct places {
    char path[PATH_MAX], dir[PATH_MAX];
    char run_dir[192];
} places;

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

static void remove_places(const places *p)
{
    if (p->run_dir[0])
        nftw(p->run_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int find_places(const char *given, places *p)
{
    struct stat st;
    const char *temporary = getenv("TMPDIR");
    p->run_dir[0] = 0;
    if (!realpath(given, p->path) || stat(p->path, &st))
        return tool_usage("%s: cannot be opened: %s", given, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return tool_usage("%s: not a file; give the plugin's shared object",
                          given);
    snprintf(p->dir, sizeof p->dir, "%s", p->path);
    char *slash = strrchr(p->dir, '/');
    slash[slash == p->dir] = 0;
    if (!temporary || temporary[0] != '/' || strlen(temporary) > 128)
        temporary = "/tmp";
    snprintf(p->run_dir, sizeof p->run_dir, "%s/cleave-plugin-check-XXXXXX",
             temporary);
    if (!mkdtemp(p->run_dir)) {
        int error = errno;
        p->run_dir[0] = 0;
        return tool_usage("%s: no directory can be made in it: %s; set TMPDIR",
                          temporary, strerror(error));
    }
    return -1;
}

/* ------------------------------------------------------------------------ */

static int print_list(const kit_list *list, const check_args *args)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const char *group = kit_groups[list->groups[i]]->name;
        bool wanted = !args->groups.n;
        for (uint32_t j = 0; j < args->groups.n; j++)
            wanted |= !strcmp(group, args->groups.items[j]);
        if (wanted)
            printf("%s/%s\n",
                   list->cases[i].scope == KIT_PER_DEVICE ? "DEVICE" : "plugin",
                   list->cases[i].name);
    }
    return TOOL_OK;
}

static kit_format format_of(const char *name)
{
    return !strcmp(name, "tap")     ? KIT_FORMAT_TAP
           : !strcmp(name, "junit") ? KIT_FORMAT_JUNIT
           : !strcmp(name, "json")  ? KIT_FORMAT_JSON
                                    : KIT_FORMAT_TEXT;
}

static int finish(kit_report *report, kit_batch_end end, const char *error)
{
    if (end == KIT_BATCH_USAGE)
        return tool_usage("%s", error);
    if (end == KIT_BATCH_INTERRUPTED) {
        tool_print_error("interrupted");
        return tool_interrupt_code();
    }
    if (report->failed)
        tool_print_error("out of memory: the report is not whole");
    return kit_report_end(report) ? TOOL_OK : TOOL_FAILED;
}

static kit_config config_of(const check_args *args, const places *at)
{
    return (kit_config){.path = at->path,
                        .dir = at->dir,
                        .settings = (const char *const *)args->settings.items,
                        .n_settings = args->settings.n,
                        .n_filed = args->n_filed,
                        .seed = (uint64_t)args->seed,
                        .timeout_ns = (uint64_t)(args->timeout * 1e9),
                        .thorough = args->thorough,
                        .run_dir = at->run_dir};
}

static int check(const check_args *args, const kit_list *list,
                 kit_expectations *expectations, const places *at)
{
    static kit_query query;
    char error[KIT_TEXT_SIZE];
    kit_config config = config_of(args, at);
    kit_selection selection = {args->filters.items, args->groups.items,
                               args->devices.items, args->filters.n,
                               args->groups.n,      args->devices.n};
    kit_report report = {.format = format_of(args->format),
                         .verbose = args->verbose,
                         .quiet = args->common.quiet,
                         .path = at->path,
                         .query = &query};
    kit_runner runner = {.config = &config,
                         .selection = &selection,
                         .list = list,
                         .expectations = expectations,
                         .report = &report,
                         .query = &query,
                         .max_hangs = (uint32_t)args->max_hangs};
    kit_batch_end end = kit_runner_run(&runner, error);
    int code = finish(&report, end, error);
    kit_report_free(&report);
    return code;
}

/* --perf and --support; text is a table for people there. */
static int tabulate(const check_args *args, const places *at)
{
    if (!strcmp(args->format, "tap") || !strcmp(args->format, "junit"))
        return tool_usage("--output %s: %s has no cases to report; use text or "
                          "json",
                          args->format, args->perf ? "--perf" : "--support");
    const char *format = !strcmp(args->format, "json") ? "json" : "md";
    kit_config config = config_of(args, at);
    kit_selection selection = {.devices = args->devices.items,
                               .n_devices = args->devices.n};
    if (args->perf)
        return kit_perf_main(&(kit_perf_request){.config = &config,
                                                 .selection = &selection,
                                                 .ops = args->ops.items,
                                                 .n_ops = args->ops.n,
                                                 .models = args->models.items,
                                                 .n_models = args->models.n,
                                                 .format = format});
    return kit_support_main(&(kit_support_request){
        .config = &config, .selection = &selection, .format = format});
}

static int run(check_args *args, const char *plugin)
{
    static places at;
    kit_list list;
    kit_expectations expectations = {0};
    int code = -1;
    if (!kit_list_all(&list)) {
        tool_print_error("out of memory for the list of cases");
        code = TOOL_FAILED;
    }
    if (code < 0)
        code = check_groups(args);
    if (code < 0 && args->list)
        code = print_list(&list, args);
    if (code < 0 && !plugin)
        code = tool_usage("no plugin is given; see 'cleave-plugin-check "
                          "--help'");
    if (code < 0)
        code = check_settings(args);
    if (code < 0)
        code = read_settings(args);
    if (code < 0)
        code = read_expectations(args, &expectations);
    if (code < 0)
        code = find_places(plugin, &at);
    if (code < 0)
        code = args->perf || args->support
                   ? tabulate(args, &at)
                   : check(args, &list, &expectations, &at);
    remove_places(&at);
    kit_conf_free(&args->settings);
    kit_expectations_free(&expectations);
    kit_list_free(&list);
    return code;
}

int main(int argc, char **argv)
{
    check_args args = {
        .format = "text", .timeout = 60, .seed = 1, .max_hangs = 3};
    char title[] = "cleave-plugin-check";
    uint32_t n = 0;
    program_invocation_short_name = title;
    tool_interrupt_install();
    int code = tool_parse(&command, &args, argc, argv, &n);
    if (code < 0)
        code = run(&args, n ? argv[0] : NULL);
    if (!tool_close_stdout() && code == TOOL_OK)
        code = TOOL_FAILED;
    return code;
}
