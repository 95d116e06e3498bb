#include "gpus.h"

#include <stdio.h>

void gpus_find(const char *plugin, char id[GPUS_ID])
{
    char settings[128];
    const size_t n = strlen(plugin);
    rig_world world;
    snprintf(settings, sizeof settings, "core.plugins=ref,%s ref.devices=1",
             plugin);
    id[0] = 0;
    rig_open(&world, NULL, settings);
    for (uint32_t i = clv_context_device_count(world.ctx); i-- > 0;) {
        const char *name = clv_device_id(clv_context_device(world.ctx, i));
        if (!strncmp(name, plugin, n) && (name[n] == ':' || !name[n]))
            snprintf(id, GPUS_ID, "%s", name);
    }
    rig_close(&world);
    if (!id[0])
        rig_no_driver(plugin);
}
