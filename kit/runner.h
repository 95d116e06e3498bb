/* A whole check: which cases run on which devices, and what comes of them. */
#pragma once

#include "report/report.h"
#include "run/expect.h"
#include "run/list.h"

typedef struct kit_selection {
    const char *const *filters; /* patterns; a case matches any; none: all */
    const char *const *groups;  /* names; none: all */
    const char *const *devices; /* labels or ids; none: all */
    uint32_t n_filters, n_groups, n_devices;
} kit_selection;

typedef struct kit_runner {
    const kit_config *config;
    const kit_selection *selection;
    const kit_list *list;
    kit_expectations *expectations;
    kit_report *report;
    kit_query *query;
    uint32_t max_hangs; /* cases that hang before the rest is left; 0: all */
    /* what is running */
    const char *device, *group;
    kit_item *items;
    const kit_expectation **expected; /* [n items + 1] or NULL each */
    uint32_t n_items, n_told;         /* of them, those with a verdict */
    uint32_t n_hung;
} kit_runner;

/* Runs it all; error: set for KIT_BATCH_USAGE. */
kit_batch_end kit_runner_run(kit_runner *runner, char error[KIT_TEXT_SIZE]);
/* Loads, enumerates, opens every device once; into runner->query and, unless
 * report is NULL, the report. */
kit_batch_end kit_runner_query(kit_runner *runner, char error[KIT_TEXT_SIZE]);
/* Whether the selection names the device. */
bool kit_selects_device(const kit_selection *selection, const kit_query *query,
                        uint32_t device);
