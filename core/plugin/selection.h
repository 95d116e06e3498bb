/* What core.plugins and core.devices say about a plugin or a device. */
#pragma once

#include "offers.h"

/* core.plugins: names allowed, '-name' denied; empty: all. */
bool core_plugin_allowed(const clv_context *ctx, const char *name);
/* Whether core.devices names the plugin or a device of it; empty: yes. */
bool core_plugin_wanted(const clv_context *ctx, const char *name);
/* Sets the offer's position and is_named. */
void core_device_select(const clv_context *ctx, core_offer *offer);
