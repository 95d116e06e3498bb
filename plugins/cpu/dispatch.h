#pragma once

#include "level.h"
#include "kernels.h"

/*
 * Picks the kernels for the option "features": "auto" or the name of a level.
 * The table starts from the scalar reference; every instruction set up to the
 * level overrides what it has.
 */
clv_status cpu_dispatch(const clv_host_api *host, const char *features,
                        cpu_kernels *table, cpu_level *level);
