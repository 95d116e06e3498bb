#include "elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_symbols(Elf *elf, Elf_Data *data, size_t names, kit_elf *out)
{
    GElf_Sym s;
    for (int i = 1; gelf_getsym(data, i, &s); i++) {
        if (GELF_ST_BIND(s.st_info) == STB_LOCAL)
            continue;
        const char *name = elf_strptr(elf, names, s.st_name);
        name = name ? name : "";
        out->sanitized |= !strncmp(name, "__asan_", 7) ||
                          !strncmp(name, "__tsan_", 7) ||
                          !strncmp(name, "__msan_", 7);
        if (s.st_shndx == SHN_UNDEF)
            continue;
        out->n_exported++;
        size_t n = strlen(out->others);
        if (!strcmp(name, CLV_PLUGIN_QUERY_SYMBOL))
            out->has_query = true;
        else
            snprintf(out->others + n, sizeof out->others - n, "%s%s",
                     n ? ", " : "", name);
    }
}

static void read_dynamic(Elf *elf, Elf_Data *data, size_t names, kit_elf *out)
{
    GElf_Dyn d;
    for (int i = 0; gelf_getdyn(data, i, &d) && d.d_tag != DT_NULL; i++) {
        const char *name =
            d.d_tag == DT_NEEDED ? elf_strptr(elf, names, d.d_un.d_val) : NULL;
        if (name && out->n_needed < KIT_MAX_NEEDED)
            snprintf(out->needed[out->n_needed++], sizeof *out->needed, "%s",
                     name);
        out->binds_now |= d.d_tag == DT_BIND_NOW ||
                          (d.d_tag == DT_FLAGS && d.d_un.d_val & DF_BIND_NOW) ||
                          (d.d_tag == DT_FLAGS_1 && d.d_un.d_val & DF_1_NOW);
    }
}

static void read_notes(Elf_Data *data, kit_elf *out)
{
    static const char owner[] = CLV_MANIFEST_OWNER;
    GElf_Nhdr note;
    size_t at = 0, name, text;
    while (data && (at = gelf_getnote(data, at, &note, &name, &text))) {
        const char *bytes = data->d_buf;
        if (note.n_type != CLV_MANIFEST_TYPE || note.n_namesz != sizeof owner ||
            memcmp(bytes + name, owner, sizeof owner))
            continue;
        out->n_manifests++;
        out->manifest_size = note.n_descsz;
        if (note.n_descsz <= CLV_MANIFEST_MAX)
            memcpy(out->manifest, bytes + text, note.n_descsz);
    }
}

static const char *read_sections(Elf *elf, kit_elf *out)
{
    bool has_symbols = false;
    GElf_Shdr s;
    for (Elf_Scn *i = NULL; (i = elf_nextscn(elf, i)) && gelf_getshdr(i, &s);) {
        Elf_Data *data = elf_getdata(i, NULL);
        switch (s.sh_type) {
        case SHT_DYNSYM:
            has_symbols = true;
            read_symbols(elf, data, s.sh_link, out);
            break;
        case SHT_DYNAMIC:
            read_dynamic(elf, data, s.sh_link, out);
            break;
        case SHT_NOTE:
            read_notes(data, out);
            break;
        case SHT_INIT_ARRAY:
        case SHT_PREINIT_ARRAY:
            out->n_constructors += s.sh_size / sizeof(void *);
            break;
        }
    }
    return has_symbols ? NULL : "it has no table of dynamic symbols";
}

const char *kit_elf_read(const char *path, kit_elf *out)
{
    memset(out, 0, sizeof *out);
    elf_version(EV_CURRENT);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr head;
    const char *error;
    if (fd < 0)
        error = "the file cannot be read";
    else if (!gelf_getehdr(elf, &head))
        error = "it is no ELF file";
    else if (gelf_getclass(elf) !=
                 (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
             head.e_type != ET_DYN)
        error = "it is no shared object for this machine";
    else
        error = read_sections(elf, out);
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return error;
}
