/* Whether a plugin's file holds a plugin that can run here, before any of its
 * code does. */
#pragma once

#include "manifest.h"
#include "plugin_file.h"

/*
 * name: what the file is named for; NULL: it may have any name.
 * problem: what is wrong with its exports or constructors, with the remedy, ""
 * if nothing is; core.allow_unsafe_plugins lifts these.
 */
clv_status core_plugin_inspect(const core_plugin_file *file, const char *name,
                               core_manifest *manifest, char problem[256]);
