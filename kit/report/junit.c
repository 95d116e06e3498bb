/* JUnit XML: a suite a device and group. */
#include "report.h"

#include "../../tools/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Characters that XML 1.0 has no room for became '?' or are left out. */
static void print_escaped(const char *text)
{
    char *clean = tool_clean(text ? text : "");
    for (const char *c = clean; c && *c; c++) {
        if (!strncmp(c, "\xef\xbf\xbe", 3) || !strncmp(c, "\xef\xbf\xbf", 3))
            c += 2;
        else if (*c == '<')
            fputs("&lt;", stdout);
        else if (*c == '>')
            fputs("&gt;", stdout);
        else if (*c == '&')
            fputs("&amp;", stdout);
        else if (*c == '"')
            fputs("&quot;", stdout);
        else
            putchar(*c);
    }
    free(clean);
}

static void print_attribute(const char *name, const char *value)
{
    printf(" %s=\"", name);
    print_escaped(value);
    putchar('"');
}

/* "failure", or "error" for a case that came to no verdict. */
static const char *element_of(kit_outcome outcome)
{
    switch (outcome) {
    case KIT_FAILED:
    case KIT_XPASSED:
        return "failure";
    case KIT_CRASHED:
    case KIT_HUNG:
        return "error";
    case KIT_SKIPPED:
    case KIT_EXCLUDED:
    case KIT_NOT_RUN:
    case KIT_XFAILED:
        return "skipped";
    default:
        return NULL;
    }
}

typedef struct counts {
    uint32_t n, failures, errors, skipped;
    double seconds;
} counts;

static bool same_suite(const kit_result *a, const kit_result *b)
{
    return !strcmp(a->device, b->device) && !strcmp(a->group, b->group);
}

/* suite NULL: of all. */
static counts count(const kit_report *report, const kit_result *suite)
{
    counts c = {0};
    for (uint32_t i = 0; i < report->n; i++) {
        const kit_result *r = &report->results[i];
        const char *element = element_of(r->outcome);
        if (suite && !same_suite(suite, r))
            continue;
        c.n++;
        c.seconds += (double)r->ns * 1e-9;
        c.failures += element && !strcmp(element, "failure");
        c.errors += element && !strcmp(element, "error");
        c.skipped += element && !strcmp(element, "skipped");
    }
    return c;
}

static void print_counts(counts c)
{
    printf(" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\" "
           "time=\"%.6f\">\n",
           c.n, c.failures, c.errors, c.skipped, c.seconds);
}

static void print_case(const kit_result *r)
{
    char class[KIT_LABEL_SIZE + 40];
    const char *slash = strchr(r->name, '/');
    const char *element = element_of(r->outcome);
    snprintf(class, sizeof class, "%s.%s", r->device, r->group);
    printf("    <testcase");
    print_attribute("classname", class);
    print_attribute("name", slash ? slash + 1 : r->name);
    printf(" time=\"%.6f\"", (double)r->ns * 1e-9);
    if (element) {
        printf(">\n      <%s", element);
        if (strcmp(element, "skipped"))
            print_attribute("type", kit_outcome_name(r->outcome));
        print_attribute("message", r->text);
        printf("/>\n    </testcase>\n");
    } else if (r->text && *r->text) {
        printf(">\n      <system-out>");
        print_escaped(r->text);
        printf("</system-out>\n    </testcase>\n");
    } else {
        printf("/>\n");
    }
}

static void print_suite(const kit_report *report, const kit_result *suite)
{
    char name[KIT_LABEL_SIZE + 40];
    snprintf(name, sizeof name, "%s.%s", suite->device, suite->group);
    printf("  <testsuite");
    print_attribute("name", name);
    print_counts(count(report, suite));
    for (uint32_t i = 0; i < report->n; i++)
        if (same_suite(suite, &report->results[i]))
            print_case(&report->results[i]);
    printf("  </testsuite>\n");
}

void kit_junit_end(const kit_report *report)
{
    printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    print_attribute("name", report->path);
    print_counts(count(report, NULL));
    for (uint32_t i = 0; i < report->n; i++) {
        bool first = true;
        for (uint32_t j = 0; j < i && first; j++)
            first = !same_suite(&report->results[i], &report->results[j]);
        if (first)
            print_suite(report, &report->results[i]);
    }
    printf("</testsuites>\n");
}
