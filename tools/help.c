#include "option_tables.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

#define HELP_COLUMN 30

/* " (default: X)", or nothing. */
static void describe_default(const tool_option *o, const void *args, char *out,
                             size_t size)
{
    const void *at = (const char *)args + o->offset;
    int64_t whole = o->type == TOOL_INT ? *(const int64_t *)at : 0;
    const tool_ints *list = at;
    size_t used = 0;
    out[0] = 0;
    if (o->type == TOOL_INT && (double)whole >= o->min)
        snprintf(out, size, " (default: %lld)", (long long)whole);
    else if (o->type == TOOL_FLOAT)
        snprintf(out, size, " (default: %g)", *(const double *)at);
    else if (o->type == TOOL_CHOICE && *(const char *const *)at)
        snprintf(out, size, " (default: %s)", *(const char *const *)at);
    else if (o->type == TOOL_FLAG && *(const bool *)at)
        snprintf(out, size, " (default: on)");
    else if (o->type == TOOL_INTS)
        for (uint32_t i = 0; i < list->n && used < size; i++)
            used += (size_t)snprintf(
                out + used, size - used, "%s%lld%s",
                i ? "," : " (default: ", (long long)list->items[i],
                i + 1 < list->n ? "" : ")");
}

static void print_option(const tool_option *o, const void *args)
{
    char left[80], help[512], value[96];
    int n;
    if (o->letter)
        n = snprintf(left, sizeof left, "  -%c, --%.*s", o->letter,
                     (int)strcspn(o->names, "|"), o->names);
    else
        n = snprintf(left, sizeof left, "      --%.*s",
                     (int)strcspn(o->names, "|"), o->names);
    if (o->arg && n > 0 && (size_t)n < sizeof left)
        n += snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
    fputs(left, stdout);
    if (n + 2 > HELP_COLUMN) {
        putchar('\n');
        n = 0;
    }
    printf("%*s", HELP_COLUMN - n, "");
    describe_default(o, args, value, sizeof value);
    snprintf(help, sizeof help, "%s%s", o->help, value);
    tool_print_wrapped(help, HELP_COLUMN);
}

static void print_paragraphs(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        tool_print_wrapped(line, 0);
        text += length + (text[length] == '\n');
    }
}

void tool_print_help(const tool_command *command, const tool_option_tables *all,
                     const void *args)
{
    printf("usage: %s%s%s [options]\n\n", command->title,
           *command->operands ? " " : "", command->operands);
    print_paragraphs(command->summary);
    if (command->details) {
        putchar('\n');
        print_paragraphs(command->details);
    }
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->tables[i] == command->options)
            printf("%s",
                   all->tables[i]->type == TOOL_GROUP ? "" : "\noptions\n");
        else if (i == 0 || all->tables[i - 1] == command->options)
            printf("\ncommon options\n");
        for (const tool_option *o = all->tables[i]; o->names; o++)
            if (o->type == TOOL_GROUP)
                printf("\n%s\n", o->help);
            else
                print_option(o, args);
    }
    printf("\nexamples\n%s", command->examples);
}
