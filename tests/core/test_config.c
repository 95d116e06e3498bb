#include "../../core/config/config.h"
#include "test.h"
#include "message.h"
#include "tmpdir.h"

#define HEADER .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL}

static const clv_option gpu_options[] = {
    {HEADER, .key = "count", .type = CLV_OPTION_INT, .default_value = "1",
     .help = "h", .min = 1, .max = 8},
    {HEADER, .key = "ratio", .type = CLV_OPTION_FLOAT, .default_value = "0.5",
     .help = "h", .min = 0, .max = 1},
    {HEADER, .key = "fast", .type = CLV_OPTION_BOOL, .default_value = "off",
     .help = "h"},
    {HEADER, .key = "mode", .type = CLV_OPTION_ENUM, .default_value = "best",
     .help = "h", .choices = "best|worst"},
    {HEADER, .key = "name", .type = CLV_OPTION_STRING, .default_value = "",
     .help = "h"},
};
#define N_GPU (sizeof gpu_options / sizeof *gpu_options)

static clv_config *make(void)
{
    clv_config *config;
    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_OK);
    return config;
}

static clv_status parse(clv_config *config, const char *text)
{
    return core_config_parse(config, "x.ini", text, strlen(text),
                             CORE_RANK_FILE);
}

/* text is refused with a message that has all parts (separated by '|'). */
static void refuse(const char *text, const char *parts)
{
    clv_config *config = make();
    assert_true(parse(config, text) != CLV_OK);
    assert_message(parts);
    clv_config_destroy(config);
}

static void accept(const char *text, const char *key, const char *value)
{
    clv_config *config = make();
    if (parse(config, text) != CLV_OK)
        fail_msg("%s", clv_last_error());
    assert_string_equal(clv_config_get(config, key), value);
    clv_config_destroy(config);
}

static void test_defaults(void **state)
{
    (void)state;
    clv_config *config = make();
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 1);
    assert_true(clv_config_get_float(config, "gpu.ratio") == 0.5);
    assert_false(clv_config_get_bool(config, "gpu.fast"));
    assert_string_equal(clv_config_get(config, "gpu.mode"), "best");
    assert_string_equal(clv_config_origin(config, "gpu.mode"), "built-in");
    assert_string_equal(clv_config_get(config, "core.log_level"), "warn");
    assert_null(clv_config_get(config, "gpu.none"));
    assert_null(clv_config_get(config, "gpu"));
    assert_null(clv_config_origin(config, "none.count"));
    assert_int_equal(clv_config_get_int(config, "none.count"), 0);
    clv_config_destroy(config);
    clv_config_destroy(NULL);
}

static void test_ini_forms(void **state)
{
    (void)state;
    accept("[gpu]\ncount=2", "gpu.count", "2");
    accept("\xef\xbb\xbf[gpu]\ncount=2\n", "gpu.count", "2");
    accept("[gpu]\r\ncount = 2\r\nmode = worst\r\n", "gpu.mode", "worst");
    accept("[gpu]\n  count = 3\n  mode = worst\n", "gpu.mode", "worst");
    accept("[gpu]\ncount = 4 ; four\n", "gpu.count", "4");
    accept("[gpu]\ncount = 4 # four\n", "gpu.count", "4");
    accept("[gpu]\n# count = 4\n;count = 5\n", "gpu.count", "1");
    accept("[gpu]\nname = a;b#c\n", "gpu.name", "a;b#c");
    accept("[gpu]\nname = a=b:c\n", "gpu.name", "a=b:c");
    accept("[gpu]\nname : colon\n", "gpu.name", "colon");
    accept("[gpu]\nname =\n", "gpu.name", "");
    accept("[gpu]\ncount = 2\n[core]\n[gpu]\ncount = 3\n", "gpu.count", "3");
    accept("", "gpu.count", "1");
}

static void test_long_lines(void **state)
{
    (void)state;
    for (size_t n = 150; n < 900; n += 37) {
        char value[1024], text[1100];
        for (size_t i = 0; i < n; i++)
            value[i] = " ;#=abc/"[(i * 7 + i / 5) % 8];
        value[0] = value[n - 1] = 'x';
        for (size_t i = 0; i + 1 < n; i++) /* no comment begins */
            if (value[i] == ' ' && strchr(";#", value[i + 1]))
                value[i + 1] = '_';
        value[n] = 0;
        snprintf(text, sizeof text, "[gpu]\nname = %s\ncount = 7\n", value);
        accept(text, "gpu.name", value);
        accept(text, "gpu.count", "7");
    }
    char *huge = malloc(10000);
    memset(huge, 'x', 9999);
    huge[9999] = 0;
    memcpy(huge, "[gpu]\nname=", 11);
    refuse(huge, "x.ini:2|8192");
    free(huge);
}

static void test_ini_errors(void **state)
{
    (void)state;
    refuse("[gpu]\n\ncuont = 2\n", "x.ini:3|gpu.cuont|gpu.count");
    refuse("[gpu]\nlog_level = info\n", "x.ini:2|gpu.log_level");
    refuse("[gpu]\ncount = two\n", "x.ini:2|gpu.count|'two' is no integer");
    refuse("[gpu]\ncount = 9\n", "x.ini:2|gpu.count|1..8");
    refuse("[gpu]\ncount = 2k\n", "'2k'");
    refuse("[gpu]\ncount = 99999999999999999999\n", "no integer");
    refuse("[gpu]\nratio = 1.5\n", "0..1");
    refuse("[gpu]\nratio = 0,5\n", "'0,5' is no number");
    refuse("[gpu]\nratio = nan\n", "no number");
    refuse("[gpu]\nfast = maybe\n", "on nor off");
    refuse("[gpu]\nmode = bes\n", "best|worst");
    refuse("count = 2\n", "x.ini:1|[section]");
    refuse("[gpu]\ncount = 2\njunk\n", "x.ini:3");
    refuse("[gpu\ncount = 2\n", "x.ini:1");
    refuse("[gpu]\n= 2\n", "x.ini:2|without a key");
    refuse("[gpu]\n01234567890123456789012345678901234567890123456789 = 1\n",
           "x.ini:2|48");
    clv_config *config = make();
    assert_int_equal(
        core_config_parse(config, "x.ini", "[gpu]\n\0\n", 8, CORE_RANK_FILE),
        CLV_ERR_FORMAT);
    assert_message("x.ini:2|NUL");
    clv_config_destroy(config);
}

static void test_line_after_long(void **state)
{
    (void)state;
    char text[1200] = "[gpu]\nname = ";
    memset(text + strlen(text), 'y', 1000);
    strcat(text, "\nbroken line\n");
    refuse(text, "x.ini:3");
}

static void test_precedence(void **state)
{
    (void)state;
    clv_config *config = make();
    setenv("CLEAVE_GPU_COUNT", "5", 1);
    assert_int_equal(clv_config_set(config, "gpu.count=6", "--set"), CLV_OK);
    assert_int_equal(clv_config_load_env(config), CLV_OK);
    assert_int_equal(parse(config, "[gpu]\ncount = 4\nfast = on\n"), CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 6);
    assert_string_equal(clv_config_origin(config, "gpu.count"), "--set");
    assert_string_equal(clv_config_origin(config, "gpu.fast"), "x.ini:3");
    clv_config_destroy(config);

    config = make();
    assert_int_equal(clv_config_load_env(config), CLV_OK);
    assert_int_equal(parse(config, "[gpu]\ncount = 4\n"), CLV_OK);
    assert_int_equal(core_config_parse(config, "user.ini", "[gpu]\ncount=3", 13,
                                       CORE_RANK_USER),
                     CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 5);
    assert_string_equal(clv_config_origin(config, "gpu.count"),
                        "CLEAVE_GPU_COUNT");
    clv_config_destroy(config);
    unsetenv("CLEAVE_GPU_COUNT");
}

static void test_environment(void **state)
{
    (void)state;
    clv_config *config = make();
    setenv("CLEAVE_GPU_CUONT", "5", 1);
    assert_int_equal(clv_config_load_env(config), CLV_ERR_NOT_FOUND);
    assert_message("CLEAVE_GPU_CUONT|gpu.count");
    unsetenv("CLEAVE_GPU_CUONT");
    setenv("CLEAVE_GPU_COUNT", "x", 1);
    assert_int_equal(clv_config_load_env(config), CLV_ERR_FORMAT);
    assert_message("CLEAVE_GPU_COUNT|'x'");
    unsetenv("CLEAVE_GPU_COUNT");
    clv_config_destroy(config);

    /* A section declared after the environment was read, whose name begins
     * with another's. */
    config = make();
    setenv("CLEAVE_GPU_SIM_COUNT", "7", 1);
    clv_status st = clv_config_load_env(config);
    assert_int_equal(st, CLV_ERR_NOT_FOUND);
    clv_config_destroy(config);
    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(clv_config_load_env(config), CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu_sim", gpu_options, N_GPU),
                     CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu_sim.count"), 7);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 1);
    unsetenv("CLEAVE_GPU_SIM_COUNT");
    clv_config_destroy(config);
}

static void test_set(void **state)
{
    (void)state;
    clv_config *config = make();
    assert_int_equal(clv_config_set(config, "gpu.name=a=b", "--set"), CLV_OK);
    assert_string_equal(clv_config_get(config, "gpu.name"), "a=b");
    const char *const bad[] = {"gpu.count", "count=1", "gpu.=1", ".count=1",
                               "",          "=",       "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(clv_config_set(config, bad[i], "--set"),
                         CLV_ERR_FORMAT);
        assert_message("--set|section.key=value");
    }
    assert_int_equal(clv_config_set(config, "gpu.count=0", "--set"),
                     CLV_ERR_FORMAT);
    assert_message("--set|gpu.count|1..8");
    assert_int_equal(clv_config_set(config, "core.log_lvel=info", "--set"),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|core.log_level");
    clv_config_destroy(config);
}

static bool is_npu(void *ctx, const char *section)
{
    (void)ctx;
    return !strcmp(section, "npu");
}

static void test_late_sections(void **state)
{
    (void)state;
    clv_config *config;
    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(parse(config, "[gpu]\ncount = 3\n[npu]\nx = 1\n"), CLV_OK);
    assert_null(clv_config_get(config, "gpu.count"));
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 3);
    assert_string_equal(clv_config_origin(config, "gpu.count"), "x.ini:2");
    assert_int_equal(core_config_check_waiting(config, is_npu, NULL), CLV_OK);

    core_config_undeclare(config, "gpu");
    assert_null(clv_config_get(config, "gpu.count"));
    assert_null(clv_config_get(config, "gpu.mode"));
    assert_int_equal(core_config_check_waiting(config, is_npu, NULL),
                     CLV_ERR_NOT_FOUND);
    assert_message("x.ini:2|gpu.count|[gpu]|see core.plugin_dirs");
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 3);
    assert_int_equal(parse(config, "[gpuu]\ncount = 3\n"), CLV_OK);
    assert_int_equal(core_config_check_waiting(config, is_npu, NULL),
                     CLV_ERR_NOT_FOUND);
    assert_message("x.ini:2|gpuu.count|the nearest is [gpu]");
    clv_config_destroy(config);

    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(parse(config, "[gpu]\ncount = 30\n"), CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_ERR_FORMAT);
    assert_message("x.ini:2|gpu.count|30|1..8");
    clv_config_destroy(config);

    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(parse(config, "[gpu]\ncuont = 3\n"), CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_ERR_NOT_FOUND);
    assert_message("x.ini:2|gpu.cuont|gpu.count");
    clv_config_destroy(config);
}

/* Two owners of one section: it lasts as long as the longer. */
static void test_shared_section(void **state)
{
    (void)state;
    clv_config *config = make();
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, N_GPU),
                     CLV_OK);
    assert_int_equal(clv_config_declare(config, "gpu", gpu_options, 2),
                     CLV_ERR_INVALID);
    core_config_undeclare(config, "gpu");
    assert_non_null(clv_config_get(config, "gpu.count"));
    core_config_undeclare(config, "gpu");
    assert_null(clv_config_get(config, "gpu.count"));
    clv_config_destroy(config);
}

/* Sections for single devices: keys of scope device, defaults where a device
 * has a section, whenever and in whatever order things come. */
static void test_devices(void **state)
{
    (void)state;
    const clv_option options[] = {
        {HEADER, .key = "depth", .type = CLV_OPTION_INT, .default_value = "1",
         .help = "h"},
        {HEADER, .key = "clock", .type = CLV_OPTION_INT, .default_value = "500",
         .help = "h", .min = 1, .max = 9000, .scope = CLV_SCOPE_DEVICE},
        {HEADER, .key = "depth", .type = CLV_OPTION_INT, .default_value = "7",
         .help = "h", .scope = CLV_SCOPE_DEVICE},
    };
    clv_config *config = make();
    assert_int_equal(parse(config, "[npu:b]\nclock = 900\n[npu:a2]\n"
                                   "depth = 9\n[npu:b]\ndepth = 8\n"),
                     CLV_OK);
    assert_null(clv_config_get(config, "npu:b.clock"));
    assert_int_equal(clv_config_declare(config, "npu", options, 3), CLV_OK);
    assert_string_equal(clv_config_get(config, "npu.depth"), "1");
    assert_null(clv_config_get(config, "npu.clock"));
    assert_string_equal(clv_config_get(config, "npu:b.clock"), "900");
    assert_string_equal(clv_config_get(config, "npu:b.depth"), "8");
    assert_string_equal(clv_config_get(config, "npu:a2.clock"), "500");
    assert_string_equal(clv_config_origin(config, "npu:a2.clock"), "built-in");
    assert_null(clv_config_get(config, "npu:c.clock"));
    assert_string_equal(core_config_device_section(config, "npu", 0), "b");
    assert_string_equal(core_config_device_section(config, "npu", 1), "a2");
    assert_null(core_config_device_section(config, "npu", 2));
    assert_null(core_config_device_section(config, "np", 0));

    assert_int_equal(clv_config_set(config, "npu:c.depth=4", "--set"), CLV_OK);
    assert_string_equal(clv_config_get(config, "npu:c.clock"), "500");
    assert_string_equal(core_config_device_section(config, "npu", 2), "c");
    assert_int_equal(clv_config_set(config, "npu:b.clok=4", "--set"),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|npu:b.clok|npu:b.clock");
    assert_int_equal(clv_config_set(config, "npu:b.clock=0", "--set"),
                     CLV_ERR_FORMAT);
    assert_message("npu:b.clock|1..9000");
    assert_int_equal(clv_config_set(config, "npu:B.clock=4", "--set"),
                     CLV_ERR_FORMAT);
    assert_message("[npu:B]|small letters");
    assert_int_equal(clv_config_set(config, "npu:.clock=4", "--set"),
                     CLV_ERR_FORMAT);
    /* a plugin without such keys */
    assert_int_equal(clv_config_set(config, "gpu:0.count=1", "--set"),
                     CLV_ERR_NOT_FOUND);
    assert_message("gpu:0.count");

    core_config_undeclare(config, "npu");
    assert_null(clv_config_get(config, "npu:b.clock"));
    assert_int_equal(clv_config_declare(config, "npu", options, 3), CLV_OK);
    assert_string_equal(clv_config_get(config, "npu:b.clock"), "900");
    assert_string_equal(clv_config_get(config, "npu:b.depth"), "8");
    clv_config_destroy(config);
}

static void test_bad_tables(void **state)
{
    (void)state;
    clv_option o = gpu_options[0];
    clv_config *config;
    assert_int_equal(clv_config_create(&config), CLV_OK);
    assert_int_equal(clv_config_declare(config, "Gpu", &o, 1), CLV_ERR_INVALID);
    o.key = "Count";
    assert_int_equal(clv_config_declare(config, "gpu", &o, 1), CLV_ERR_INVALID);
    o = gpu_options[0];
    o.default_value = "99";
    assert_int_equal(clv_config_declare(config, "gpu", &o, 1), CLV_ERR_INVALID);
    assert_message("gpu.count|default|1..8");
    o = gpu_options[0];
    o.type = 77;
    assert_int_equal(clv_config_declare(config, "gpu", &o, 1), CLV_ERR_INVALID);
    o = gpu_options[3];
    o.choices = NULL;
    assert_int_equal(clv_config_declare(config, "gpu", &o, 1), CLV_ERR_INVALID);
    const clv_option twice[] = {gpu_options[0], gpu_options[0]};
    assert_int_equal(clv_config_declare(config, "gpu", twice, 2),
                     CLV_ERR_INVALID);
    assert_null(clv_config_get(config, "gpu.count"));
    clv_config_destroy(config);
}

static void test_files(void **state)
{
    (void)state;
    tmpdir dir;
    assert_true(tmpdir_make(&dir));
    clv_config *config = make();
    assert_int_equal(clv_config_load_file(config, tmpdir_file(&dir, "no.ini")),
                     CLV_ERR_NOT_FOUND);
    assert_message("no.ini");
    assert_int_equal(clv_config_load_file(config, dir.path), CLV_ERR_IO);
    const char *path = tmpdir_text(&dir, "a.ini", "[gpu]\n\ncount = x\n");
    assert_int_equal(clv_config_load_file(config, path), CLV_ERR_FORMAT);
    assert_message("a.ini:3|gpu.count");

    /* The user's file counts less than a named one. */
    mkdir(tmpdir_file(&dir, "cleave"), 0700);
    tmpdir_text(&dir, "cleave/cleave.ini", "[gpu]\ncount = 2\nname = u\n");
    path = tmpdir_text(&dir, "a.ini", "[gpu]\ncount = 4\n");
    assert_int_equal(clv_config_load_file(config, path), CLV_OK);
    setenv("XDG_CONFIG_HOME", dir.path, 1);
    assert_int_equal(clv_config_load_default(config), CLV_OK);
    assert_int_equal(clv_config_get_int(config, "gpu.count"), 4);
    assert_string_equal(clv_config_get(config, "gpu.name"), "u");
    unsetenv("XDG_CONFIG_HOME");
    clv_config_destroy(config);
    tmpdir_remove(&dir);
}

static void test_core_keys_declared(void **state)
{
    (void)state;
    clv_config *config;
    assert_int_equal(clv_config_create(&config), CLV_OK);
    const char *const keys[] = {"core.plugin_dirs", "core.plugins",
                                "core.devices",     "core.allow_unsafe_plugins",
                                "core.log_level",   "core.cache_dir",
                                "core.data_dir"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(clv_config_get(config, keys[i]));
    assert_true(clv_config_get(config, "core.plugin_dirs")[0] == '/');
    assert_true(clv_config_get(config, "core.data_dir")[0] == '/');
    clv_config_destroy(config);
}

/* The enums say what the words do. */
static void test_choices(void **state)
{
    (void)state;
    static const struct {
        const char *set, *key;
        uint32_t value;
    } rows[] = {
        {"core.plan=auto", "core.plan", CORE_PLAN_AUTO},
        {"core.plan=first", "core.plan", CORE_PLAN_FIRST},
        {"core.plan=layer", "core.plan", CORE_PLAN_LAYER},
        {"core.plan=tensor", "core.plan", CORE_PLAN_TENSOR},
        {"core.profile=auto", "core.profile", CORE_PROFILE_AUTO},
        {"core.profile=off", "core.profile", CORE_PROFILE_OFF},
        {"core.sync=fast", "core.sync", CORE_SYNC_FAST},
        {"core.sync=block", "core.sync", CORE_SYNC_BLOCK},
        {"core.probe=auto", "core.probe", CORE_PROBE_AUTO},
        {"core.probe=always", "core.probe", CORE_PROBE_ALWAYS},
        {"core.probe=off", "core.probe", CORE_PROBE_OFF},
        {"core.log_level=error", "core.log_level", CLV_LOG_ERROR},
        {"core.log_level=warn", "core.log_level", CLV_LOG_WARN},
        {"core.log_level=info", "core.log_level", CLV_LOG_INFO},
        {"core.log_level=debug", "core.log_level", CLV_LOG_DEBUG},
    };
    clv_config *config;
    assert_ok(clv_config_create(&config));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(clv_config_set(config, rows[i].set, "test"));
        assert_int_equal(core_config_choice(config, rows[i].key),
                         rows[i].value);
    }
    clv_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ini_forms),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_ini_errors),
        cmocka_unit_test(test_line_after_long),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_late_sections),
        cmocka_unit_test(test_shared_section),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_core_keys_declared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
