/* What stands in a shared object, read from the file without loading it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_ELF_ERROR_SIZE 256

typedef struct kit_elf {
    uint8_t *data; /* the file */
    uint64_t size;
    /* From its dynamic section; file offsets are checked at each use. */
    uint64_t symbols, strings, strings_size; /* addresses, bytes */
    uint64_t n_symbols;
    uint64_t init_bytes; /* DT_INIT_ARRAYSZ + DT_PREINIT_ARRAYSZ */
    bool has_dynamic;
    bool binds_now; /* linked with -z now */
} kit_elf;

/* false: error says why; nothing is left to free. */
bool kit_elf_read(const char *path, kit_elf *out,
                  char error[KIT_ELF_ERROR_SIZE]);
void kit_elf_free(kit_elf *elf);

/* Calls fn for every dynamic symbol that is not local to the file; name is ""
 * where it lies outside the file. */
void kit_elf_symbols(const kit_elf *elf,
                     void (*fn)(void *ctx, const char *name, bool defined),
                     void *ctx);
/* Constructors: entries of the arrays that run when it is loaded. */
uint32_t kit_elf_constructors(const kit_elf *elf);
/* The i-th note of that owner and type; NULL: there are no more. */
const char *kit_elf_note(const kit_elf *elf, const char *owner, uint32_t type,
                         uint32_t i, uint32_t *size);
