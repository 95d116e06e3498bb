/* The shared object: what it exports, needs and runs, and its manifest. */
#include "abi.h"

#include "../plugin/calls.h"
#include "elf_file.h"

#include <ctype.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static kit_elf read_elf(kit *k)
{
    kit_elf elf;
    const char *error = kit_elf_read(kit_path(k), &elf);
    KIT_CHECK(k, !error, "%s", error);
    return elf;
}

static void exports_one_symbol(kit *k, const void *arg)
{
    kit_elf elf = read_elf(k);
    (void)arg;
    KIT_CHECK(k, elf.has_query, "it exports no %s()", CLV_PLUGIN_QUERY_SYMBOL);
    KIT_CHECK(k, elf.n_exported == 1,
              "it exports %u symbols more than %s: %s; link with "
              "-fvisibility=hidden and a version script",
              elf.n_exported - 1, CLV_PLUGIN_QUERY_SYMBOL, elf.others);
}

static void binds_whole(kit *k, const void *arg)
{
    kit_elf elf = read_elf(k);
    (void)arg;
    void *lib = kit_calls_dlopen(kit_path(k));
    KIT_CHECK(k, lib, "dlopen, with everything bound at once: %s", dlerror());
    if (!elf.binds_now)
        kit_note(k, "linked without -z now: what it lacks would end the "
                    "program at the first call, not the loading");
    kit_calls_dlclose(lib);
}

static void has_no_constructors(kit *k, const void *arg)
{
    kit_elf elf = read_elf(k);
    (void)arg;
    if (elf.sanitized) {
        kit_skip(k, "it is built with a sanitizer, which has constructors");
        return;
    }
    KIT_CHECK(k, elf.n_constructors <= 1, /* the toolchain's own */
              "%u functions run when it is loaded, of which the toolchain's is "
              "one: a plugin has no constructors",
              (unsigned)elf.n_constructors);
}

/* Of a library that this process has loaded, by the name it is needed by; 0
 * for the toolchain's own, which have what C and C++ need. */
static uint64_t constructors_of(const char *name)
{
    kit_elf elf;
    struct link_map *map;
    uint64_t n = 0;
    static const char *const toolchain[] = {
        "libc.", "libgcc_s.", "ld-linux", "libasan.", "libtsan.", "libubsan."};
    for (size_t i = 0; i < sizeof toolchain / sizeof *toolchain; i++)
        if (!strncmp(name, toolchain[i], strlen(toolchain[i])))
            return 0;
    void *lib = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (lib && !dlinfo(lib, RTLD_DI_LINKMAP, &map) &&
        !kit_elf_read(map->l_name, &elf))
        n = elf.n_constructors;
    if (lib)
        dlclose(lib);
    return n;
}

static void needs_no_constructors(kit *k, const void *arg)
{
    kit_elf elf = read_elf(k);
    char names[300] = "";
    (void)arg;
    void *lib = kit_calls_dlopen(kit_path(k));
    KIT_CHECK(k, lib, "dlopen: %s", dlerror());
    for (uint32_t i = 0; i < elf.n_needed; i++) {
        size_t n = strlen(names);
        if (constructors_of(elf.needed[i]) > 1)
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "",
                     elf.needed[i]);
    }
    kit_calls_dlclose(lib);
    if (names[0])
        kit_warn(k,
                 "libraries that it needs run code when it is loaded: %s; they "
                 "may start threads; open them at create",
                 names);
}

/* ------------------------------------------------------------------------ */
/* The manifest                                                             */

typedef struct manifest {
    char name[64], abi[32], devices[128], cpu[512];
    bool has_cpu;
} manifest;

/* One line, "key = value" without its comment; both trimmed, in place. */
static bool split_line(char *line, char **key, char **value)
{
    line[strcspn(line, "#")] = 0;
    line += strspn(line, " \t\r");
    size_t n = strlen(line);
    while (n && isspace((unsigned char)line[n - 1]))
        line[--n] = 0;
    *key = line;
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *value = equals + 1 + strspn(equals + 1, " \t");
    for (*equals = 0; equals > line && strchr(" \t", equals[-1]);)
        *--equals = 0;
    return **key != 0;
}

static void keep(kit *k, char *to, size_t size, const char *key,
                 const char *value)
{
    KIT_CHECK(k, !to[0], "the manifest has '%s' twice", key);
    KIT_CHECK(k, *value && strlen(value) < size, "the manifest's '%s' is %s",
              key, *value ? "too long" : "empty");
    snprintf(to, size, "%s", value);
}

static void parse(kit *k, char *text, manifest *out)
{
    uint32_t number = 0;
    for (char *line = text; line;) {
        char *next = strchr(line, '\n'), *key, *value;
        if (next)
            *next++ = 0;
        number++;
        if (split_line(line, &key, &value)) {
            if (!strcmp(key, "name"))
                keep(k, out->name, sizeof out->name, key, value);
            else if (!strcmp(key, "abi"))
                keep(k, out->abi, sizeof out->abi, key, value);
            else if (!strcmp(key, "devices"))
                keep(k, out->devices, sizeof out->devices, key, value);
            else if (!strcmp(key, "cpu"))
                keep(k, out->cpu, sizeof out->cpu, key, value);
        } else {
            KIT_CHECK(k, !*key, "line %u of the manifest is not 'key = value'",
                      number);
        }
        line = next;
    }
}

static manifest read_manifest(kit *k)
{
    kit_elf elf = read_elf(k);
    manifest m = {0};
    uint32_t size = elf.manifest_size;
    KIT_CHECK(k, elf.n_manifests,
              "it has no manifest: put CLV_PLUGIN_MANIFEST(...) at "
              "file scope");
    KIT_CHECK(k, elf.n_manifests == 1, "it has more than one manifest");
    KIT_CHECK(k, size && size <= CLV_MANIFEST_MAX,
              "the manifest has %u bytes, up to %u are allowed", size,
              CLV_MANIFEST_MAX);
    for (size_t i = strlen(elf.manifest); i < size; i++)
        KIT_CHECK(k, !elf.manifest[i], "the manifest goes on behind its end");
    parse(k, elf.manifest, &m);
    KIT_CHECK(k, m.name[0] && m.abi[0] && m.devices[0],
              "the manifest lacks '%s'",
              !m.name[0]  ? "name"
              : !m.abi[0] ? "abi"
                          : "devices");
    return m;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void manifest_is_well_formed(kit *k, const void *arg)
{
    manifest m = read_manifest(k);
    char file[80];
    uint32_t first = 0, last = 0;
    int end = 0;
    (void)arg;
    snprintf(file, sizeof file, "cleave_%s.so", m.name);
    KIT_CHECK(k, !strcmp(base_name(kit_path(k)), file),
              "the manifest's name is '%s', so the file is %s, not %s: the "
              "host refuses it",
              m.name, file, base_name(kit_path(k)));
    int n = sscanf(m.abi, "%u%n-%u%n", &first, &end, &last, &end);
    KIT_CHECK(k, n >= 1 && !m.abi[end] && first && (n == 1 || last >= first),
              "the manifest's abi '%s' is neither a version nor a range as in "
              "'1-2'",
              m.abi);
    char *rest = m.devices;
    for (char *word; (word = strsep(&rest, " \t"));)
        KIT_CHECK(k,
                  !*word || !strcmp(word, "cpu") || !strcmp(word, "gpu") ||
                      !strcmp(word, "npu") || !strcmp(word, "other"),
                  "the manifest's devices name '%s': there are cpu, gpu, npu "
                  "and other",
                  word);
}

/* ------------------------------------------------------------------------ */
/* The manifest against the plugin                                          */

static void manifest_agrees_with_table(kit *k, const void *arg)
{
    manifest m = read_manifest(k);
    kit_plugin *p = kit_under_test(k);
    uint32_t first = 0, last = 0;
    (void)arg;
    int n = sscanf(m.abi, "%u-%u", &first, &last);
    last = n == 2 ? last : first;
    KIT_CHECK(k, !strcmp(m.name, p->api.name),
              "the manifest's name is '%s', the table's '%s'", m.name,
              p->api.name);
    KIT_CHECK(k, first == p->abi_min && last == p->abi_max,
              "the manifest says ABI %u to %u, the query %u to %u", first, last,
              p->abi_min, p->abi_max);
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *w = words; (w = strstr(w, word)); w += n)
        if ((w == words || isspace((unsigned char)w[-1])) &&
            (!w[n] || isspace((unsigned char)w[n])))
            return true;
    return false;
}

static void manifest_agrees_with_devices(kit *k, const void *arg)
{
    static const char *const kinds[] = {"?", "cpu", "gpu", "npu", "other"};
    manifest m = read_manifest(k);
    kit_plugin p;
    (void)arg;
    kit_plugin_load(k, &p);
    kit_plugin_create(&p);
    for (uint32_t i = 0; i < p.n_devices; i++) {
        uint32_t kind = p.infos[i].kind;
        KIT_CHECK(k, kind >= CLV_DEVICE_CPU && kind <= CLV_DEVICE_OTHER,
                  "device '%s' is of kind %u, which is none", p.infos[i].id,
                  kind);
        KIT_CHECK(k, has_word(m.devices, kinds[kind]),
                  "device '%s' is of kind %s; the manifest's devices are '%s'",
                  p.infos[i].id, kinds[kind], m.devices);
    }
    kit_plugin_destroy(&p);
    kit_plugin_unload(&p);
}

/* It runs here, so what it says it needs is here, under the kernel's names. */
static void manifest_agrees_with_machine(kit *k, const void *arg)
{
    manifest m = read_manifest(k);
    char line[8192], flags[8192] = "";
    (void)arg;
    FILE *f = m.cpu[0] ? fopen("/proc/cpuinfo", "re") : NULL;
    while (f && !flags[0] && fgets(line, sizeof line, f))
        if (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8))
            snprintf(flags, sizeof flags, "%s", line);
    if (f)
        fclose(f);
    if (!flags[0]) {
        kit_skip(k, m.cpu[0] ? "the processor's features are not known"
                             : "the manifest asks for no features");
        return;
    }
    char *rest = m.cpu;
    for (char *word; (word = strsep(&rest, " \t"));)
        KIT_CHECK(k, !*word || has_word(flags, word),
                  "the manifest needs the feature '%s', which /proc/cpuinfo "
                  "does not name: the host refuses the plugin here",
                  word);
}

void abi_list_file(kit_list *list)
{
    static const struct {
        const char *name;
        void (*run)(kit *k, const void *arg);
    } cases[] = {
        {"file.one-export", exports_one_symbol},
        {"file.nothing-undefined", binds_whole},
        {"file.no-constructors", has_no_constructors},
        {"file.needs-no-constructors", needs_no_constructors},
        {"manifest.well-formed", manifest_is_well_formed},
        {"manifest.table", manifest_agrees_with_table},
        {"manifest.devices", manifest_agrees_with_devices},
        {"manifest.processor", manifest_agrees_with_machine},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        kit_add(list, KIT_PER_PLUGIN, 0, cases[i].run, NULL, "%s",
                cases[i].name);
}
