#include "plugin_inspect.h"

#include "../base/sanitizer.h"
#include "../device/answer.h"

#include <cleave/plugin.h>
#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_SEGMENTS 64
#define MAX_SYMBOLS (1u << 20)

/* The header of the object that this code is linked into. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

typedef struct facts {
    bool has_symbols; /* a table of them */
    bool has_query;   /* exports clv_plugin_query */
    bool has_manifest;
    char manifest[CLV_MANIFEST_MAX + 1];
    uint32_t manifest_size;  /* without the final NUL */
    uint32_t n_others;       /* symbols exported beside the query */
    char other[64];          /* the first of them, cut to fit */
    uint64_t n_constructors; /* beyond the toolchain's own */
} facts;

static clv_status malformed(const char *what)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s lies outside the file or is malformed; install the "
                     "plugin again",
                     what);
}

/* ------------------------------------------------------------------------ */
/* Header and segments                                                      */

static clv_status read_header(int fd, ElfW(Ehdr) * head)
{
    const unsigned char *own = __ehdr_start.e_ident;
    ssize_t n = pread(fd, head, sizeof *head, 0);
    if (n < 0)
        return clv_error(CLV_ERR_IO, "the file cannot be read: %s",
                         strerror(errno));
    if (n < EI_NIDENT || memcmp(head->e_ident, ELFMAG, SELFMAG))
        return clv_error(CLV_ERR_FORMAT,
                         "this is no shared object (ELF); "
                         "rebuild the plugin, or remove the file");
    if (head->e_ident[EI_CLASS] != own[EI_CLASS] ||
        head->e_ident[EI_DATA] != own[EI_DATA])
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "it is built for a machine of another word size or "
                         "byte order; install the plugin's build for this one");
    if ((size_t)n < sizeof *head)
        return malformed("its header");
    if (head->e_machine != __ehdr_start.e_machine)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "it is built for ELF machine %u, this is %u; install "
                         "the plugin's build for this one",
                         head->e_machine, __ehdr_start.e_machine);
    if (head->e_type != ET_DYN)
        return clv_error(CLV_ERR_FORMAT,
                         "it is an ELF file of type %u, no shared object; "
                         "link it with -shared",
                         head->e_type);
    if (head->e_phentsize != sizeof(ElfW(Phdr)) || !head->e_phnum)
        return malformed("its table of segments");
    if (head->e_phnum > MAX_SEGMENTS)
        return clv_error(CLV_ERR_LIMIT, "it has %u segments, %d are the limit",
                         head->e_phnum, MAX_SEGMENTS);
    if (head->e_shentsize != sizeof(ElfW(Shdr)) || !head->e_shnum)
        return clv_error(CLV_ERR_FORMAT,
                         "its table of sections is missing or malformed; "
                         "install the plugin again, stripped by strip at most");
    return CLV_OK;
}

static uint64_t larger_end(uint64_t end, uint64_t offset, uint64_t size)
{
    uint64_t other;
    if (__builtin_add_overflow(offset, size, &other))
        other = UINT64_MAX;
    return other > end ? other : end;
}

/* dlopen() maps the segments and touches them, so that a file which is cut off
 * would end the process with SIGBUS. */
static clv_status check_size(Elf *elf, const ElfW(Ehdr) * head, uint64_t size)
{
    GElf_Phdr s;
    uint64_t needed = larger_end(0, head->e_phoff,
                                 (uint64_t)head->e_phnum * head->e_phentsize);
    needed = larger_end(needed, head->e_shoff,
                        (uint64_t)head->e_shnum * head->e_shentsize);
    for (int i = 0; i < head->e_phnum && gelf_getphdr(elf, i, &s); i++)
        needed = larger_end(needed, s.p_offset, s.p_filesz);
    if (needed <= size)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "the file is cut off: it has %" PRIu64 " bytes of at "
                     "least %" PRIu64 "; install the plugin again",
                     size, needed);
}

/* ------------------------------------------------------------------------ */
/* Sections                                                                 */

static clv_status take_manifest(const char *text, uint32_t size, facts *out)
{
    if (out->has_manifest)
        return clv_error(CLV_ERR_FORMAT, "it has two manifests; leave one "
                                         "CLV_PLUGIN_MANIFEST and rebuild it");
    if (size > CLV_MANIFEST_MAX)
        return clv_error(CLV_ERR_FORMAT,
                         "its manifest has %u bytes, %u are the limit", size,
                         CLV_MANIFEST_MAX);
    while (size && !text[size - 1])
        size--;
    memcpy(out->manifest, text, size);
    out->manifest_size = size;
    out->has_manifest = true;
    return CLV_OK;
}

static clv_status read_notes(Elf_Scn *section, facts *out)
{
    static const char owner[] = CLV_MANIFEST_OWNER;
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data)
        return malformed("a note");
    GElf_Nhdr note;
    size_t name, text;
    for (size_t at = 0; at + sizeof note <= data->d_size;) {
        at = gelf_getnote(data, at, &note, &name, &text);
        if (!at)
            return malformed("a note");
        const char *bytes = data->d_buf;
        if (note.n_type == CLV_MANIFEST_TYPE && note.n_namesz == sizeof owner &&
            !memcmp(bytes + name, owner, sizeof owner))
            CLV_TRY(take_manifest(bytes + text, note.n_descsz, out));
    }
    return CLV_OK;
}

static bool exported(const GElf_Sym *s)
{
    unsigned bind = GELF_ST_BIND(s->st_info);
    unsigned visibility = GELF_ST_VISIBILITY(s->st_other);
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

static clv_status read_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *s,
                               facts *out)
{
    uint64_t n = s->sh_size / sizeof(ElfW(Sym));
    if (n > MAX_SYMBOLS)
        return clv_error(CLV_ERR_LIMIT,
                         "it has %" PRIu64
                         " dynamic symbols, %u are the limit; "
                         "link it with hidden visibility",
                         n, MAX_SYMBOLS);
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym symbol;
    for (int i = 1; i < (int)n; i++) {
        if (!gelf_getsym(data, i, &symbol))
            return malformed("its table of symbols");
        if (!exported(&symbol))
            continue;
        const char *name = elf_strptr(elf, s->sh_link, symbol.st_name);
        if (!name)
            return malformed("the name of a symbol");
        if (!strcmp(name, CLV_PLUGIN_QUERY_SYMBOL)) {
            out->has_query = true;
        } else if (!of_the_linker(name) && !out->n_others++) {
            snprintf(out->other, sizeof out->other, "%s", name);
            core_name_clean(out->other, sizeof out->other);
        }
    }
    out->has_symbols = true;
    return CLV_OK;
}

static clv_status read_sections(Elf *elf, facts *out)
{
    GElf_Shdr s;
    for (Elf_Scn *i = NULL; (i = elf_nextscn(elf, i));) {
        if (!gelf_getshdr(i, &s))
            return malformed("its table of sections");
        uint64_t n_pointers = s.sh_size / sizeof(ElfW(Addr));
        if (s.sh_type == SHT_NOTE)
            CLV_TRY(read_notes(i, out));
        else if (s.sh_type == SHT_DYNSYM)
            CLV_TRY(read_symbols(elf, i, &s, out));
        else if (s.sh_type == SHT_PREINIT_ARRAY)
            out->n_constructors += n_pointers;
        else if (s.sh_type == SHT_INIT_ARRAY && n_pointers)
            out->n_constructors += n_pointers - 1; /* the toolchain's own */
    }
    return out->has_symbols ? CLV_OK : malformed("its table of symbols");
}

static clv_status read_facts(int fd, uint64_t size, facts *out)
{
    ElfW(Ehdr) head;
    CLV_TRY(read_header(fd, &head));
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL); /* moves no file position */
    clv_status st = check_size(elf, &head, size);
    if (st == CLV_OK)
        st = read_sections(elf, out);
    elf_end(elf);
    return st;
}

/* ------------------------------------------------------------------------ */

/* Sanitizers add symbols and constructors of their own to every object. */
static void check_contents(const facts *found, char problem[256])
{
    if (core_sanitizers())
        return;
    if (found->n_others)
        snprintf(problem, 256,
                 "it exports '%s'%s beside " CLV_PLUGIN_QUERY_SYMBOL "(), so "
                 "symbols of it could clash with others; link it with hidden "
                 "visibility",
                 found->other, found->n_others > 1 ? " and more" : "");
    else if (found->n_constructors)
        snprintf(problem, 256,
                 "it has constructors (%" PRIu64 "), code that would run "
                 "before it is asked; move what they do into create()",
                 found->n_constructors);
}

clv_status core_plugin_inspect(const core_plugin_file *file, const char *name,
                               core_manifest *manifest, char problem[256])
{
    facts found = {0};
    problem[0] = 0;
    CLV_TRY(read_facts(file->fd, (uint64_t)file->stat.st_size, &found));
    if (!found.has_query)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "it exports no " CLV_PLUGIN_QUERY_SYMBOL
                         "(); it is no plugin");
    if (!found.has_manifest)
        return clv_error(CLV_ERR_REFUSED,
                         "it has no manifest; add CLV_PLUGIN_MANIFEST of "
                         "cleave/plugin.h to it and rebuild it");
    CLV_TRY(core_manifest_parse(found.manifest, found.manifest_size, manifest));
    CLV_TRY(core_manifest_check(manifest, name));
    check_contents(&found, problem);
    return CLV_OK;
}
