/* Whether a plugin's file may be loaded. */
#pragma once

#include <cleave/cleave.h>

#include <sys/stat.h>

/*
 * The file, opened once: what is checked, inspected and mapped is this.
 *
 * Trusted are root and the user. A file is safe if it and every directory above
 * it belong to one of them and nobody else may write there; in directories
 * other than its own the sticky bit is enough, since then others cannot rename
 * what is in it. Access lists beyond the mode are not looked at.
 */
typedef struct core_plugin_file {
    char *path; /* links resolved */
    int fd;
    struct stat stat;
    char problem[512]; /* why it is not safe, with the remedy; "" if it is */
} core_plugin_file;

/* Opens a regular file. Fails only if it cannot be read. */
clv_status core_plugin_file_open(const char *path, core_plugin_file *out);
void core_plugin_file_close(core_plugin_file *file);

/* Right before mapping by path: the path still leads to this file. */
clv_status core_plugin_file_recheck(const core_plugin_file *file);
/* Afterwards: what is mapped at address is this file. */
clv_status core_plugin_file_check_mapped(const core_plugin_file *file,
                                         const void *address);
