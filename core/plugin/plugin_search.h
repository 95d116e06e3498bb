/* Where plugin files are looked for. */
#pragma once

#include "../context/context.h"

/* Tries every file of core.plugin_files, then every file of core.plugin_dirs
 * that is named as a plugin, in alphabetical order. A directory that cannot be
 * searched becomes a candidate with the reason. */
clv_status core_plugin_search(clv_context *ctx);
