/*
 * Plugins whose drivers run on the host's processor alone.
 *
 * A driver of that kind takes much memory and time to open, only for its
 * devices to be left out, since another plugin drives the processor. So it is
 * remembered in core.cache_dir what was found, and such a plugin is not opened
 * again while its drivers are the same. The manifest's key "drivers" says what
 * they depend on: files and directories by their absolute paths, whose time of
 * change counts, and beginnings of the names of environment variables. A
 * restart of the machine counts as a change. A plugin without the key is always
 * opened.
 */
#pragma once

#include "plugin_file.h"

#include "../context/context.h"

/* The ids that the devices had, for free(), if none of the plugin's is of use;
 * else NULL. */
char *core_drivers_recall(const clv_context *ctx, const core_plugin_file *file,
                          const struct core_manifest *manifest);
/* None of the plugin's devices is of use; ids: what to tell of them. */
void core_drivers_remember(clv_context *ctx, const core_plugin *plugin,
                           const char *ids);
