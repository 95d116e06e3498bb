/* What core.plugins and core.devices say about a plugin or a device. */
#pragma once

#include "offers.h"

/* core.plugins: names allowed, '-name' denied; empty: all. */
bool core_plugin_allowed(const clv_context *ctx, const char *name);
/* Whether core.devices names the plugin or a device of it; empty: yes. */
bool core_plugin_wanted(const clv_context *ctx, const char *name);
/* Position of the device in core.devices, by id, number or plugin; INT_MAX if
 * it is not listed, 0 where there is no list. */
int core_device_position(const clv_context *ctx, const core_offer *offer);
/* Whether core.devices lists the device by its id or number. */
bool core_device_listed(const clv_context *ctx, const core_offer *offer);
