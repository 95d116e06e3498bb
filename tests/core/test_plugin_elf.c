/* What is found in a plugin's file before it is mapped. */
#include "../../core/plugin/plugin_inspect.h"
#include "../../core/base/sanitizer.h"
#include "loading.h"

#include <link.h>
#include <sys/mman.h>

static void test_broken_files(void **state)
{
    (void)state;
    char text[500];
    memset(text, 'x', sizeof text);
    const char *path = tmpdir_write(&dir, "cleave_text.so", text, sizeof text);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "no shared object|rebuild");
    unlink(path);
    path = install(&dir, "good");
    assert_int_equal(truncate(path, 4096), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "cut off|install");
    assert_int_equal(truncate(path, 70), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "cut off|install");
    assert_int_equal(truncate(path, 20), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "its header|install");
    assert_int_equal(truncate(path, 10), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "rebuild");
    assert_int_equal(truncate(path, 0), 0);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "rebuild");
    unlink(path);
    path = tmpdir_text(&dir, "cleave_Odd-Name.so", "");
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "Odd-Name|rename");
    unlink(path);
    mkdir(tmpdir_file(&dir, "cleave_folder.so"), 0700);
    assert_stops(CLV_STAGE_FOUND, CLV_ERR_REFUSED, "no file");
}

/* The header of "good" with some bytes changed stops it. */
static void assert_header_stops(size_t at, const void *bytes, size_t n,
                                clv_status status, const char *parts)
{
    clv_file_map map = read_variant("good");
    uint8_t *copy = malloc(map.size);
    assert_non_null(copy);
    memcpy(copy, map.data, map.size);
    memcpy(copy + at, bytes, n);
    tmpdir_write(&dir, "cleave_good.so", copy, map.size);
    free(copy);
    clv_file_map_close(&map);
    assert_stops(CLV_STAGE_ALLOWED, status, parts);
}

static void test_other_machines(void **state)
{
    (void)state;
    const uint16_t machine = EM_MIPS, type = ET_EXEC, none = 0, many = 65;
    const uint8_t order =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2MSB : ELFDATA2LSB;
    const uint8_t class = sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64;
    assert_header_stops(EI_CLASS, &class, 1, CLV_ERR_UNSUPPORTED, "word size");
    assert_header_stops(EI_DATA, &order, 1, CLV_ERR_UNSUPPORTED, "byte order");
    assert_header_stops(offsetof(ElfW(Ehdr), e_machine), &machine, 2,
                        CLV_ERR_UNSUPPORTED, "ELF machine 8, this is");
    assert_header_stops(offsetof(ElfW(Ehdr), e_type), &type, 2, CLV_ERR_FORMAT,
                        "type 2|-shared");
    assert_header_stops(offsetof(ElfW(Ehdr), e_phnum), &none, 2, CLV_ERR_FORMAT,
                        "segments");
    assert_header_stops(offsetof(ElfW(Ehdr), e_phnum), &many, 2, CLV_ERR_LIMIT,
                        "65 segments, 64");
    assert_header_stops(offsetof(ElfW(Ehdr), e_shnum), &none, 2, CLV_ERR_FORMAT,
                        "table of sections is missing|strip");
}

/* The first section of that type, or the one that begins at that offset; the
 * test fails without it. */
static ElfW(Shdr) * section(uint8_t *data, uint32_t type, const void *begin)
{
    const ElfW(Ehdr) *head = (const void *)data;
    ElfW(Shdr) *s = (void *)(data + head->e_shoff);
    for (uint32_t i = 0; i < head->e_shnum; i++)
        if (s[i].sh_type == type &&
            (!begin || data + s[i].sh_offset == (const uint8_t *)begin))
            return &s[i];
    fail_msg("no section of type %u", type);
    return NULL;
}

/* A copy of "good" in memory, and where its manifest's note begins. */
static uint8_t *copy_good(uint64_t *size, ElfW(Nhdr) * *note)
{
    clv_file_map map = read_variant("good");
    uint8_t *copy = malloc(map.size);
    assert_non_null(copy);
    memcpy(copy, map.data, map.size);
    *size = map.size;
    clv_file_map_close(&map);
    static const char mark[] = CLV_MANIFEST_OWNER "\0\0name ="; /* padded */
    uint8_t *owner = memmem(copy, *size, mark, sizeof mark - 1);
    assert_non_null(owner);
    *note = (void *)(owner - sizeof **note);
    return copy;
}

static void assert_copy_stops(uint8_t *copy, uint64_t size, const char *parts)
{
    tmpdir_write(&dir, "cleave_good.so", copy, size);
    free(copy);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, parts);
}

static void test_notes(void **state)
{
    (void)state;
    uint64_t size;
    ElfW(Nhdr) * note;
    uint8_t *copy = copy_good(&size, &note);
    *section(copy, SHT_GNU_HASH, NULL) = *section(copy, SHT_NOTE, note);
    assert_copy_stops(copy, size, "two manifests");

    copy = copy_good(&size, &note);
    section(copy, SHT_NOTE, note)->sh_size = 6000;
    note->n_descsz = CLV_MANIFEST_MAX + 1;
    assert_copy_stops(copy, size, "4097 bytes, 4096 are the limit");

    copy = copy_good(&size, &note);
    note->n_descsz = 2000; /* past the section's end */
    assert_copy_stops(copy, size, "a note lies outside");

    copy = copy_good(&size, &note);
    note->n_type = CLV_MANIFEST_TYPE + 1; /* one of a later kind */
    tmpdir_write(&dir, "cleave_good.so", copy, size);
    free(copy);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_REFUSED, "no manifest");
}

static void assert_lifted(const char *variant, const char *parts)
{
    const char *const set[] = {"core.allow_unsafe_plugins=on", NULL};
    opened o = open_ok(NULL, set);
    const clv_candidate *c = clv_context_candidate(o.ctx, 0);
    assert_int_equal(c->status, CLV_OK);
    assert_string_equal(c->plugin, variant);
    assert_reason(c, "core.allow_unsafe_plugins lets it pass");
    assert_reason(c, parts);
    assert_int_equal(clv_context_device_count(o.ctx), 1);
    close_opened(&o);
}

static void test_symbols(void **state)
{
    (void)state;
    uint64_t size;
    ElfW(Nhdr) * note;
    uint8_t *copy = copy_good(&size, &note);
    section(copy, SHT_DYNSYM, NULL)->sh_type = SHT_PROGBITS;
    assert_copy_stops(copy, size, "its table of symbols lies outside");

    copy = copy_good(&size, &note);
    section(copy, SHT_DYNSYM, NULL)->sh_size++; /* no whole number of them */
    assert_copy_stops(copy, size, "its table of symbols lies outside");

    copy = copy_good(&size, &note);
    section(copy, SHT_DYNSYM, NULL)->sh_link = 0;
    assert_copy_stops(copy, size, "the name of a symbol lies outside");

    copy = copy_good(&size, &note);
    section(copy, SHT_DYNSYM, NULL)->sh_size = 25u << 20;
    tmpdir_write(&dir, "cleave_good.so", copy, size);
    free(copy);
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_LIMIT,
                 "1092266 dynamic symbols, 1048576|hidden visibility");
}

static void test_exports(void **state)
{
    (void)state;
    const char *path = install(&dir, "no_query");
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_NOT_FOUND, "clv_plugin_query");
    unlink(path);
    if (core_sanitizers())
        skip();
    /* Of each binding that others see, by each kind of hash table. */
    static const char *const variants[] = {"exports", "exports_weak",
                                           "exports_unique",
                                           "exports_protected", "exports_sysv"};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        path = install(&dir, variants[i]);
        assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_REFUSED,
                     "exports 'cleave_test_export'|hidden visibility|"
                     "core.allow_unsafe_plugins");
        assert_lifted(variants[i], "'cleave_test_export'");
        unlink(path);
    }
}

static void test_constructors(void **state)
{
    (void)state;
    if (core_sanitizers())
        skip();
    install(&dir, "constructor");
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_REFUSED,
                 "constructors (1)|create()|core.allow_unsafe_plugins");
    assert_null(getenv("CLEAVE_TEST_CONSTRUCTOR")); /* it was not mapped */
    assert_lifted("constructor", "constructors (1)");
    assert_non_null(getenv("CLEAVE_TEST_CONSTRUCTOR"));
}

/* ------------------------------------------------------------------------ */
/* Random damage                                                            */

static int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("plugin", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, 0), size);
    return fd;
}

/* Where the parts lie that are read: header, segments, sections, notes, symbols
 * and their names; the rest of a plugin is code and data. */
static size_t interesting(test_random *r, const uint8_t *data, size_t size)
{
    const ElfW(Ehdr) *head = (const void *)data;
    const ElfW(Shdr) *sections = (const void *)(data + head->e_shoff);
    const ElfW(Shdr) *s = &sections[test_below(r, head->e_shnum)];
    switch (test_below(r, 5)) {
    case 0:
        return test_below(r, 4096);
    case 1:
        return (size_t)head->e_phoff +
               test_below(r, head->e_phnum * (uint32_t)sizeof(ElfW(Phdr)));
    case 2:
        return (size_t)head->e_shoff +
               test_below(r, head->e_shnum * (uint32_t)sizeof *sections);
    case 3:
        if (s->sh_type == SHT_NOTE || s->sh_type == SHT_DYNSYM ||
            s->sh_type == SHT_STRTAB)
            return s->sh_offset + test_below(r, (uint32_t)s->sh_size);
    }
    return test_below(r, (uint32_t)size);
}

static void damage(test_random *r, const uint8_t *data, size_t size,
                   uint8_t *copy)
{
    static const uint64_t edges[] = {
        0, 1, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xfffffffffffffff0};
    memcpy(copy, data, size);
    for (uint32_t n = 1 + test_below(r, 3); n > 0; n--) {
        size_t at = interesting(r, data, size), width = 1 + test_below(r, 8);
        width = width < size - at ? width : size - at;
        if (test_below(r, 2))
            memcpy(copy + at, &edges[test_below(r, 6)], width);
        else
            copy[at] ^= (uint8_t)(1u << test_below(r, 8));
    }
}

/* Inspected or refused with a message: never a crash, and nothing is read that
 * is not there, which AddressSanitizer would tell. */
static void test_damage(void **state)
{
    (void)state;
    clv_file_map map = read_variant("good");
    uint8_t *copy = malloc(map.size);
    assert_non_null(copy);
    test_random r = {11};
    uint32_t accepted = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        damage(&r, map.data, map.size, copy);
        uint64_t size =
            test_below(&r, 4) ? map.size : test_below(&r, (uint32_t)map.size);
        core_plugin_file file = {.fd = memory_file(copy, size),
                                 .stat = {.st_size = (off_t)size}};
        core_manifest manifest;
        char problem[256];
        clv_error(CLV_OK, "nothing");
        clv_status st = core_plugin_inspect(&file, "good", &manifest, problem);
        if (st == CLV_OK) {
            accepted++;
            assert_string_equal(manifest.name, "good");
        } else {
            refused++;
            assert_message(""); /* one line */
            assert_string_not_equal(clv_last_error(), "nothing");
        }
        core_plugin_file_close(&file);
    }
    assert_true(accepted > 1000 && refused > 5000);
    free(copy);
    clv_file_map_close(&map);
}

/* The file shrinks after its size was taken. */
static void test_shrinks(void **state)
{
    (void)state;
    clv_file_map map = read_variant("good");
    core_plugin_file file = {.stat = {.st_size = (off_t)map.size}};
    core_manifest manifest;
    char problem[256];
    const uint64_t kept[] = {64, map.size / 2, map.size - 1};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        file.fd = memory_file(map.data, kept[i]);
        assert_int_equal(core_plugin_inspect(&file, "good", &manifest, problem),
                         CLV_ERR_FORMAT);
        assert_message("lies outside the file");
        close(file.fd);
    }
    file.fd = memory_file(map.data, map.size);
    assert_ok(core_plugin_inspect(&file, "good", &manifest, problem));
    close(file.fd);
    clv_file_map_close(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_broken_files), TEST(test_other_machines),
        TEST(test_notes),        TEST(test_symbols),
        TEST(test_exports),      TEST(test_constructors),
        TEST(test_damage),       TEST(test_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
