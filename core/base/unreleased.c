#include "unreleased.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct object {
    struct object *next;
    void *memory;
} object;

static _Atomic(object *) all;

void core_unreleased_add(void *memory)
{
    object *o = memory ? malloc(sizeof *o) : NULL;
    if (!o)
        return; /* it stays all the same */
    o->memory = memory;
    o->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &o->next, o))
        ;
}
