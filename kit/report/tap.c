/* The Test Anything Protocol, version 13: a line a case, the plan at the end.
 */
#include "report.h"

#include "../../tools/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A '#' would begin a directive. */
static void print_text(const char *text)
{
    char *clean = tool_clean(text ? text : "");
    for (char *c = clean; c && *c; c++)
        putchar(*c == '#' ? ' ' : *c);
    free(clean);
}

static const char *directive(kit_outcome outcome)
{
    switch (outcome) {
    case KIT_SKIPPED:
        return " # SKIP ";
    case KIT_EXCLUDED:
        return " # SKIP excluded: ";
    case KIT_NOT_RUN:
        return " # SKIP not run: ";
    case KIT_XFAILED:
        return " # TODO ";
    default:
        return "";
    }
}

void kit_tap_result(const kit_report *report, const kit_result *r)
{
    /* Failing as expected is "not ok" with TODO, which readers let pass. */
    bool good = !kit_outcome_fails(r->outcome) && r->outcome != KIT_XFAILED;
    if (report->n == 1)
        printf("TAP version 13\n");
    printf("%s %u - ", good ? "ok" : "not ok", report->n);
    print_text(r->name);
    printf("%s", directive(r->outcome));
    if (*directive(r->outcome)) {
        print_text(r->text);
        putchar('\n');
    } else {
        putchar('\n');
        if (r->outcome != KIT_PASSED)
            printf("# %s\n", kit_outcome_name(r->outcome));
        if (r->text && *r->text) {
            printf("# ");
            print_text(r->text);
            putchar('\n');
        }
    }
    fflush(stdout);
}

void kit_tap_end(const kit_report *report)
{
    if (!report->n)
        printf("TAP version 13\n");
    printf("1..%u\n", report->n);
}
