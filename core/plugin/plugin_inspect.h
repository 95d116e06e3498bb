/*
 * Whether a plugin's file holds a plugin that can run here, found without
 * mapping or running it.
 *
 * This guards against mistakes, not against malice: a file that passes runs
 * with all the user's rights. The permissions decide whom to trust.
 */
#pragma once

#include "manifest.h"
#include "plugin_file.h"

/*
 * CLV_ERR_FORMAT: malformed or cut off; CLV_ERR_UNSUPPORTED: for another
 * machine. name: what the file is named for; NULL: it may have any name.
 * problem: what is wrong with its exports or constructors, with the remedy, ""
 * if nothing is; core.allow_unsafe_plugins lifts these.
 */
clv_status core_plugin_inspect(const core_plugin_file *file, const char *name,
                               core_manifest *manifest, char problem[256]);
