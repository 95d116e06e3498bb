/* The table of host functions that a plugin instance is given. */
#pragma once

#include "../context/context.h"

/* Fills plugin->host; paths, cache_dir and abi_version are set. */
void core_host_init(core_plugin *plugin);
