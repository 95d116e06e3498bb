/*
 * Whether a plugin's file holds a plugin that can run here, found without
 * mapping or running it.
 *
 * This finds mistakes; it is no protection against malicious files, which run
 * with all the user's rights. File permissions decide who is trusted.
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
