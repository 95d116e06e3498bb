#include "remains.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct remains {
    struct remains *next;
    void *memory;
} remains;

static _Atomic(remains *) all;
static _Atomic bool unsafe_exit;

void core_remains_add(void *memory)
{
    remains *r = memory ? malloc(sizeof *r) : NULL;
    if (!r)
        return; /* kept all the same */
    r->memory = memory;
    r->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &r->next, r))
        ;
}

void core_plugin_keep(core_plugin *plugin)
{
    atomic_store(&plugin->kept, true);
    atomic_store(&unsafe_exit, true);
}

bool clv_exit_safe(void)
{
    return !atomic_load(&unsafe_exit);
}
