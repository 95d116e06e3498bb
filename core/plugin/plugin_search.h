/* Where plugin files are looked for. */
#pragma once

#include "../context/context.h"

/* Gives the loader every file of core.plugin_files, then every file of
 * core.plugin_dirs that is named as a plugin; those of a directory by name.
 * What cannot be searched becomes a candidate that says so. */
clv_status core_plugin_search(clv_context *ctx);
