#include "elf_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__i386__)
#define MACHINE EM_386
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#elif defined(__arm__)
#define MACHINE EM_ARM
#elif defined(__riscv)
#define MACHINE EM_RISCV
#elif defined(__loongarch__)
#define MACHINE 258
#elif defined(__powerpc64__)
#define MACHINE EM_PPC64
#else
#error "name this architecture's ELF machine here"
#endif
#define CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define ORDER                                                                  \
    (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* ------------------------------------------------------------------------ */
/* Reading                                                                  */

clv_status core_elf_malformed(const char *what)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s lies outside the file or is malformed; install the "
                     "plugin again",
                     what);
}

/* There is at least one byte at that offset. */
static clv_status fill_window(core_elf *e, uint64_t at)
{
    uint64_t left = e->size - at;
    size_t wanted = left < CORE_ELF_WINDOW ? (size_t)left : CORE_ELF_WINDOW;
    ssize_t n;
    do
        n = pread(e->fd, e->window, wanted, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return clv_error(CLV_ERR_IO, "the file cannot be read: %s",
                         strerror(errno));
    e->window_at = at;
    e->window_size = (uint64_t)n;
    return CLV_OK;
}

clv_status core_elf_read(core_elf *e, uint64_t at, void *out, uint64_t n,
                         const char *what)
{
    if (at > e->size || n > e->size - at)
        return core_elf_malformed(what);
    if (at < e->window_at || at - e->window_at > e->window_size ||
        n > e->window_size - (at - e->window_at)) {
        CLV_TRY(fill_window(e, at));
        if (n > e->window_size)
            return core_elf_malformed(what); /* it shrank meanwhile */
    }
    memcpy(out, e->window + (at - e->window_at), (size_t)n);
    return CLV_OK;
}

clv_status core_elf_read_address(core_elf *e, uint64_t address, void *out,
                                 uint64_t n, const char *what)
{
    for (uint32_t i = 0; i < e->n_segments; i++) {
        const ElfW(Phdr) *s = &e->segments[i];
        if (s->p_type != PT_LOAD || address < s->p_vaddr ||
            address - s->p_vaddr > s->p_filesz ||
            n > s->p_filesz - (address - s->p_vaddr))
            continue;
        return core_elf_read(e, s->p_offset + (address - s->p_vaddr), out, n,
                             what);
    }
    return core_elf_malformed(what);
}

clv_status core_elf_read_word(core_elf *e, uint64_t address, uint64_t i,
                              uint32_t *out, const char *what)
{
    return core_elf_read_address(e, address + i * sizeof *out, out, sizeof *out,
                                 what);
}

/* ------------------------------------------------------------------------ */
/* Header and segments                                                      */

static clv_status check_ident(core_elf *e, ElfW(Ehdr) * head)
{
    unsigned char ident[EI_NIDENT];
    if (e->size < sizeof ident ||
        core_elf_read(e, 0, ident, sizeof ident, "its header") != CLV_OK ||
        memcmp(ident, ELFMAG, SELFMAG))
        return clv_error(CLV_ERR_FORMAT,
                         "this is no shared object (ELF); "
                         "rebuild the plugin, or remove the file");
    if (ident[EI_CLASS] != CLASS || ident[EI_DATA] != ORDER)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "it is built for a machine of another word size or "
                         "byte order; install the plugin's build for this one");
    return core_elf_read(e, 0, head, sizeof *head, "its header");
}

static clv_status read_header(core_elf *e, ElfW(Ehdr) * head)
{
    CLV_TRY(check_ident(e, head));
    if (head->e_machine != MACHINE)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "it is built for ELF machine %u, this is %u; install "
                         "the plugin's build for this one",
                         head->e_machine, (unsigned)MACHINE);
    if (head->e_type != ET_DYN)
        return clv_error(CLV_ERR_FORMAT,
                         "it is an ELF file of type %u, no shared object; "
                         "link it with -shared",
                         head->e_type);
    if (head->e_phentsize != sizeof(ElfW(Phdr)) || !head->e_phnum)
        return core_elf_malformed("its table of segments");
    if (head->e_phnum > CORE_ELF_SEGMENTS_MAX)
        return clv_error(CLV_ERR_LIMIT, "it has %u segments, %d are the limit",
                         head->e_phnum, CORE_ELF_SEGMENTS_MAX);
    return CLV_OK;
}

/* dlopen() maps the segments and touches them, so that a file which is cut off
 * would end the process with SIGBUS. */
static clv_status read_segments(core_elf *e, const ElfW(Ehdr) * head)
{
    uint64_t table = (uint64_t)head->e_phnum * sizeof *e->segments;
    uint64_t needed =
        head->e_phoff > UINT64_MAX - table ? UINT64_MAX : head->e_phoff + table;
    if (needed <= e->size) {
        e->n_segments = head->e_phnum;
        CLV_TRY(core_elf_read(e, head->e_phoff, e->segments, table,
                              "its table of segments"));
    }
    for (uint32_t i = 0; i < e->n_segments; i++) {
        const ElfW(Phdr) *s = &e->segments[i];
        uint64_t end;
        if (__builtin_add_overflow((uint64_t)s->p_offset, (uint64_t)s->p_filesz,
                                   &end))
            end = UINT64_MAX;
        needed = end > needed ? end : needed;
    }
    if (needed <= e->size)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "the file is cut off: it has %" PRIu64 " bytes of at "
                     "least %" PRIu64 "; install the plugin again",
                     e->size, needed);
}

clv_status core_elf_open(core_elf *e, int fd, uint64_t size)
{
    *e = (core_elf){.fd = fd, .size = size < INT64_MAX ? size : INT64_MAX};
    ElfW(Ehdr) head;
    CLV_TRY(read_header(e, &head));
    return read_segments(e, &head);
}
