/*
 * Loading and unloading one plugin: from a checked file to an instance.
 * Messages do not name the file.
 */
#pragma once

#include "../context/context.h"
#include "manifest.h"
#include "plugin_file.h"

/* A plugin with that file and manifest, which were accepted. */
clv_status core_plugin_new(clv_context *ctx, const core_plugin_file *file,
                           const core_manifest *manifest, core_plugin **out);
/* Undoes whatever was done; the plugin's devices are closed. NULL is legal. */
void core_plugin_destroy(core_plugin *plugin);

clv_status core_plugin_map(core_plugin *plugin, const core_plugin_file *file);
/* Agrees on an ABI version and reads the plugin's table; both must be as the
 * manifest says. */
clv_status core_plugin_negotiate(core_plugin *plugin);
/* Declares the options. CLV_ERR_INVALID: the plugin's table is wrong; any other
 * failure but lack of memory is about a value the user gave. */
clv_status core_plugin_declare(core_plugin *plugin);
clv_status core_plugin_create(core_plugin *plugin);
/* Descriptions of the devices found; *out is for free(). */
clv_status core_plugin_enumerate(core_plugin *plugin, clv_device_info **out,
                                 uint32_t *count);
