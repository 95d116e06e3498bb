/*
 * What is known beforehand: cases never to run (exclude), and cases that are
 * bound to fail for now (xfail). Patterns are fnmatch()'s, over
 * "device/group.case".
 */
#pragma once

#include "../plugin/kit.h"

typedef enum kit_expectation_kind {
    KIT_EXCLUDE = 1,
    KIT_XFAIL = 2,
} kit_expectation_kind;

typedef struct kit_expectation {
    uint32_t kind; /* kit_expectation_kind */
    char *pattern, *reason;
    char *where; /* "FILE:LINE", or the option */
    bool matched;
} kit_expectation;

typedef struct kit_expectations {
    kit_expectation *items;
    uint32_t n;
} kit_expectations;

/* false when out of memory. */
bool kit_expectations_add(kit_expectations *list, uint32_t kind,
                          const char *pattern, const char *reason,
                          const char *where);
/* Reads lines "exclude PATTERN reason" and "xfail PATTERN reason"; '#' begins a
 * comment. error: set if it answers false. */
bool kit_expectations_read(kit_expectations *list, const char *path,
                           char error[KIT_TEXT_SIZE]);
void kit_expectations_free(kit_expectations *list);

/* The first that applies to a case, exclusions before the others; NULL: none.
 * Notes which patterns have matched. */
const kit_expectation *kit_expectations_find(kit_expectations *list,
                                             const char *name);
