/* From the files in the directories to the devices in use. */
#include "loading.h"

#include "../../core/device/device.h"

#include <dlfcn.h>

static void test_good(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"good.devices=2", NULL};
    assert_ok(open_context(NULL, set, &config, &ctx));
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_int_equal(c->stage, CLV_STAGE_READY);
    assert_int_equal(c->status, CLV_OK);
    assert_string_equal(c->reason, "");
    assert_string_equal(c->plugin, "good");
    assert_string_equal(c->version, "1.2");
    assert_string_equal(c->abi, "1");
    assert_string_equal(c->kinds, "other");
    assert_int_equal(c->n_devices, 2);
    assert_string_equal(clv_load_stage_name(c->stage), "ready");
    assert_null(clv_context_candidate(ctx, 1));

    assert_int_equal(clv_context_device_count(ctx), 2);
    clv_device *dev = clv_context_device(ctx, 1);
    assert_string_equal(clv_device_id(dev), "good:1");
    assert_string_equal(clv_device_plugin(dev), "good");
    assert_string_equal(clv_device_info_of(dev)->name, "a ?[31mdevice");
    assert_int_equal(clv_device_mem_type_count(dev), 1);
    assert_int_equal(clv_device_mem_type(dev, 0)->alignment, 1);
    assert_null(clv_device_mem_type(dev, 1));
    assert_null(clv_context_device(ctx, 2));
    clv_device *found;
    assert_ok(clv_context_find_device(ctx, "good:1", &found));
    assert_ptr_equal(found, dev);
    assert_int_equal(clv_context_find_device(ctx, "", &found),
                     CLV_ERR_NOT_FOUND);
    assert_int_equal(clv_context_find_device(ctx, "good:9", &found),
                     CLV_ERR_NOT_FOUND);
    assert_null(found);
    assert_message("good:9|good:0, good:1");
    assert_ptr_equal(clv_context_config(ctx), config);
    clv_context_destroy(ctx);
    assert_null(clv_config_get(config, "good.devices"));
    clv_config_destroy(config);
}

static void test_variants(void **state)
{
    (void)state;
    assert_variant_stops("wrong_version", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "7 to 9|1 to 1");
    assert_variant_stops("lying_version", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "2 to 2|1 to 1");
    assert_variant_stops("refuses", CLV_STAGE_MAPPED, CLV_ERR_UNSUPPORTED,
                         "AVX9");
    assert_variant_stops("no_table", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                         "no table");
    assert_variant_stops("short_table", CLV_STAGE_MAPPED, CLV_ERR_VERSION,
                         "shorter");
    assert_variant_stops("missing_slot", CLV_STAGE_MAPPED, CLV_ERR_INTERNAL,
                         "submit()");
    assert_variant_stops("unresolved", CLV_STAGE_PROBED, CLV_ERR_FORMAT,
                         "cleave_nobody_defines_this");
    assert_variant_stops("bad_option", CLV_STAGE_NEGOTIATED, CLV_ERR_INVALID,
                         "bad_option.devices|0..8");
    assert_variant_stops("fail_create", CLV_STAGE_NEGOTIATED,
                         CLV_ERR_UNSUPPORTED, "driver 1.0 is too old|42");
}

static void test_allow_list(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set;
        bool good, unloadable;
    } cases[] = {
        {"core.plugins=", true, true},
        {"core.plugins=good", true, false},
        {"core.plugins=-good", false, true},
        {"core.plugins=unloadable, good", true, true},
        {"core.plugins=-none", true, true},
        {"core.plugins=good,-good,unloadable", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clv_config *config;
        clv_context *ctx;
        const char *const set[] = {cases[i].set, NULL};
        assert_ok(open_context(NULL, set, &config, &ctx));
        clv_device *dev;
        assert_int_equal(clv_context_find_device(ctx, "good", &dev) == CLV_OK,
                         cases[i].good);
        assert_int_equal(clv_context_find_device(ctx, "unloadable", &dev) ==
                             CLV_OK,
                         cases[i].unloadable);
        assert_int_equal(clv_context_candidate_count(ctx), 2);
        clv_context_destroy(ctx);
        clv_config_destroy(config);
    }
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"core.plugins=goood", NULL};
    assert_int_equal(open_context(NULL, set, &config, &ctx), CLV_ERR_NOT_FOUND);
    assert_message("--set|core.plugins|goood");
    assert_null(ctx);
    clv_config_destroy(config);
}

static void test_device_order(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set, *ids;
    } cases[] = {
        {"core.devices=", "good:0 good:1 unloadable "},
        {"core.devices=unloadable", "unloadable "},
        {"core.devices=unloadable,good", "unloadable good:0 good:1 "},
        {"core.devices=good:1, unloadable,good:0", "good:1 unloadable good:0 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clv_config *config;
        clv_context *ctx;
        const char *const set[] = {cases[i].set, "good.devices=2", NULL};
        assert_ok(open_context(NULL, set, &config, &ctx));
        char ids[256] = "";
        for (uint32_t d = 0; d < clv_context_device_count(ctx); d++) {
            strcat(ids, clv_device_id(clv_context_device(ctx, d)));
            strcat(ids, " ");
        }
        assert_string_equal(ids, cases[i].ids);
        clv_context_destroy(ctx);
        clv_config_destroy(config);
    }
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"core.devices=good,opencl:0", NULL};
    assert_int_equal(open_context(NULL, set, &config, &ctx), CLV_ERR_NOT_FOUND);
    assert_message("--set|core.devices|'opencl:0'|present: good; plugins not "
                   "asked: unloadable");
    clv_config_destroy(config);
}

static bool is_mapped(const char *path)
{
    void *dl = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (dl)
        dlclose(dl);
    return dl != NULL;
}

/* What core.devices does not name is not mapped: nothing of it runs. */
static void test_lazy(void **state)
{
    (void)state;
    install(&dir, "good");
    const char *idle = install(&dir, "unloadable");
    static const char *const names[] = {"core.devices=good",
                                        "core.devices=good:0"};
    for (int i = 0; i < 2; i++) {
        const char *const set[] = {names[i], "good.devices=2", NULL};
        opened o = open_ok(NULL, set);
        const clv_candidate *c = clv_context_candidate(o.ctx, 1);
        assert_string_equal(c->path, idle);
        assert_int_equal(c->stage, CLV_STAGE_INSPECTED);
        assert_int_equal(c->status, CLV_OK);
        assert_string_equal(c->plugin, "unloadable");
        assert_reason(c, "not needed: core.devices names none of its devices");
        assert_false(is_mapped(idle));
        assert_int_equal(clv_context_device_count(o.ctx), i ? 1 : 2);
        close_opened(&o);
    }
}

/* Ids of the devices in use, "a b ". */
static const char *device_ids(const clv_context *ctx, char out[256])
{
    out[0] = 0;
    for (uint32_t i = 0; i < clv_context_device_count(ctx); i++) {
        strcat(out, clv_device_id(clv_context_device(ctx, i)));
        strcat(out, " ");
    }
    return out;
}

/* good's devices have UUIDs ..1, ..2 and so on, unloadable's begin at ..2. */
static void test_same_device_twice(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set, *good, *unloadable; /* how many devices there are */
        const char *ids;                     /* of those used */
        const char *noted; /* the plugin that one was dropped of, or NULL */
    } cases[] = {
        {"core.devices=", "2", "1", "good:0 good:1 ", "unloadable"},
        {"core.devices=unloadable,good", "2", "1", "unloadable good:0 ",
         "good"},
        /* A plugin named whole is no wish for each of its devices; with a
         * single one, its name is the device's id. */
        {"core.devices=good,unloadable", "3", "2", "good:0 good:1 good:2 ",
         "unloadable"},
        {"core.devices=good,unloadable", "2", "1", "good:0 good:1 unloadable ",
         NULL},
        {"core.devices=good,unloadable:0", "3", "2",
         "good:0 good:1 good:2 unloadable:0 ", NULL},
        {"core.devices=good:0,unloadable", "2", "1", "good:0 unloadable ",
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char good[32], unloadable[32], ids[256];
        snprintf(good, sizeof good, "good.devices=%s", cases[i].good);
        snprintf(unloadable, sizeof unloadable, "unloadable.devices=%s",
                 cases[i].unloadable);
        const char *const set[] = {cases[i].set,        good,
                                   unloadable,          "good.uuid=1",
                                   "unloadable.uuid=2", NULL};
        opened o = open_ok(NULL, set);
        assert_string_equal(device_ids(o.ctx, ids), cases[i].ids);
        for (uint32_t c = 0; c < 2; c++) {
            const clv_candidate *one = clv_context_candidate(o.ctx, c);
            bool noted = cases[i].noted && !strcmp(one->plugin, cases[i].noted);
            assert_int_equal(one->status, CLV_OK);
            assert_int_equal(one->reason[0] != 0, noted);
            if (noted)
                assert_reason(one, "is the same device as|core.devices = ");
        }
        close_opened(&o);
    }
    /* Unknown UUIDs are not equal, nor are two devices of one plugin. */
    opened o = open_ok(NULL, NULL);
    assert_int_equal(clv_context_device_count(o.ctx), 2);
    close_opened(&o);
    const char *const halves[] = {"good.devices=2", "good.uuid=100", NULL};
    o = open_ok(NULL, halves);
    assert_int_equal(clv_context_device_count(o.ctx), 3);
    close_opened(&o);
}

/* Of two plugins' devices those are used that wait for each other, if they are
 * several. */
static void test_peers(void **state)
{
    (void)state;
    install(&dir, "good");
    install(&dir, "unloadable");
    const struct {
        const char *set, *good, *unloadable, *flags, *ids;
    } cases[] = {
        {"core.devices=", "3", "2", "128", "good:0 unloadable:0 unloadable:1 "},
        {"core.devices=", "3", "2", "0", "good:0 good:1 good:2 "},
        {"core.devices=", "3", "1", "128", "good:0 good:1 good:2 "},
        {"core.devices=good", "3", "2", "128", "good:0 good:1 good:2 "},
        {"core.devices=good,unloadable", "3", "2", "128",
         "good:0 good:1 good:2 "},
        {"core.devices=good:1,unloadable", "3", "2", "128",
         "good:1 unloadable:1 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char good[32], unloadable[32], flags[32], ids[256];
        snprintf(good, sizeof good, "good.devices=%s", cases[i].good);
        snprintf(unloadable, sizeof unloadable, "unloadable.devices=%s",
                 cases[i].unloadable);
        snprintf(flags, sizeof flags, "unloadable.flags=%s", cases[i].flags);
        const char *const set[] = {
            cases[i].set,        good, unloadable, flags, "good.uuid=1",
            "unloadable.uuid=2", NULL};
        opened o = open_ok(NULL, set);
        assert_string_equal(device_ids(o.ctx, ids), cases[i].ids);
        close_opened(&o);
    }
}

static void install_kinds(const char *variant, const char *kinds)
{
    char text[128], file[64];
    snprintf(file, sizeof file, "cleave_%s.so", variant);
    unlink(tmpdir_file(&dir, file)); /* it may be mapped still */
    int n = snprintf(text, sizeof text, "name = %s\nabi = 1\ndevices = %s\n",
                     variant, kinds);
    install_variant_manifest(&dir, variant, text, (size_t)n);
}

/* The host's processor is used once, by the plugin that is made for it. */
static void test_processor_once(void **state)
{
    (void)state;
    const struct {
        const char *kinds; /* in unloadable's manifest; its device's is cpu */
        const char *good_kind; /* of good's device */
        const char *set, *ids, *noted;
    } cases[] = {
        {"cpu", "1", "core.devices=", "unloadable ", "good"},
        {"cpu gpu", "1", "core.devices=", "good ", "unloadable"},
        {"cpu", "2", "core.devices=", "good unloadable ", NULL},
        {"cpu", "1", "core.devices=good,unloadable", "good unloadable ", NULL},
        {"cpu", "1", "core.devices=good", "good ", "unloadable"},
    };
    install_kinds("good", "cpu gpu");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char kind[32], ids[256];
        install_kinds("unloadable", cases[i].kinds);
        snprintf(kind, sizeof kind, "good.kind=%s", cases[i].good_kind);
        const char *const set[] = {cases[i].set, kind, "unloadable.kind=1",
                                   NULL};
        opened o = open_ok(NULL, set);
        assert_string_equal(device_ids(o.ctx, ids), cases[i].ids);
        for (uint32_t c = 0; c < 2; c++) {
            const clv_candidate *one = clv_context_candidate(o.ctx, c);
            bool noted = cases[i].noted && !strcmp(one->plugin, cases[i].noted);
            assert_int_equal(one->status, CLV_OK);
            if (noted && !strstr(one->reason, "not needed"))
                assert_reason(one, "is the same device as|core.devices = ");
            else if (!noted)
                assert_string_equal(one->reason, "");
        }
        close_opened(&o);
    }
}

/* A device that cannot be opened leaves the others. */
static void test_device_failure(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const set[] = {"good.devices=5", NULL};
    assert_ok(open_context(NULL, set, &config, &ctx));
    const clv_candidate *c = clv_context_candidate(ctx, 0);
    assert_int_equal(c->n_devices, 4);
    assert_int_equal(c->stage, CLV_STAGE_READY);
    assert_int_equal(c->status, CLV_ERR_DEVICE_LOST);
    assert_non_null(strstr(c->reason, "good:3"));
    assert_non_null(strstr(c->reason, "fell off"));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* What the user set wrongly for a plugin is the user's error, not a plugin
 * that is silently left out. */
static void test_wrong_settings(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    const char *const bad_value[] = {"good.devices=99", NULL};
    assert_int_equal(open_context(NULL, bad_value, &config, &ctx),
                     CLV_ERR_FORMAT);
    assert_message("--set|good.devices|99|0..8");
    assert_null(ctx);
    clv_config_destroy(config);
    const char *const bad_key[] = {"good.device=2", NULL};
    assert_int_equal(open_context(NULL, bad_key, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|good.device|good.devices");
    clv_config_destroy(config);
    const char *const bad_section[] = {"goof.devices=2", NULL};
    assert_int_equal(open_context(NULL, bad_section, &config, &ctx),
                     CLV_ERR_NOT_FOUND);
    assert_message("--set|[goof]|[good]");
    clv_config_destroy(config);

    install(&dir, "fail_create");
    const char *const absent[] = {"fail_create.devices=2", NULL};
    assert_ok(open_context(NULL, absent, &config, &ctx));
    clv_context_destroy(ctx);
    clv_config_destroy(config);
}

/* A device's own section, else its plugin's, says how much it may work. */
static void test_max_share(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *ctx;
    assert_ok(open_context(NULL, NULL, &config, &ctx));
    assert_true(core_device_max_share(clv_context_device(ctx, 0)) == 1);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    const char *const shares[] = {"good.devices=2", "good.max_share=0.5", NULL};
    assert_ok(open_context(NULL, shares, &config, &ctx));
    const clv_device *first = clv_context_device(ctx, 0);
    const clv_device *second = clv_context_device(ctx, 1);
    assert_true(core_device_max_share(first) == 0.5);
    char own[128];
    snprintf(own, sizeof own, "%s.max_share=0.25", clv_device_id(second));
    assert_ok(clv_config_set(config, own, "--set"));
    assert_true(core_device_max_share(first) == 0.5);
    assert_true(core_device_max_share(second) == 0.25);
    snprintf(own, sizeof own, "%s.max_share=0.04", clv_device_id(second));
    assert_int_equal(clv_config_set(config, own, "--set"), CLV_ERR_FORMAT);
    assert_message("--set|max_share|0.04 is not in 0.05..1");
    assert_true(core_device_max_share(second) == 0.25);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    const char *const number[] = {"good.max_share=0.5", "good:0.max_share=0.25",
                                  NULL};
    assert_ok(open_context(NULL, number, &config, &ctx));
    assert_true(core_device_max_share(clv_context_device(ctx, 0)) == 0.25);
    clv_context_destroy(ctx);
    clv_config_destroy(config);
    const char *const large[] = {"good.max_share=1.5", NULL};
    assert_int_equal(open_context(NULL, large, &config, &ctx), CLV_ERR_FORMAT);
    assert_message("--set|good.max_share|1.5");
    clv_config_destroy(config);
}

static void test_unloading(void **state)
{
    (void)state;
    const char *stays = install(&dir, "good");
    const char *goes = install(&dir, "unloadable");
    for (int i = 0; i < 3; i++) {
        clv_config *config;
        clv_context *ctx;
        assert_ok(open_context(NULL, NULL, &config, &ctx));
        assert_int_equal(clv_context_device_count(ctx), 2);
        assert_true(is_mapped(goes));
        clv_context_destroy(ctx);
        clv_config_destroy(config);
        assert_true(is_mapped(stays));
        assert_false(is_mapped(goes));
    }
}

/* Two contexts over one configuration, gone in either order. */
static void test_two_contexts(void **state)
{
    (void)state;
    install(&dir, "good");
    clv_config *config;
    clv_context *a, *b;
    assert_ok(open_context(NULL, NULL, &config, &a));
    clv_context_params params = {.config = config};
    assert_ok(clv_context_create(&params, &b));
    clv_context_destroy(a);
    assert_int_equal(clv_context_device_count(b), 1);
    assert_string_equal(clv_config_get(config, "good.devices"), "1");
    clv_context_destroy(b);
    clv_context_destroy(NULL);
    clv_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_good),           TEST(test_variants),
        TEST(test_allow_list),     TEST(test_device_order),
        TEST(test_lazy),           TEST(test_same_device_twice),
        TEST(test_peers),          TEST(test_processor_once),
        TEST(test_device_failure), TEST(test_wrong_settings),
        TEST(test_max_share),      TEST(test_unloading),
        TEST(test_two_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
