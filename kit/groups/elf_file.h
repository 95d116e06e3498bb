/* What stands in a plugin's file, read without loading it. */
#pragma once

#include "../plugin/kit.h"

#define KIT_MAX_NEEDED 32

typedef struct kit_elf {
    uint32_t n_exported;
    bool has_query;
    char others[256]; /* the first names exported beside the query */
    bool sanitized;
    bool binds_now;          /* linked with -z now */
    uint64_t n_constructors; /* functions that run when it is loaded */
    uint32_t n_needed;
    char needed[KIT_MAX_NEEDED][64]; /* names of libraries that it needs */
    uint32_t n_manifests;
    char manifest[CLV_MANIFEST_MAX + 1]; /* the last, unless it is larger */
    uint32_t manifest_size;
} kit_elf;

/* NULL, or why the file cannot be read. */
const char *kit_elf_read(const char *path, kit_elf *out);
