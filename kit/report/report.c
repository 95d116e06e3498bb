#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kit_outcome_fails(kit_outcome outcome)
{
    return outcome == KIT_FAILED || outcome == KIT_CRASHED ||
           outcome == KIT_HUNG || outcome == KIT_XPASSED;
}

const char *kit_outcome_name(kit_outcome outcome)
{
    static const char *const names[KIT_N_OUTCOMES] = {"passed",
                                                      "failed",
                                                      "crashed",
                                                      "hung",
                                                      "skipped",
                                                      "excluded",
                                                      "not run",
                                                      "failed as expected",
                                                      "passed unexpectedly"};
    return names[outcome];
}

static kit_result *new_result(kit_report *report)
{
    if (report->n == report->size) {
        uint32_t size = report->size ? 2 * report->size : 256;
        kit_result *results = realloc(report->results, size * sizeof *results);
        if (!results) {
            report->failed = true;
            return NULL;
        }
        report->results = results;
        report->size = size;
    }
    return &report->results[report->n++];
}

/* What it printed stands behind what it said. */
static char *join_text(const kit_verdict *v)
{
    char printed[80] = "", *out;
    if (v->printed)
        snprintf(printed, sizeof printed,
                 "%sthe plugin printed %llu bytes, and ought to be silent",
                 v->text[0] ? "; " : "", (unsigned long long)v->printed);
    return asprintf(&out, "%s%s", v->text, printed) < 0 ? NULL : out;
}

void kit_report_add(kit_report *report, const char *device, const char *group,
                    const char *name, const kit_verdict *verdict)
{
    kit_result *r = new_result(report);
    if (!r)
        return;
    *r = (kit_result){.outcome = verdict->outcome,
                      .text = join_text(verdict),
                      .ns = verdict->ns,
                      .printed = verdict->printed,
                      .warned = verdict->warned};
    report->failed |= !r->text;
    snprintf(r->device, sizeof r->device, "%s", device);
    snprintf(r->group, sizeof r->group, "%s", group);
    snprintf(r->name, sizeof r->name, "%s", name);
    if (report->format == KIT_FORMAT_TEXT)
        kit_text_result(report, r);
    else if (report->format == KIT_FORMAT_TAP)
        kit_tap_result(report, r);
}

bool kit_report_end(kit_report *report)
{
    bool passed = !report->failed;
    for (uint32_t i = 0; i < report->n; i++)
        passed = passed && !kit_outcome_fails(report->results[i].outcome);
    switch (report->format) {
    case KIT_FORMAT_TEXT:
        kit_text_end(report);
        break;
    case KIT_FORMAT_TAP:
        kit_tap_end(report);
        break;
    case KIT_FORMAT_JUNIT:
        kit_junit_end(report);
        break;
    case KIT_FORMAT_JSON:
        passed = kit_json_end(report) && passed;
        break;
    }
    return passed;
}

void kit_report_free(kit_report *report)
{
    for (uint32_t i = 0; i < report->n; i++)
        free(report->results[i].text);
    free(report->results);
    report->results = NULL;
    report->n = report->size = 0;
}
