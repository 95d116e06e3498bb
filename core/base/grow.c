#include "grow.h"

#include <stdlib.h>
#include <string.h>

bool core_grow(void *array, uint32_t *capacity, uint64_t n, size_t element)
{
    void *old, *grown;
    if (n <= *capacity)
        return true;
    uint64_t wanted = n < 16 ? 16 : n;
    wanted = wanted < 2ull * *capacity ? 2ull * *capacity : wanted;
    memcpy(&old, array, sizeof old);
    if (wanted > UINT32_MAX || !(grown = reallocarray(old, wanted, element)))
        return false;
    memcpy(array, &grown, sizeof grown);
    *capacity = (uint32_t)wanted;
    return true;
}
