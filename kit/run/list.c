#include "list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kit_group *const kit_groups[] = {
    &kit_group_abi,      &kit_group_lifecycle, &kit_group_ops,
    &kit_group_split,    &kit_group_memory,    &kit_group_sync,
    &kit_group_programs, &kit_group_timing,    &kit_group_faults,
};

const uint32_t kit_n_groups = sizeof kit_groups / sizeof *kit_groups;

static kit_case *new_case(kit_list *list)
{
    if (list->n == list->size) {
        uint32_t size = list->size ? 2 * list->size : 256;
        kit_case *cases = realloc(list->cases, size * sizeof *cases);
        if (cases)
            list->cases = cases;
        uint32_t *groups = realloc(list->groups, size * sizeof *groups);
        if (groups)
            list->groups = groups;
        if (!cases || !groups)
            return NULL;
        list->size = size;
    }
    list->groups[list->n] = list->group;
    return &list->cases[list->n++];
}

void kit_add(kit_list *list, uint32_t scope, uint32_t needs,
             void (*run)(kit *k, const void *arg), const void *arg,
             const char *name, ...)
{
    kit_case *c = new_case(list);
    if (!c) {
        list->failed = true;
        return;
    }
    *c = (kit_case){.scope = scope, .needs = needs, .run = run, .arg = arg};
    int n =
        snprintf(c->name, sizeof c->name, "%s.", kit_groups[list->group]->name);
    va_list args;
    va_start(args, name);
    int m = vsnprintf(c->name + n, sizeof c->name - (size_t)n, name, args);
    va_end(args);
    list->failed |= m < 0 || (size_t)(n + m) >= sizeof c->name;
}

bool kit_list_all(kit_list *list)
{
    memset(list, 0, sizeof *list);
    for (uint32_t i = 0; i < kit_n_groups; i++) {
        list->group = i;
        kit_groups[i]->list(list);
    }
    return !list->failed;
}

void kit_list_free(kit_list *list)
{
    free(list->cases);
    free(list->groups);
    memset(list, 0, sizeof *list);
}

const char *kit_needs_text(uint32_t needs, char out[KIT_TEXT_SIZE])
{
    static const char *const names[] = {"memory that the host can map",
                                        "import of host pointers",
                                        "programs that can be kept",
                                        "device times",
                                        "fault_inject()",
                                        "a plugin that may be unloaded",
                                        "import of descriptors",
                                        "copy queues"};
    size_t n = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (needs & 1u << i)
            n += (size_t)snprintf(out + n, KIT_TEXT_SIZE - n, "%s%s",
                                  n ? ", " : "", names[i]);
    return out;
}
