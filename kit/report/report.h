/* Results, and how they are shown. */
#pragma once

#include "../run/batch.h"
#include "../run/device_query.h"

#define KIT_FULL_NAME_SIZE (KIT_LABEL_SIZE + KIT_NAME_SIZE)

typedef struct kit_result {
    char device[KIT_LABEL_SIZE]; /* "cpu", or "plugin" for what has none */
    char group[32];
    char name[KIT_FULL_NAME_SIZE]; /* "cpu/ops.add" */
    kit_outcome outcome;
    char *text; /* may be NULL */
    uint64_t ns, printed;
    bool warned;
} kit_result;

typedef enum kit_format {
    KIT_FORMAT_TEXT,
    KIT_FORMAT_TAP,
    KIT_FORMAT_JUNIT,
    KIT_FORMAT_JSON,
} kit_format;

typedef struct kit_report {
    kit_format format;
    bool verbose, quiet;
    const char *path; /* of the plugin */
    const kit_query *query;
    kit_result *results;
    uint32_t n, size;
    uint64_t begin_ns;
    bool failed; /* out of memory: nothing may be relied on */
} kit_report;

/* Whether a result fails the report. */
bool kit_outcome_fails(kit_outcome outcome);
const char *kit_outcome_name(kit_outcome outcome);
/* "device/group.case", of which device and group are parts. */
void kit_report_add(kit_report *report, const char *device, const char *group,
                    const char *name, const kit_verdict *verdict);
/* Prints what is left to print; whether the plugin passed. */
bool kit_report_end(kit_report *report);
void kit_report_free(kit_report *report);

/* Of one format each: when a result comes, and at the end. */
void kit_text_result(const kit_report *report, const kit_result *result);
void kit_text_end(const kit_report *report);
void kit_tap_result(const kit_report *report, const kit_result *result);
void kit_tap_end(const kit_report *report);
void kit_junit_end(const kit_report *report);
bool kit_json_end(const kit_report *report);
