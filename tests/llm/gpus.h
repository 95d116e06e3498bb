/* GPU drivers that a machine has, for tests of the plugins that use them. */
#pragma once

#include "rig.h"

#define GPUS_ID 64

/* The id of the first device that a plugin offers; rig_no_driver() if there is
 * none. */
void gpus_find(const char *plugin, char id[GPUS_ID]);
