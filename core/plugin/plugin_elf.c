#include "plugin_elf.h"

#include "../device/answer.h"
#include "elf_file.h"

#include <inttypes.h>
#include <string.h>

#define MAX_DYNAMIC 4096
#define MAX_SYMBOLS (1u << 20)
#define MAX_BUCKETS (1u << 20)

/* What the dynamic section says; addresses as in the file. */
typedef struct dynamic {
    uint64_t symbols, strings, strings_size, hash, gnu_hash;
    uint64_t init_size, preinit_size;
} dynamic;

/* ------------------------------------------------------------------------ */
/* Notes                                                                    */

static clv_status take_manifest(core_elf *e, uint64_t at, uint32_t size,
                                core_plugin_facts *out)
{
    if (out->has_manifest)
        return clv_error(CLV_ERR_FORMAT, "it has two manifests; leave one "
                                         "CLV_PLUGIN_MANIFEST and rebuild it");
    if (size > CLV_MANIFEST_MAX)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest has %u bytes, %u are the limit", size,
                         CLV_MANIFEST_MAX);
    CLV_TRY(core_elf_read(e, at, out->manifest, size, "its manifest"));
    while (size && !out->manifest[size - 1])
        size--;
    out->manifest[size] = 0;
    out->manifest_size = size;
    out->has_manifest = true;
    return CLV_OK;
}

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

static clv_status read_notes(core_elf *e, const ElfW(Phdr) * s,
                             core_plugin_facts *out)
{
    static const char owner[] = CLV_MANIFEST_OWNER;
    uint64_t align = s->p_align == 8 ? 8 : 4, left = s->p_filesz;
    uint64_t at = s->p_offset;
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        CLV_TRY(core_elf_read(e, at, &note, sizeof note, "a note"));
        /* The sum of three 32-bit sizes fits. */
        uint64_t text = round_up(sizeof note + (uint64_t)note.n_namesz, align);
        if (text + note.n_descsz > left)
            return core_elf_malformed("a note");
        char name[sizeof owner] = "";
        if (note.n_type == CLV_MANIFEST_TYPE && note.n_namesz == sizeof owner)
            CLV_TRY(core_elf_read(e, at + sizeof note, name, sizeof owner,
                                  "a note"));
        if (!memcmp(name, owner, sizeof owner))
            CLV_TRY(take_manifest(e, at + text, note.n_descsz, out));
        uint64_t whole = round_up(text + note.n_descsz, align);
        if (whole >= left)
            break;
        at += whole;
        left -= whole;
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Dynamic section and symbols                                              */

static clv_status read_dynamic(core_elf *e, const ElfW(Phdr) * s, dynamic *out)
{
    static const char what[] = "its dynamic section";
    ElfW(Dyn) d;
    for (uint64_t i = 0; i < s->p_filesz / sizeof d; i++) {
        if (i == MAX_DYNAMIC)
            return core_elf_malformed(what);
        CLV_TRY(core_elf_read_address(e, s->p_vaddr + i * sizeof d, &d,
                                      sizeof d, what));
        switch (d.d_tag) {
        case DT_NULL:
            return CLV_OK;
        case DT_SYMTAB:
            out->symbols = d.d_un.d_ptr;
            break;
        case DT_STRTAB:
            out->strings = d.d_un.d_ptr;
            break;
        case DT_STRSZ:
            out->strings_size = d.d_un.d_val;
            break;
        case DT_HASH:
            out->hash = d.d_un.d_ptr;
            break;
        case DT_GNU_HASH:
            out->gnu_hash = d.d_un.d_ptr;
            break;
        case DT_INIT_ARRAYSZ:
            out->init_size = d.d_un.d_val;
            break;
        case DT_PREINIT_ARRAYSZ:
            out->preinit_size = d.d_un.d_val;
            break;
        case DT_SYMENT:
            if (d.d_un.d_val != sizeof(ElfW(Sym)))
                return core_elf_malformed("its table of symbols");
            break;
        }
    }
    return CLV_OK;
}

static clv_status too_many(const char *what, uint64_t n)
{
    return clv_error(CLV_ERR_LIMIT,
                     "it has %" PRIu64 " dynamic %s, %u are the limit; link it "
                     "with hidden visibility",
                     n, what, MAX_SYMBOLS);
}

/* How many symbols the GNU hash table reaches: the chain of the highest bucket
 * ends with the last one. */
static clv_status count_gnu(core_elf *e, uint64_t table, uint64_t *count)
{
    static const char what[] = "its hash table";
    struct {
        uint32_t n_buckets, first, bloom_size, bloom_shift;
    } head;
    CLV_TRY(core_elf_read_address(e, table, &head, sizeof head, what));
    if (head.n_buckets > MAX_BUCKETS)
        return too_many("hash buckets", head.n_buckets);
    uint64_t buckets =
        table + sizeof head + (uint64_t)head.bloom_size * sizeof(ElfW(Addr));
    uint32_t last = 0, word = 0;
    for (uint32_t i = 0; i < head.n_buckets; i++) {
        CLV_TRY(core_elf_read_word(e, buckets, i, &word, what));
        last = word > last ? word : last;
    }
    *count = head.first;
    if (last < head.first)
        return CLV_OK;
    uint64_t chains = buckets + head.n_buckets * sizeof word;
    do {
        if (last >= MAX_SYMBOLS)
            return too_many("symbols", last);
        CLV_TRY(core_elf_read_word(e, chains, last - head.first, &word, what));
        last++;
    } while (!(word & 1));
    *count = last;
    return CLV_OK;
}

static clv_status count_symbols(core_elf *e, const dynamic *d, uint64_t *count)
{
    static const char what[] = "its hash table";
    *count = 0;
    if (!d->hash && !d->gnu_hash)
        return core_elf_malformed(what);
    if (d->gnu_hash)
        CLV_TRY(count_gnu(e, d->gnu_hash, count));
    uint32_t n = 0;
    if (d->hash) /* the number of chains is that of the symbols */
        CLV_TRY(core_elf_read_word(e, d->hash, 1, &n, what));
    *count = n > *count ? n : *count;
    return *count > MAX_SYMBOLS ? too_many("symbols", *count) : CLV_OK;
}

/* Binding and visibility have the same bits in both classes. */
static bool exported(const ElfW(Sym) * s)
{
    unsigned bind = ELF64_ST_BIND(s->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(s->st_other);
    return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS &&
           (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

/* Some linkers mark the ends of sections for everybody. */
static bool of_the_linker(const char *name)
{
    return !strcmp(name, "_edata") || !strcmp(name, "_end") ||
           !strcmp(name, "__bss_start");
}

static clv_status take_symbol(core_elf *e, const dynamic *d,
                              const ElfW(Sym) * s, core_plugin_facts *out)
{
    static const char what[] = "the name of a symbol";
    char name[sizeof out->other];
    if (s->st_name >= d->strings_size)
        return core_elf_malformed(what);
    uint64_t n = d->strings_size - s->st_name;
    n = n < sizeof name - 1 ? n : sizeof name - 1;
    CLV_TRY(core_elf_read_address(e, d->strings + s->st_name, name, n, what));
    name[n] = 0;
    if (!strcmp(name, CLV_PLUGIN_QUERY_SYMBOL)) {
        out->has_query = true;
    } else if (!of_the_linker(name)) {
        core_name_clean(name, sizeof name);
        if (!out->n_others++)
            memcpy(out->other, name, sizeof name);
    }
    return CLV_OK;
}

static clv_status read_symbols(core_elf *e, const dynamic *d,
                               core_plugin_facts *out)
{
    uint64_t n;
    CLV_TRY(count_symbols(e, d, &n));
    for (uint64_t i = 1; i < n; i++) {
        ElfW(Sym) s;
        CLV_TRY(core_elf_read_address(e, d->symbols + i * sizeof s, &s,
                                      sizeof s, "its table of symbols"));
        if (exported(&s))
            CLV_TRY(take_symbol(e, d, &s, out));
    }
    return CLV_OK;
}

/* The toolchain's start file contributes one entry to the array. */
static uint32_t constructors(const dynamic *d)
{
    uint64_t init = d->init_size / sizeof(ElfW(Addr));
    uint64_t all = (init ? init - 1 : 0) + d->preinit_size / sizeof(ElfW(Addr));
    return all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
}

/* ------------------------------------------------------------------------ */

static clv_status read_contents(core_elf *e, core_plugin_facts *out)
{
    const ElfW(Phdr) *dynamic_segment = NULL;
    for (uint32_t i = 0; i < e->n_segments; i++) {
        if (e->segments[i].p_type == PT_NOTE)
            CLV_TRY(read_notes(e, &e->segments[i], out));
        else if (e->segments[i].p_type == PT_DYNAMIC)
            dynamic_segment = &e->segments[i];
    }
    if (!dynamic_segment)
        return core_elf_malformed("its dynamic section");
    dynamic d = {0};
    CLV_TRY(read_dynamic(e, dynamic_segment, &d));
    out->n_constructors = constructors(&d);
    return read_symbols(e, &d, out);
}

clv_status core_plugin_elf_read(int fd, uint64_t size, core_plugin_facts *out)
{
    *out = (core_plugin_facts){0};
    core_elf e;
    CLV_TRY(core_elf_open(&e, fd, size));
    return read_contents(&e, out);
}
