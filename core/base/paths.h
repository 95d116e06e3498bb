/*
 * Where things lie on this machine. Nothing here depends on the working
 * directory; environment variables are ignored under elevated privileges.
 *
 * Strings are new memory, for free().
 */
#pragma once

#include <cleave/cleave.h>

#define CORE_SYSTEM_CONFIG "/etc/cleave/cleave.ini"

/* $XDG_CONFIG_HOME/cleave/cleave.ini or the one in ~/.config; NULL if neither
 * variable holds an absolute path, or the home does not exist. */
clv_status core_user_config(char **out);
/* $XDG_CACHE_HOME/cleave or ~/.cache/cleave; NULL likewise. */
clv_status core_user_cache(char **out);

/*
 * Directories of plugins and of data that belong to this libcleave: as the file
 * cleave-uninstalled beside it says, else by where an installed one has them.
 */
clv_status core_library_paths(char **plugin_dirs, char **data_dir);

/* The line of /proc/self/maps about what is mapped at address. */
#define CORE_MAPPING_SIZE (4096 + 128)
bool core_mapping(const void *address, char line[CORE_MAPPING_SIZE]);

/* The program that tries plugins, found in the same way. It may be missing. */
clv_status core_probe_program(char **out);

/* Makes the directory and those above it that are missing, for the user only.
 */
clv_status core_make_dirs(const char *path);
