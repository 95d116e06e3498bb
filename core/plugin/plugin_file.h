/* Whether a plugin's file may be loaded. */
#pragma once

#include <cleave/cleave.h>

#include <sys/stat.h>

/*
 * The file, opened once, so that the file checked is the file mapped.
 *
 * Root and the user are trusted. A file is safe if it and every directory above
 * it belong to one of them and no one else may write there. In directories
 * other than its own the sticky bit is enough: others cannot rename its entries
 * then. Access control lists are ignored.
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
