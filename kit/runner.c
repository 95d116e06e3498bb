#include "runner.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN "plugin"  /* in place of a device */
#define KIT_ITSELF "kit" /* the group of the kit's own cases */

static bool is_any(const char *const *list, uint32_t n, const char *text)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i], text))
            return true;
    return !n;
}

static bool matches_filter(const kit_selection *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_filters; i++)
        if (!fnmatch(s->filters[i], name, 0))
            return true;
    return !s->n_filters;
}

bool kit_selects_device(const kit_selection *s, const kit_query *query,
                        uint32_t device)
{
    const char *label = query->devices[device].label;
    size_t name = strlen(query->plugin.name);
    return is_any(s->devices, s->n_devices, label) ||
           (label[name] == ':' &&
            is_any(s->devices, s->n_devices, label + name + 1));
}

/* ------------------------------------------------------------------------ */
/* Verdicts                                                                 */

static void report_as(kit_runner *r, const char *name,
                      const kit_expectation *expected, kit_verdict verdict)
{
    char text[2 * KIT_TEXT_SIZE];
    bool fails = kit_outcome_fails(verdict.outcome);
    if (expected && expected->kind == KIT_XFAIL &&
        (fails || verdict.outcome == KIT_PASSED)) {
        snprintf(text, sizeof text,
                 fails ? "%s (it %s: %.500s)"
                       : "expected to fail: %s (%s); take the line away%s",
                 expected->reason,
                 fails ? kit_outcome_name(verdict.outcome) : expected->where,
                 fails ? verdict.text : "");
        verdict.outcome = fails ? KIT_XFAILED : KIT_XPASSED;
        verdict.text = text;
    }
    r->n_hung += verdict.outcome == KIT_HUNG;
    kit_report_add(r->report, r->device, r->group, name, &verdict);
}

/* Of what no expectation is about: the kit's own cases say whether anything
 * was tested at all. */
static void report_plain(kit_runner *r, const char *name, kit_outcome outcome,
                         const char *text)
{
    kit_verdict verdict = {.outcome = outcome, .text = text};
    kit_report_add(r->report, r->device, r->group, name, &verdict);
}

static bool is_stopped(const kit_runner *r)
{
    return r->max_hangs && r->n_hung >= r->max_hangs;
}

static void report_not_run(kit_runner *r, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%u cases hung; --max-hangs sets the limit",
             r->n_hung);
    report_plain(r, name, KIT_NOT_RUN, text);
}

static bool on_verdict(void *ctx, uint32_t item, const kit_verdict *verdict)
{
    kit_runner *r = ctx;
    report_as(r, r->items[item].name, r->expected[item], *verdict);
    r->n_told = item + 1;
    return !is_stopped(r);
}

static void on_data(void *ctx, const kit_record *record)
{
    kit_runner *r = ctx;
    kit_query_record(r->query, record);
}

/* ------------------------------------------------------------------------ */
/* One group on one device                                                  */

typedef struct place {
    uint32_t device; /* in the query, or KIT_NO_DEVICE */
    uint32_t has;
} place;

/* Decides about a case; true: it is to run, as the next item. */
static bool choose(kit_runner *r, const place *at, const kit_case *c,
                   char *name)
{
    char needs[KIT_TEXT_SIZE], text[KIT_TEXT_SIZE + 32];
    const kit_expectation *e = kit_expectations_find(r->expectations, name);
    uint32_t lacks = c->needs & ~at->has;
    if (!matches_filter(r->selection, name))
        return false;
    if (e && e->kind == KIT_EXCLUDE) {
        report_plain(r, name, KIT_EXCLUDED, e->reason);
        return false;
    }
    if (lacks) {
        snprintf(text, sizeof text, "not offered: %s",
                 kit_needs_text(lacks, needs));
        report_plain(r, name, KIT_SKIPPED, text);
        return false;
    }
    if (is_stopped(r)) {
        report_not_run(r, name);
        return false;
    }
    r->items[r->n_items] = (kit_item){.of = c, .name = name};
    r->expected[r->n_items++] = e;
    return true;
}

/* A pattern that takes in a whole group speaks of its cases; the end it has to
 * name. */
static const kit_expectation *end_expectation(kit_runner *r, const char *name)
{
    const kit_expectation *e = kit_expectations_find(r->expectations, name);
    size_t n = e ? strlen(e->pattern) : 0;
    return n >= 4 && !strcmp(e->pattern + n - 4, ".end") ? e : NULL;
}

static kit_batch_end run_items(kit_runner *r, const place *at,
                               char error[KIT_TEXT_SIZE])
{
    char end[KIT_FULL_NAME_SIZE];
    kit_batch batch = {.config = r->config,
                       .items = r->items,
                       .n_items = r->n_items,
                       .device = at->device == KIT_NO_DEVICE
                                     ? KIT_NO_DEVICE
                                     : r->query->devices[at->device].index,
                       .end_name = end,
                       .silent = true,
                       .ctx = r,
                       .on_verdict = on_verdict};
    if (!r->n_items)
        return KIT_BATCH_DONE;
    snprintf(end, sizeof end, "%s/%s.end", r->device, r->group);
    r->items[r->n_items] = (kit_item){.name = end};
    r->expected[r->n_items] = end_expectation(r, end);
    r->n_told = 0;
    kit_batch_end stop = kit_batch_run(&batch, error);
    for (uint32_t i = r->n_told; stop == KIT_BATCH_DONE && i < r->n_items; i++)
        report_not_run(r, r->items[i].name);
    return stop;
}

static kit_batch_end run_group(kit_runner *r, uint32_t group, const place *at,
                               char error[KIT_TEXT_SIZE])
{
    const kit_list *list = r->list;
    uint32_t scope =
        at->device == KIT_NO_DEVICE ? KIT_PER_PLUGIN : KIT_PER_DEVICE;
    char(*names)[KIT_FULL_NAME_SIZE] = calloc(list->n + 1u, sizeof *names);
    uint32_t n_names = 0;
    r->group = kit_groups[group]->name;
    r->n_items = 0;
    if (!names) {
        r->report->failed = true;
        return KIT_BATCH_DONE;
    }
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->groups[i] != group || list->cases[i].scope != scope)
            continue;
        snprintf(names[n_names], sizeof *names, "%s/%s", r->device,
                 list->cases[i].name);
        n_names += choose(r, at, &list->cases[i], names[n_names]);
    }
    kit_batch_end end = run_items(r, at, error);
    free(names);
    return end;
}

/* ------------------------------------------------------------------------ */
/* The kit's own cases                                                      */

kit_batch_end kit_runner_query(kit_runner *r, char error[KIT_TEXT_SIZE])
{
    static const kit_case query = {.name = KIT_ITSELF ".query",
                                   .run = kit_query_run};
    kit_item item = {.of = &query, .name = PLUGIN "/" KIT_ITSELF ".query"};
    const kit_expectation *e = NULL;
    r->device = PLUGIN;
    r->group = KIT_ITSELF;
    kit_item *items = r->items;
    const kit_expectation **expected = r->expected;
    r->items = &item;
    r->expected = &e;
    kit_batch batch = {.config = r->config,
                       .items = &item,
                       .n_items = 1,
                       .device = KIT_NO_DEVICE,
                       .silent = true,
                       .ctx = r,
                       .on_verdict = on_verdict,
                       .on_data = on_data};
    kit_batch_end end = kit_batch_run(&batch, error);
    r->items = items;
    r->expected = expected;
    return end;
}

static void report_absent(kit_runner *r)
{
    const kit_selection *s = r->selection;
    r->device = PLUGIN;
    r->group = KIT_ITSELF;
    if (!r->query->n_devices)
        report_plain(r, PLUGIN "/" KIT_ITSELF ".devices", KIT_SKIPPED,
                     "no device is present");
    for (uint32_t i = 0; i < s->n_devices; i++) {
        char name[KIT_FULL_NAME_SIZE];
        kit_selection one = {.devices = &s->devices[i], .n_devices = 1};
        bool present = false;
        for (uint32_t d = 0; d < r->query->n_devices; d++)
            present |= kit_selects_device(&one, r->query, d);
        snprintf(name, sizeof name, "%s/" KIT_ITSELF ".device.%.64s", PLUGIN,
                 s->devices[i]);
        if (!present)
            report_plain(r, name, KIT_SKIPPED, "no such device is present");
    }
}

/* A device of which no op was run is not tested, whatever else passed. */
static void report_untested(kit_runner *r, uint32_t device)
{
    const char *label = r->query->devices[device].label;
    char name[KIT_FULL_NAME_SIZE];
    bool listed = false;
    for (uint32_t i = 0; i < r->list->n; i++)
        listed |= !strncmp(r->list->cases[i].name, "ops.", 4);
    if (!listed || is_stopped(r) || r->selection->n_filters ||
        !is_any(r->selection->groups, r->selection->n_groups, "ops"))
        return;
    for (uint32_t i = 0; i < r->report->n; i++) {
        const kit_result *result = &r->report->results[i];
        const char *dot = strrchr(result->name, '.');
        if (!strcmp(result->device, label) && !strcmp(result->group, "ops") &&
            result->outcome == KIT_PASSED && dot && strcmp(dot, ".end"))
            return;
    }
    r->device = label;
    r->group = KIT_ITSELF;
    snprintf(name, sizeof name, "%s/" KIT_ITSELF ".tested", label);
    report_plain(r, name, KIT_FAILED,
                 "nothing was tested: no case of the group ops passed");
}

/* Patterns for which nothing is there. Where devices are missing, or the
 * query failed, it is not known what they would match. */
static void report_stale(kit_runner *r)
{
    r->device = PLUGIN;
    r->group = KIT_ITSELF;
    bool known = r->query->whole && r->query->n_devices;
    for (uint32_t i = 0; i < r->expectations->n && known; i++) {
        const kit_expectation *e = &r->expectations->items[i];
        char name[KIT_FULL_NAME_SIZE], text[KIT_TEXT_SIZE];
        if (e->matched)
            continue;
        snprintf(name, sizeof name, PLUGIN "/" KIT_ITSELF ".pattern.%.100s",
                 e->pattern);
        snprintf(text, sizeof text,
                 "%.200s: '%.200s' matches no case; correct it or take it "
                 "away",
                 e->where, e->pattern);
        report_plain(r, name, KIT_FAILED, text);
    }
}

/* Marks the patterns that match cases which this run leaves out. */
static void match_unselected(kit_runner *r)
{
    for (uint32_t i = 0; i < r->list->n; i++) {
        const kit_case *c = &r->list->cases[i];
        char name[KIT_FULL_NAME_SIZE];
        if (c->scope == KIT_PER_PLUGIN) {
            snprintf(name, sizeof name, PLUGIN "/%s", c->name);
            kit_expectations_find(r->expectations, name);
            continue;
        }
        for (uint32_t d = 0; d < r->query->n_devices; d++) {
            snprintf(name, sizeof name, "%s/%s", r->query->devices[d].label,
                     c->name);
            kit_expectations_find(r->expectations, name);
        }
    }
}

/* ------------------------------------------------------------------------ */

static kit_batch_end run_groups(kit_runner *r, char error[KIT_TEXT_SIZE])
{
    kit_batch_end end = KIT_BATCH_DONE;
    const kit_selection *s = r->selection;
    uint32_t n = r->query->whole ? r->query->n_devices : 0;
    for (uint32_t g = 0; g < kit_n_groups && end == KIT_BATCH_DONE; g++) {
        if (!is_any(s->groups, s->n_groups, kit_groups[g]->name))
            continue;
        place at = {.device = KIT_NO_DEVICE, .has = r->query->plugin.has};
        for (uint32_t d = 0; d < r->query->n_devices; d++)
            at.has |= r->query->devices[d].has;
        r->device = PLUGIN;
        end = run_group(r, g, &at, error);
        for (uint32_t d = 0; d < n && end == KIT_BATCH_DONE; d++) {
            if (!kit_selects_device(s, r->query, d))
                continue;
            at = (place){.device = d, .has = r->query->devices[d].has};
            r->device = r->query->devices[d].label;
            end = run_group(r, g, &at, error);
        }
    }
    return end;
}

kit_batch_end kit_runner_run(kit_runner *r, char error[KIT_TEXT_SIZE])
{
    r->items = calloc(r->list->n + 1u, sizeof *r->items);
    r->expected = calloc(r->list->n + 1u, sizeof *r->expected);
    kit_batch_end end = KIT_BATCH_DONE;
    if (!r->items || !r->expected)
        r->report->failed = true;
    else
        end = kit_runner_query(r, error);
    if (end == KIT_BATCH_DONE && !r->report->failed)
        end = run_groups(r, error);
    if (end == KIT_BATCH_DONE && !r->report->failed) {
        for (uint32_t d = 0; d < r->query->n_devices && r->query->whole; d++)
            if (kit_selects_device(r->selection, r->query, d))
                report_untested(r, d);
        if (r->query->whole)
            report_absent(r);
        match_unselected(r);
        report_stale(r);
    }
    free(r->items);
    free(r->expected);
    r->items = NULL;
    r->expected = NULL;
    return end;
}
