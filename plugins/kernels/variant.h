/* Ways to do the same, of which a device may not have all. */
#pragma once

#include "kernels.h"

/* Whether the target's list of disabled variants has the name. */
static inline bool gpu_is_disabled(const gpu_target *target, const char *name)
{
    const size_t n = strlen(name);
    const char *at = target->disabled;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        if (length == n && !memcmp(at, name, n))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}
