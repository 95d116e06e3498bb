/* Whether a plugin's file may be loaded. */
#pragma once

#include <cleave/cleave.h>

/*
 * The file and its directory belong to root or the user, and nobody else may
 * write to them; the file can be read and is as long as it says. path: links
 * resolved. unsafe: whoever it belongs to.
 */
clv_status core_plugin_file_check(const char *path, bool unsafe);
