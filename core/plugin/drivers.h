/*
 * Plugins whose drivers run on the host's processor alone.
 *
 * Such a driver takes much memory and time to open, and its devices are left
 * out if another plugin drives the processor. So core.cache_dir records what
 * was found, and the plugin is not opened again while its drivers are the same.
 * The manifest's key "drivers" lists what they depend on: absolute paths of
 * files and directories, by their modification time, and prefixes of the names
 * of environment variables. A restart of the machine counts as a change. A
 * plugin without the key is always opened.
 */
#pragma once

#include "plugin_file.h"

#include "../context/context.h"

/* The ids that the devices had, for free(), if none of the plugin's is of use;
 * else NULL. */
char *core_drivers_recall(const clv_context *ctx, const core_plugin_file *file,
                          const struct core_manifest *manifest);
/* Records that none of the plugin's devices is of use; ids: theirs. */
void core_drivers_remember(clv_context *ctx, const core_plugin *plugin,
                           const char *ids);
