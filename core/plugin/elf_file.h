/*
 * Reading shared objects of this machine without mapping them. Every offset and
 * size in the file is checked against its length before it is used.
 *
 * what: of a read, for the message: "its table of symbols".
 */
#pragma once

#include <cleave/cleave.h>

#include <link.h>

#define CORE_ELF_SEGMENTS_MAX 64
#define CORE_ELF_WINDOW 4096

/* The file, and the part of it that was read last. */
typedef struct core_elf {
    int fd; /* the caller's; its position is not moved */
    uint64_t size;
    ElfW(Phdr) segments[CORE_ELF_SEGMENTS_MAX]; /* inside the file */
    uint32_t n_segments;
    uint64_t window_at, window_size;
    uint8_t window[CORE_ELF_WINDOW];
} core_elf;

/* size: of the file. CLV_ERR_FORMAT: malformed or cut off; CLV_ERR_UNSUPPORTED:
 * for another machine. There is nothing to close. */
clv_status core_elf_open(core_elf *e, int fd, uint64_t size);

/* n bytes at an offset; n is at most CORE_ELF_WINDOW. */
clv_status core_elf_read(core_elf *e, uint64_t at, void *out, uint64_t n,
                         const char *what);
/* The same for what will be mapped at an address, before relocation. */
clv_status core_elf_read_address(core_elf *e, uint64_t address, void *out,
                                 uint64_t n, const char *what);
/* Element i of an array of 32-bit words at an address. */
clv_status core_elf_read_word(core_elf *e, uint64_t address, uint64_t i,
                              uint32_t *out, const char *what);
/* CLV_ERR_FORMAT */
clv_status core_elf_malformed(const char *what);
