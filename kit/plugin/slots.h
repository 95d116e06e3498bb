/* The slots of a plugin's table by name, and which of them must be there. */
#pragma once

#include <cleave/plugin.h>

#include <stdbool.h>

/* Sizes of version 1, which every later one has at least. */
#define KIT_V1_SIZE(type, last)                                                \
    ((uint32_t)((offsetof(type, last) + sizeof(((type *)0)->last) + 7) / 8 * 8))
#define KIT_V1_API KIT_V1_SIZE(clv_plugin_api, calibrate)
#define KIT_V1_OPTION KIT_V1_SIZE(clv_option, max)

typedef struct kit_slot {
    const char *name;
    size_t offset;
    bool optional;
} kit_slot;

extern const kit_slot kit_slots[];
extern const uint32_t kit_n_slots;

/* The first mandatory slot that is NULL; NULL if there is none. Slots that
 * others make mandatory, as map does unmap, count. */
const char *kit_missing_slot(const clv_plugin_api *api);
