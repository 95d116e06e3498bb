/*
 * What a plugin's file holds, found without mapping or running it.
 *
 * This guards against mistakes, not against malice: a file that passes runs
 * with all the user's rights. So the permissions decide whom to trust, and the
 * inspection whether the file can be a plugin for this host.
 */
#pragma once

#include <cleave/plugin.h>
#include <stdbool.h>

typedef struct core_plugin_facts {
    bool has_query; /* exports clv_plugin_query */
    bool has_manifest;
    char manifest[CLV_MANIFEST_MAX + 1];
    uint32_t manifest_size;  /* without the final NUL */
    uint32_t n_others;       /* symbols exported beside the query */
    char other[64];          /* the first of them, cut to fit */
    uint32_t n_constructors; /* beyond the toolchain's own */
} core_plugin_facts;

/*
 * Reads size bytes of fd at given offsets, moving no file position. Every
 * offset, size and count in the file is checked. CLV_ERR_FORMAT: malformed or
 * cut off; CLV_ERR_UNSUPPORTED: for another machine.
 */
clv_status core_plugin_elf_read(int fd, uint64_t size, core_plugin_facts *out);
