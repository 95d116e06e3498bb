/* The manifest: its text, what it demands of this host, and what the plugin
 * later does against it. */
#include "../../core/plugin/cpu_features.h"
#include "../../core/plugin/manifest.h"
#include "loading.h"

static clv_status parse(const char *text, core_manifest *out)
{
    return core_manifest_parse(text, strlen(text), out);
}

static void test_parse(void **state)
{
    (void)state;
    core_manifest m;
    assert_ok(parse("# of the tests\n"
                    "\tname=vpu_2 # here too\r\n"
                    "  future = unheard of = x\n"
                    "\n"
                    "abi = 2-13\n"
                    "devices = npu  cpu npu\n"
                    "cpu = avx2\tfma",
                    &m));
    assert_string_equal(m.name, "vpu_2");
    assert_int_equal(m.abi_min, 2);
    assert_int_equal(m.abi_max, 13);
    assert_string_equal(m.abi, "2-13");
    assert_int_equal(m.kinds, 1u << CLV_DEVICE_CPU | 1u << CLV_DEVICE_NPU);
    assert_string_equal(m.kinds_text, "cpu npu");
    assert_string_equal(m.cpu, "avx2\tfma");
    assert_string_equal(m.drivers, "");
    assert_ok(parse("devices = other gpu\nabi = 1\nname = a", &m));
    assert_string_equal(m.abi, "1");
    assert_string_equal(m.kinds_text, "gpu other");
    assert_string_equal(m.cpu, "");
}

static void test_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "name: not given"},
        {"abi = 1\ndevices = cpu\n", "name: not given"},
        {"name = a\ndevices = cpu\n", "abi: not given"},
        {"name = a\nabi = 1\n", "devices: not given"},
        {"name = a\nname = a\n", "name: given twice"},
        {"name\n", "'name' is no \"key = value\""},
        {"name =\n", "name: ''"},
        {"name = A\n", "name: 'A'"},
        {"name = ../a\n", "name: '../a'"},
        {"name = a b\n", "name: 'a b'"},
        {"name = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "name: |32"},
        {"abi =\n", "abi: ''"},
        {"abi = 0\n", "abi: '0'"},
        {"abi = 2-1\n", "abi: '2-1'"},
        {"abi = 1-\n", "abi: '1-'"},
        {"abi = -1\n", "abi: '-1'"},
        {"abi = 1-2-3\n", "abi: '1-2-3'"},
        {"abi = 1 2\n", "abi: '1 2'"},
        {"abi = 4294967297\n", "abi: '4294967297'"},
        {"abi = v1\n", "abi: 'v1'"},
        {"devices =\n", "devices: |cpu, gpu, npu and other"},
        {"devices = cpu tpu\n", "devices: 'tpu'"},
        {"devices = cpu,gpu\n", "devices: 'cpu,gpu'"},
        {"name = a\033[2J\n", "no text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        core_manifest m;
        if (parse(cases[i].text, &m) != CLV_ERR_FORMAT)
            fail_msg("accepted: %s", cases[i].text);
        assert_message(cases[i].says);
    }
    char text[CLV_MANIFEST_MAX];
    core_manifest m;
    memset(text, 'a', sizeof text);
    memcpy(text, "cpu = ", 6);
    assert_int_equal(core_manifest_parse(text, sizeof text, &m),
                     CLV_ERR_FORMAT);
    assert_message("cpu: longer than 511");
    assert_int_equal(core_manifest_parse("a = b\0c\n", 8, &m), CLV_ERR_FORMAT);
}

static clv_status check(const char *rest, const char *name)
{
    char text[512];
    core_manifest m;
    snprintf(text, sizeof text, "name = a\ndevices = cpu\n%s", rest);
    assert_ok(parse(text, &m));
    return core_manifest_check(&m, name);
}

static void test_check(void **state)
{
    (void)state;
    assert_ok(check("abi = 1", "a"));
    assert_ok(check("abi = 1-7", NULL));
    assert_int_equal(check("abi = 1", "b"), CLV_ERR_REFUSED);
    assert_message("'a'|'b'|cleave_a.so");
    assert_int_equal(check("abi = 2-3", "a"), CLV_ERR_VERSION);
    assert_message("it speaks ABI 2 to 3, this libcleave 1 to 1");
    assert_int_equal(check("abi = 1\ncpu = warp9", "a"), CLV_ERR_UNSUPPORTED);
    assert_message("'warp9'|does not know");
}

/* ------------------------------------------------------------------------ */
/* Processor features                                                       */

/* The words of /proc/cpuinfo's first line of features, with blanks around. */
static bool read_cpuinfo(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (f && !found && fgets(out, (int)size, f))
        found = !strncmp(out, "flags", 5) || !strncmp(out, "Features", 8);
    if (f)
        fclose(f);
    char *colon = found ? strchr(out, ':') : NULL;
    if (!colon)
        return false;
    out[strcspn(out, "\n")] = ' ';
    memmove(out, colon + 1, strlen(colon));
    return true;
}

static bool listed(const char *list, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(list, word) != NULL;
}

/* The kernel and cleave agree on every feature that cleave knows. */
static void test_features(void **state)
{
    (void)state;
    static char list[16384];
    const char *name, *absent = NULL, *present = NULL;
    if (!core_cpu_feature_name(0) || !read_cpuinfo(list, sizeof list))
        skip();
    for (size_t i = 0; (name = core_cpu_feature_name(i)); i++) {
        core_feature f = core_cpu_feature(name, strlen(name));
        bool has = listed(list, name);
        if (f != (has ? CORE_FEATURE_PRESENT : CORE_FEATURE_ABSENT))
            fail_msg("%s: %d, but cpuinfo has it: %d", name, f, has);
        *(has ? &present : &absent) = name;
    }
    char rest[256];
    if (present && absent) {
        snprintf(rest, sizeof rest, "abi = 1\ncpu = %s", present);
        assert_ok(check(rest, "a"));
        snprintf(rest, sizeof rest, "abi = 1\ncpu = %s %s", present, absent);
        assert_int_equal(check(rest, "a"), CLV_ERR_UNSUPPORTED);
        assert_message(absent);
        assert_message("this one lacks");
    }
}

/* The processor announces it, but the kernel does not list it. */
static void test_feature_taken_away(void **state)
{
    (void)state;
    const char *name;
    for (size_t i = 0; (name = core_cpu_feature_name(i)); i++) {
        size_t n = strlen(name);
        core_feature announced = core_cpu_feature_of("", name, n);
        assert_int_not_equal(announced, CORE_FEATURE_UNKNOWN);
        assert_int_equal(core_cpu_feature_of(name, name, n), announced);
        assert_int_equal(core_cpu_feature_of("flags\t: a b\n", name, n),
                         CORE_FEATURE_ABSENT);
    }
    assert_int_equal(core_cpu_feature_of("warp9", "warp9", 5),
                     CORE_FEATURE_UNKNOWN);
}

/* ------------------------------------------------------------------------ */
/* In a plugin's file                                                       */

static void assert_manifest_stops(const char *text, size_t size, uint32_t stage,
                                  clv_status status, const char *parts)
{
    const char *path = install_manifest(&dir, text, size);
    assert_stops(stage, status, parts);
    unlink(path);
}

#define STOPS(text, ...)                                                       \
    assert_manifest_stops(text, sizeof text - 1, __VA_ARGS__)

static void test_in_file(void **state)
{
    (void)state;
    STOPS("", CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "name: not given");
    STOPS("name = good\nabi = 1\ndevices = other\n\0# after the end",
          CLV_STAGE_ALLOWED, CLV_ERR_FORMAT, "no text");
    STOPS("name = cpu\nabi = 1\ndevices = other\n", CLV_STAGE_ALLOWED,
          CLV_ERR_REFUSED, "'cpu'|'good'|cleave_cpu.so");
    STOPS("name = good\nabi = 2-3\ndevices = other\n", CLV_STAGE_ALLOWED,
          CLV_ERR_VERSION, "it speaks ABI 2 to 3, this libcleave 1 to 1");
    STOPS("name = good\nabi = 1\ndevices = other\ncpu = warp9\n",
          CLV_STAGE_ALLOWED, CLV_ERR_UNSUPPORTED, "warp9");
}

static void test_missing(void **state)
{
    (void)state;
    const char *path = install(&dir, "no_manifest");
    assert_stops(CLV_STAGE_ALLOWED, CLV_ERR_REFUSED,
                 "no manifest|CLV_PLUGIN_MANIFEST|rebuild");
    unlink(path);
}

/* What the plugin says of itself once it runs must be the same. */
static void test_disagreement(void **state)
{
    (void)state;
    STOPS("name = good\nabi = 1-2\ndevices = other\n", CLV_STAGE_MAPPED,
          CLV_ERR_INTERNAL, "1 to 1|manifest says 1-2");
    const char text[] = "name = better\nabi = 1\ndevices = other\n";
    const char *path = install_manifest(&dir, text, sizeof text - 1);
    assert_int_equal(rename(path, tmpdir_file(&dir, "cleave_better.so")), 0);
    assert_stops(CLV_STAGE_MAPPED, CLV_ERR_INTERNAL, "'good'|'better'");
}

static void test_kind_not_listed(void **state)
{
    (void)state;
    STOPS("name = good\nabi = 1\ndevices = gpu cpu\n", CLV_STAGE_READY,
          CLV_ERR_REFUSED, "good is of kind other|lists only cpu gpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_feature_taken_away),
        TEST(test_in_file),
        TEST(test_missing),
        TEST(test_disagreement),
        TEST(test_kind_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
