#include "option_tables.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 256 /* of all options of a command */
#define COMMON(member) offsetof(tool_common, member)

static const tool_option plain_options[] = {
    TOOL_OPT_FLAG('q', "quiet", COMMON(quiet),
                  "errors only: no timings, no progress"),
    TOOL_OPT_FLAG('h', "help", COMMON(help), "show this help"),
    {0},
};

static const tool_option device_options[] = {
    TOOL_OPT_INT('t', "threads", COMMON(threads), 1, 1024,
                 "threads of the CPU (sets cpu.threads; default: one a core)"),
    TOOL_OPT_STRING(0, "devices|device|-dev", "LIST", COMMON(devices),
                    "devices to use, by id, with commas between them (sets "
                    "core.devices); 'cleave devices' lists them"),
    TOOL_OPT_STRINGS(0, "conf", "FILE", COMMON(conf),
                     "read this ini file too; may be repeated"),
    TOOL_OPT_STRINGS(0, "set", "KEY=VALUE", COMMON(set),
                     "set one key, as in section.key=value; may be repeated"),
    TOOL_OPT_STRING(0, "trace", "FILE", COMMON(trace),
                    "write a timeline for Perfetto or chrome://tracing"),
    TOOL_OPT_FLAG('v', "verbose", COMMON(verbose), "say more (log level info)"),
    TOOL_OPT_CHOICE(0, "log-level", "LEVEL", COMMON(log_level),
                    "error|warn|info|debug",
                    "error, warn (default), info or debug"),
    {0},
};

static tool_option_tables tables_of(const tool_command *command)
{
    tool_option_tables all = {.n = 0};
    if (command->options)
        all.tables[all.n++] = command->options;
    if (!command->no_devices)
        all.tables[all.n++] = device_options;
    all.tables[all.n++] = plain_options;
    return all;
}

int tool_usage(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tool_print_error(text);
    return TOOL_USAGE;
}

/* ------------------------------------------------------------------------ */
/* Finding                                                                  */

/* Edit distance, where a swap of neighbours counts as one. */
static uint32_t distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    uint32_t rows[3][MAX + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > MAX || nb > MAX)
        return UINT32_MAX;
    uint32_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = (uint32_t)j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= nb; j++) {
            uint32_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        uint32_t *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[nb];
}

const char *tool_nearest(const char *word, const char *const *words, uint32_t n)
{
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)strlen(word) / 3 + 1;
    best_distance = best_distance < 2 ? 2 : best_distance;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = distance(word, words[i]);
        if (d < best_distance) {
            best_distance = d;
            best = words[i];
        }
    }
    return best;
}

/* Whether name is one of the alternatives "a|b|c". */
static bool is_one_of(const char *name, size_t length, const char *alternatives)
{
    for (const char *p = alternatives; *p;) {
        size_t n = strcspn(p, "|");
        if (n && n == length && !memcmp(p, name, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

/* name: without dashes. *negated: it was --no-NAME. */
static const tool_option *find_long(const tool_option_tables *all,
                                    const char *name, size_t length,
                                    bool *negated)
{
    bool no = length > 3 && !memcmp(name, "no-", 3);
    for (uint32_t i = 0; i < all->n; i++) {
        for (const tool_option *o = all->tables[i]; o->names; o++) {
            *negated = false;
            if (is_one_of(name, length, o->names))
                return o;
            *negated = true;
            if (no && o->type == TOOL_FLAG &&
                is_one_of(name + 3, length - 3, o->names))
                return o;
        }
    }
    return NULL;
}

static const tool_option *find_letter(const tool_option_tables *all,
                                      char letter)
{
    for (uint32_t i = 0; i < all->n; i++)
        for (const tool_option *o = all->tables[i]; o->names; o++)
            if (o->letter == letter)
                return o;
    return NULL;
}

/* argv[*i] is no option of ours. Skips it if it may be skipped, and returns -1;
 * else an exit code after a message, or 0 if it is unknown. */
static int foreign_option(const tool_command *command,
                          const tool_common *common, int argc, char **argv,
                          int *i)
{
    const char *given = argv[*i];
    const size_t length = strcspn(given, "=");
    const size_t dashes = given[1] == '-' ? 2 : 0;
    for (const tool_foreign *f = command->foreign; f && f->names; f++) {
        if (!is_one_of(given + dashes, length - dashes, f->names))
            continue;
        if (!f->is_so)
            return tool_usage("%.*s: %s", (int)length, given, f->note);
        if (!common->quiet)
            fprintf(stderr, "%s: note: %.*s: %s\n",
                    program_invocation_short_name, (int)length, given, f->note);
        if (!given[length])
            *i += (int)f->n_values;
        if (!given[length] && f->choices && *i + 1 < argc &&
            is_one_of(argv[*i + 1], strlen(argv[*i + 1]), f->choices))
            ++*i;
        return -1;
    }
    return 0;
}

static int unknown_option(const tool_command *command,
                          const tool_option_tables *all, const char *shown)
{
    const char *given = shown, *words[MAX_NAMES];
    char names[MAX_NAMES][48];
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        for (const tool_option *o = all->tables[i]; o->names; o++) {
            for (const char *p = o->names; *p && n < MAX_NAMES;) {
                size_t length = strcspn(p, "|");
                snprintf(names[n], sizeof names[n], "%.*s", (int)length, p);
                words[n] = names[n];
                n++;
                p += length + (p[length] == '|');
            }
        }
    }
    char word[64];
    given += strspn(given, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    const char *near = tool_nearest(word, words, n);
    if (near && *near != '-')
        return tool_usage("unknown option '%s'; did you mean '--%s'?", shown,
                          near);
    return tool_usage("unknown option '%s'; see '%s --help'", shown,
                      command->title);
}

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

static bool parse_int(const char *text, double min, double max, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || (double)value < min ||
        (double)value > max)
        return false;
    *out = value;
    return true;
}

static bool parse_ints(const char *text, double min, double max, tool_ints *out)
{
    tool_ints list = {.n = 0};
    char item[32];
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        if (length >= sizeof item || list.n == TOOL_LIST_MAX)
            return false;
        memcpy(item, p, length);
        item[length] = 0;
        if (!parse_int(item, min, max, &list.items[list.n++]))
            return false;
        p += length;
        if (!*p)
            break;
    }
    *out = list;
    return true;
}

static bool parse_float(const char *text, double min, double max, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= min && value <= max))
        return false;
    *out = value;
    return true;
}

static int bad_value(const tool_option *o, const char *shown, const char *value)
{
    switch (o->type) {
    case TOOL_INT:
        return tool_usage("%s: '%s' is not a whole number in %.0f..%.0f", shown,
                          value, o->min, o->max);
    case TOOL_INTS:
        return tool_usage("%s: '%s' is not a list of up to %d whole numbers in "
                          "%.0f..%.0f with commas between them",
                          shown, value, TOOL_LIST_MAX, o->min, o->max);
    case TOOL_FLOAT:
        return tool_usage("%s: '%s' is not a number in %g..%g", shown, value,
                          o->min, o->max);
    case TOOL_CHOICE:
        return tool_usage("%s: '%s' is not one of %s", shown, value,
                          o->choices);
    }
    return tool_usage("%s: given more than %d times", shown, TOOL_LIST_MAX);
}

/* shown: the option as it was given. */
static int set_value(const tool_option *o, void *args, const char *shown,
                     const char *value)
{
    void *at = (char *)args + o->offset;
    bool good = true;
    switch (o->type) {
    case TOOL_INT:
        good = parse_int(value, o->min, o->max, at);
        break;
    case TOOL_INTS:
        good = parse_ints(value, o->min, o->max, at);
        break;
    case TOOL_FLOAT:
        good = parse_float(value, o->min, o->max, at);
        break;
    case TOOL_CHOICE:
        good = is_one_of(value, strlen(value), o->choices);
        if (good)
            *(const char **)at = value;
        break;
    case TOOL_STRING:
        *(const char **)at = value;
        break;
    case TOOL_STRINGS: {
        tool_strings *list = at;
        good = list->n < TOOL_LIST_MAX;
        if (good)
            list->items[list->n++] = value;
        break;
    }
    }
    return good ? -1 : bad_value(o, shown, value);
}

/* argv[*i] is an option; its value may be the next argument. */
static int parse_option(const tool_command *command,
                        const tool_option_tables *all, void *args, int argc,
                        char **argv, int *i)
{
    const char *given = argv[*i];
    const char *value = NULL;
    bool negated = false;
    const tool_option *o = NULL;
    char shown[64];
    size_t length = strcspn(given, "=");
    if (given[1] == '-') {
        o = find_long(all, given + 2, length - 2, &negated);
        if (given[length])
            value = given + length + 1;
    } else if (!given[2]) {
        length = 2;
        o = find_letter(all, given[1]);
    } else {
        o = find_long(all, given, length, &negated);
    }
    if (!o) {
        const int code = foreign_option(command, args, argc, argv, i);
        return code ? code : unknown_option(command, all, given);
    }
    snprintf(shown, sizeof shown, "%.*s", (int)length, given);
    if (o->type == TOOL_FLAG) {
        if (value)
            return tool_usage("%s takes no value; write it alone", shown);
        *(bool *)((char *)args + o->offset) = !negated;
        return -1;
    }
    if (!value) {
        if (*i + 1 >= argc)
            return tool_usage("%s needs a value: %s", shown, o->arg);
        value = argv[++*i];
    }
    return set_value(o, args, shown, value);
}

/* ------------------------------------------------------------------------ */

int tool_parse(const tool_command *command, void *args, int argc, char **argv,
               uint32_t *n_operands)
{
    tool_option_tables all = tables_of(command);
    tool_common *common = args;
    uint32_t n = 0;
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && !strcmp(argv[i], "--")) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            int code = parse_option(command, &all, args, argc, argv, &i);
            if (code >= 0)
                return code;
            if (common->help) {
                common->help = false;
                tool_print_help(command, &all, args);
                return TOOL_OK;
            }
        } else if (n >= command->max_operands) {
            return tool_usage("unexpected argument '%s'; see '%s --help'",
                              argv[i], command->title);
        } else {
            argv[n++] = argv[i];
        }
    }
    if (n < command->min_operands)
        return tool_usage("too few arguments; usage: %s %s", command->title,
                          command->operands);
    *n_operands = n;
    return -1;
}
