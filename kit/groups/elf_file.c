#include "elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (1ull << 32)
#define CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

static bool fail(char *error, const char *what)
{
    snprintf(error, KIT_ELF_ERROR_SIZE, "%s", what);
    return false;
}

/* n bytes at a file offset; NULL if they are not there. */
static const void *at(const kit_elf *e, uint64_t offset, uint64_t n)
{
    return offset <= e->size && n <= e->size - offset ? e->data + offset : NULL;
}

static bool segment(const kit_elf *e, uint32_t i, ElfW(Phdr) * out)
{
    const ElfW(Ehdr) *head = (const void *)e->data;
    const void *p =
        at(e, head->e_phoff + (uint64_t)i * sizeof *out, sizeof *out);
    if (i >= head->e_phnum || !p)
        return false;
    memcpy(out, p, sizeof *out);
    return true;
}

/* n bytes at an address of the loaded object. */
static const void *loaded(const kit_elf *e, uint64_t address, uint64_t n)
{
    ElfW(Phdr) s;
    for (uint32_t i = 0; segment(e, i, &s); i++)
        if (s.p_type == PT_LOAD && address >= s.p_vaddr &&
            address - s.p_vaddr <= s.p_filesz &&
            n <= s.p_filesz - (address - s.p_vaddr))
            return at(e, s.p_offset + (address - s.p_vaddr), n);
    return NULL;
}

/* ------------------------------------------------------------------------ */
/* Reading                                                                  */

static bool read_whole(const char *path, kit_elf *e, char *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size > MAX_FILE) {
        if (fd >= 0)
            close(fd);
        return fail(error, "the file cannot be read");
    }
    e->size = (uint64_t)st.st_size;
    e->data = malloc(e->size + 1);
    uint64_t have = 0;
    while (e->data && have < e->size) {
        ssize_t n = read(fd, e->data + have, e->size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (uint64_t)n;
    }
    close(fd);
    return e->data && have == e->size ? true
                                      : fail(error, "the file cannot be read");
}

static bool check_head(const kit_elf *e, char *error)
{
    const ElfW(Ehdr) *head = (const void *)e->data;
    if (e->size < sizeof *head || memcmp(e->data, ELFMAG, SELFMAG))
        return fail(error, "it is no ELF file");
    if (head->e_ident[EI_CLASS] != CLASS || head->e_type != ET_DYN ||
        head->e_phentsize != sizeof(ElfW(Phdr)))
        return fail(error, "it is no shared object for this machine");
    return true;
}

/* The highest symbol that the hash table reaches; that of GNU leaves
 * undefined ones out, which come first. */
static uint64_t count_gnu(const kit_elf *e, uint64_t table)
{
    const uint32_t *head = loaded(e, table, 16);
    if (!head)
        return 0;
    uint64_t n_buckets = head[0], first = head[1], filter = head[2];
    uint64_t buckets = table + 16 + filter * sizeof(ElfW(Addr));
    uint64_t chains = buckets + 4 * n_buckets, last = 0;
    const uint32_t *bucket = loaded(e, buckets, 4 * n_buckets);
    for (uint64_t i = 0; bucket && i < n_buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    for (;; last++) {
        const uint32_t *chain = loaded(e, chains + 4 * (last - first), 4);
        if (!chain || *chain & 1)
            return last + 1;
    }
}

static uint64_t count_sysv(const kit_elf *e, uint64_t table)
{
    const uint32_t *head = loaded(e, table, 8);
    return head ? head[1] : 0;
}

static void read_dynamic(kit_elf *e, const ElfW(Phdr) * s)
{
    uint64_t n = s->p_filesz / sizeof(ElfW(Dyn)), gnu = 0, sysv = 0;
    const ElfW(Dyn) *entry = at(e, s->p_offset, n * sizeof *entry);
    e->has_dynamic = entry;
    for (uint64_t i = 0; entry && i < n && entry[i].d_tag != DT_NULL; i++) {
        uint64_t value = entry[i].d_un.d_val;
        switch (entry[i].d_tag) {
        case DT_SYMTAB:
            e->symbols = value;
            break;
        case DT_STRTAB:
            e->strings = value;
            break;
        case DT_STRSZ:
            e->strings_size = value;
            break;
        case DT_HASH:
            sysv = value;
            break;
        case DT_GNU_HASH:
            gnu = value;
            break;
        case DT_INIT_ARRAYSZ:
        case DT_PREINIT_ARRAYSZ:
            e->init_bytes += value;
            break;
        case DT_BIND_NOW:
            e->binds_now = true;
            break;
        case DT_FLAGS:
            e->binds_now |= (value & DF_BIND_NOW) != 0;
            break;
        case DT_FLAGS_1:
            e->binds_now |= (value & DF_1_NOW) != 0;
            break;
        }
    }
    e->n_symbols = sysv ? count_sysv(e, sysv) : gnu ? count_gnu(e, gnu) : 0;
}

bool kit_elf_read(const char *path, kit_elf *out,
                  char error[KIT_ELF_ERROR_SIZE])
{
    ElfW(Phdr) s;
    memset(out, 0, sizeof *out);
    bool good = read_whole(path, out, error) && check_head(out, error);
    for (uint32_t i = 0; good && segment(out, i, &s); i++)
        if (s.p_type == PT_DYNAMIC)
            read_dynamic(out, &s);
    if (good && (!out->has_dynamic || !out->n_symbols))
        good = fail(error, "it has no table of dynamic symbols");
    if (!good)
        kit_elf_free(out);
    return good;
}

void kit_elf_free(kit_elf *elf)
{
    free(elf->data);
    memset(elf, 0, sizeof *elf);
}

/* ------------------------------------------------------------------------ */

static const char *name_of(const kit_elf *e, uint64_t offset)
{
    uint64_t left = offset < e->strings_size ? e->strings_size - offset : 0;
    const char *name = left ? loaded(e, e->strings + offset, left) : NULL;
    return name && memchr(name, 0, left) ? name : "";
}

void kit_elf_symbols(const kit_elf *e,
                     void (*fn)(void *ctx, const char *name, bool defined),
                     void *ctx)
{
    for (uint64_t i = 1; i < e->n_symbols; i++) {
        ElfW(Sym) s;
        const void *p = loaded(e, e->symbols + i * sizeof s, sizeof s);
        if (!p)
            return;
        memcpy(&s, p, sizeof s);
        if (s.st_info >> 4 != STB_LOCAL)
            fn(ctx, name_of(e, s.st_name), s.st_shndx != SHN_UNDEF);
    }
}

uint32_t kit_elf_constructors(const kit_elf *e)
{
    return (uint32_t)(e->init_bytes / sizeof(ElfW(Addr)));
}

static uint64_t padded(uint64_t n)
{
    return (n + 3) / 4 * 4;
}

const char *kit_elf_note(const kit_elf *e, const char *owner, uint32_t type,
                         uint32_t i, uint32_t *size)
{
    ElfW(Phdr) s;
    uint32_t found = 0;
    for (uint32_t n = 0; segment(e, n, &s); n++) {
        const uint8_t *p =
            s.p_type == PT_NOTE ? at(e, s.p_offset, s.p_filesz) : NULL;
        uint64_t left = p ? s.p_filesz : 0;
        while (left >= 12) {
            uint32_t head[3]; /* owner's size, text's size, type */
            memcpy(head, p, sizeof head);
            uint64_t whole = 12 + padded(head[0]) + padded(head[1]);
            if (whole > left)
                break;
            const char *text = (const char *)p + 12 + padded(head[0]);
            if (head[2] == type && head[0] == strlen(owner) + 1 &&
                !memcmp(p + 12, owner, head[0]) && found++ == i) {
                *size = head[1];
                return text;
            }
            p += whole;
            left -= whole;
        }
    }
    return NULL;
}
