/* For people: a line a case that did not pass, then counts. */
#include "report.h"

#include "../../tools/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Findings of one reason that are shown by name. */
#define MAX_EQUAL 3

static void print_line(const kit_result *r)
{
    char *text = tool_clean(r->text ? r->text : "");
    printf("%-8s %s  (%.1f ms)%s%s\n",
           r->warned && r->outcome == KIT_PASSED ? "warning"
                                                 : kit_outcome_name(r->outcome),
           r->name, (double)r->ns * 1e-6, text && *text ? "\n         " : "",
           text ? text : "");
    free(text);
    fflush(stdout);
}

static bool is_number(const char *s)
{
    return isdigit((unsigned char)s[*s == '-']);
}

/* Reasons are equal if they differ in numbers alone. */
static bool is_equal(const char *a, const char *b)
{
    while (*a && *b) {
        if (is_number(a) && is_number(b)) {
            strtod(a, (char **)&a);
            strtod(b, (char **)&b);
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

/* Results so far of this outcome and reason, this one included. */
static uint32_t count_equal(const kit_report *report, const kit_result *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < report->n; i++)
        n += report->results[i].outcome == r->outcome && r->text &&
             report->results[i].text &&
             is_equal(report->results[i].text, r->text);
    return n;
}

void kit_text_result(const kit_report *report, const kit_result *r)
{
    bool quiet = r->outcome == KIT_PASSED || r->outcome == KIT_SKIPPED ||
                 r->outcome == KIT_EXCLUDED || r->outcome == KIT_NOT_RUN;
    const uint32_t equal = quiet ? 0 : count_equal(report, r);
    if (report->verbose || r->printed || r->warned ||
        (!quiet && equal <= MAX_EQUAL))
        print_line(r);
    if (equal == MAX_EQUAL && !report->verbose)
        printf("         more of this reason are counted at the end; -v shows "
               "all\n");
}

/* ------------------------------------------------------------------------ */

typedef struct row {
    const char *device, *group;
    uint32_t counts[KIT_N_OUTCOMES];
    uint64_t ns;
} row;

#define MAX_ROWS 1024

static row *row_of(row *rows, uint32_t *n, const kit_result *r)
{
    for (uint32_t i = 0; i < *n; i++)
        if (!strcmp(rows[i].device, r->device) &&
            !strcmp(rows[i].group, r->group))
            return &rows[i];
    if (*n == MAX_ROWS)
        return NULL;
    rows[*n] = (row){.device = r->device, .group = r->group};
    return &rows[(*n)++];
}

static void count(row *to, const kit_result *r)
{
    to->counts[r->outcome]++;
    to->ns += r->ns;
}

static void print_row(const row *w, int device, const row *all)
{
    printf("%-*s  %-10s", device, w->device, w->group);
    for (uint32_t i = 0; i < KIT_N_OUTCOMES; i++)
        if (i == KIT_PASSED || i == KIT_FAILED || all->counts[i])
            printf("  %*u", (int)strlen(kit_outcome_name(i)), w->counts[i]);
    printf("  %8.2f\n", (double)w->ns * 1e-9);
}

static void print_counts(const kit_report *report)
{
    row *rows = calloc(MAX_ROWS, sizeof *rows), all = {"all", "", {0}, 0};
    uint32_t n = 0;
    int device = 6;
    if (!rows)
        return;
    for (uint32_t i = 0; i < report->n; i++) {
        const kit_result *r = &report->results[i];
        row *to = row_of(rows, &n, r);
        if (to)
            count(to, r);
        count(&all, r);
        if ((int)strlen(r->device) > device)
            device = (int)strlen(r->device);
    }
    printf("\n%-*s  %-10s", device, "device", "group");
    for (uint32_t i = 0; i < KIT_N_OUTCOMES; i++)
        if (i == KIT_PASSED || i == KIT_FAILED || all.counts[i])
            printf("  %s", kit_outcome_name(i));
    printf("  %8s\n", "seconds");
    for (uint32_t i = 0; i < n; i++)
        print_row(&rows[i], device, &all);
    print_row(&all, device, &all);
    free(rows);
}

/* ------------------------------------------------------------------------ */

typedef struct reason {
    const char *text;
    const char *names[MAX_EQUAL]; /* of the first cases */
    uint32_t n;
} reason;

static int by_count(const void *a, const void *b)
{
    const reason *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n)
                        : strcmp(x->text, y->text);
}

static void print_reason(const reason *r, bool named)
{
    char *text = tool_clean(r->text);
    printf("  %5u  %s", r->n, text ? text : "");
    for (uint32_t i = 0; named && i < MAX_EQUAL && i < r->n; i++)
        printf("%s%s", i ? ", " : ": ", r->names[i]);
    printf("%s\n", named && r->n > MAX_EQUAL ? ", ..." : "");
    free(text);
}

/* Those that at least so many cases have. */
static void print_reasons(const kit_report *report, kit_outcome outcome,
                          uint32_t least)
{
    enum { SHOWN = 24 };
    const bool findings = kit_outcome_fails(outcome);
    reason *reasons = calloc(report->n + 1u, sizeof *reasons);
    uint32_t n = 0;
    for (uint32_t i = 0; reasons && i < report->n; i++) {
        const kit_result *r = &report->results[i];
        if (r->outcome != outcome || !r->text)
            continue;
        uint32_t j = 0;
        while (j < n && !(findings ? is_equal(reasons[j].text, r->text)
                                   : !strcmp(reasons[j].text, r->text)))
            j++;
        if (j == n)
            reasons[n++].text = r->text;
        if (reasons[j].n < MAX_EQUAL)
            reasons[j].names[reasons[j].n] = r->name;
        reasons[j].n++;
    }
    if (n)
        qsort(reasons, n, sizeof *reasons, by_count);
    while (n && reasons[n - 1].n < least)
        n--;
    if (n)
        printf("\n%s\n", kit_outcome_name(outcome));
    for (uint32_t i = 0; i < n && i < SHOWN; i++)
        print_reason(&reasons[i], findings || outcome == KIT_NOT_RUN);
    if (n > SHOWN)
        printf("         and for %u other reasons; -v shows all\n", n - SHOWN);
    free(reasons);
}

void kit_text_end(const kit_report *report)
{
    uint32_t failed = 0, left = 0;
    for (uint32_t i = 0; i < report->n; i++) {
        failed += kit_outcome_fails(report->results[i].outcome);
        left += report->results[i].outcome == KIT_NOT_RUN;
    }
    if (!report->quiet) {
        print_counts(report);
        print_reasons(report, KIT_SKIPPED, 1);
        print_reasons(report, KIT_EXCLUDED, 1);
        print_reasons(report, KIT_NOT_RUN, 1);
        print_reasons(report, KIT_FAILED, MAX_EQUAL + 1);
        print_reasons(report, KIT_CRASHED, MAX_EQUAL + 1);
        print_reasons(report, KIT_HUNG, MAX_EQUAL + 1);
        putchar('\n');
    }
    if (left)
        printf("%u cases were not run; -v names them\n", left);
    if (failed)
        printf("%u of %u cases fail: %s does not conform\n", failed, report->n,
               report->path);
    else
        printf("%s conforms, as far as %u cases can tell\n", report->path,
               report->n);
}
