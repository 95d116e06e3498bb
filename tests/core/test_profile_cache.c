/*
 * Profiles in the cache: what the next process has of them, for which devices,
 * settings and graphs, and what is measured once more.
 */
#include "profile_rig.h"

/* Warnings of the log. */
typedef struct messages {
    uint32_t n;
    char last[512];
} messages;

static void note(void *ctx, uint32_t level, const char *line)
{
    messages *m = ctx;
    if (level > CLV_LOG_WARN)
        return;
    m->n++;
    snprintf(m->last, sizeof m->last, "%s", line);
}

static uint32_t measured(const char *settings, bool warns,
                         const clv_profile_params *params)
{
    rig r;
    messages warnings = {0};
    rig_make(&r, settings);
    r.test.ctx->log = note;
    r.test.ctx->log_ctx = &warnings;
    r.test.ctx->log_level = CLV_LOG_WARN;
    assert_ok(cover(&r, params));
    if (warns != (warnings.n > 0))
        fail_msg("%u warnings: %s", warnings.n, warnings.last);
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 77, 100);
    planner_cost c;
    assert_true(cost(&r, r.a, &workload, &c) && c.ns > 0);
    uint32_t n = fake.workloads + fake.overheads + fake.contentions;
    rig_free(&r);
    return n;
}

typedef char file_path[512];

/* The profiles in the cache. */
static uint32_t in_cache(file_path files[8])
{
    uint32_t n = 0;
    DIR *dir = opendir(cache.path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (!strncmp(e->d_name, "profile-", 8)) {
            assert_true(n < 8);
            snprintf(files[n++], sizeof(file_path), "%s/%.200s", cache.path,
                     e->d_name);
        }
    closedir(dir);
    return n;
}

/* Puts another text in place of the first that is found. */
static void edit(const char *file, const char *find, const char *put)
{
    clv_file_map map;
    assert_ok(clv_file_map_open(file, &map));
    char *text = calloc(map.size + 1, 1);
    memcpy(text, map.data, map.size);
    clv_file_map_close(&map);
    char *at = strstr(text, find);
    if (!at)
        fail_msg("no %s in %s", find, file);
    FILE *f = fopen(file, "w");
    fprintf(f, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    fclose(f);
    free(text);
}

/* Devices of one model: one of them is measured, and what runs of one show is
 * the other's, too. Another process has it by whichever comes first. */
static void test_same_model(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    file_path files[8];
    rig_make(&r, "ref.name0=card ref.name1=card");
    const clv_profile_params again = {.again = true};
    for (int i = 0; i < 2; i++) {
        const uint32_t before = fake.workloads;
        fake.overheads = 0;
        assert_ok(cover(&r, i ? &again : NULL));
        assert_int_equal(fake.overheads, 1);
        assert_true(fake.workloads > before);
    }
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 128, 128);
    assert_true(cost(&r, r.b, &workload, &c));
    assert_true(c.measured && c.ns == time_of(r.a, &workload));
    const planner_sample shown = {.workload = workload, .ns = 12345};
    assert_ok(planner_profile_learn(r.profile, r.b, &shown, 1));
    assert_true(cost(&r, r.a, &workload, &c) && c.ns == 12345);
    rig_free(&r);
    assert_int_equal(in_cache(files), 2); /* and that of both together */

    rig_make(&r, "ref.name0=card ref.name1=card");
    const clv_profile_params second = {.devices = &r.b, .n_devices = 1};
    assert_ok(cover(&r, &second));
    assert_int_equal(fake.workloads + fake.overheads, 0);
    assert_true(cost(&r, r.b, &workload, &c) && c.ns == 12345);
    rig_free(&r);
}

static void test_kept(void **state)
{
    (void)state;
    rig r;
    planner_cost before, after;
    file_path files[8];
    char *text;
    rig_make(&r, "");
    assert_ok(cover(&r, NULL));
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 77, 100);
    assert_true(cost(&r, r.b, &workload, &before));
    rig_free(&r);
    assert_int_equal(in_cache(files), 3);

    rig_make(&r, "");
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.workloads + fake.overheads + fake.contentions, 0);
    assert_true(cost(&r, r.b, &workload, &after));
    assert_true(after.ns == before.ns); /* the model too was kept */
    assert_ok(clv_profile_print(r.test.ctx, NULL, 0, "json", &text));
    clv_string_free(text);
    rig_free(&r);

    const clv_profile_params again = {.again = true};
    assert_true(measured("", false, &again) > 100);
    assert_int_equal(measured("", false, NULL), 0);
    assert_int_equal(in_cache(files), 3);
    /* Other settings, other speeds. */
    assert_true(measured("ref.delay_us1=1", false, NULL) > 100);
    assert_true(in_cache(files) > 3);
}

/* Of another graph only what lies beyond the sizes that were sampled. */
static void test_other_graphs(void **state)
{
    (void)state;
    test_shape inside = usual, beyond = usual;
    inside.tokens = 100;
    inside.ffn = 512;
    beyond.context = 1024;
    uint32_t all = measured("", false, NULL);
    shape = &inside;
    assert_int_equal(measured("", false, NULL), 0);
    const clv_profile_params full = {.full = true};
    assert_true(measured("", false, &full) > 100);
    shape = &beyond;
    uint32_t n = measured("", false, NULL);
    assert_true(n > 0 && n < all / 2);
    shape = &usual;
}

/* What was measured while others worked is measured once more by the next
 * process, and kept when they did not. */
static void test_busy(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "");
    fake.busy = true;
    assert_ok(cover(&r, NULL));
    const uint32_t all = fake.workloads;
    assert_true(all > 100);
    assert_ok(cover(&r, NULL)); /* the same process */
    assert_int_equal(fake.workloads, all);
    rig_free(&r);
    /* All but what the devices do not take. */
    const uint32_t again = measured("", false, NULL);
    assert_true(again > all / 2 && again <= all);
    assert_int_equal(measured("", false, NULL), 0);
    assert_true(planner_others_ns() > 0);
}

static void test_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *find, *put;
    } edits[] = {
        {"{\"profile\"", "[\"profile\""},
        {"{\"profile\"", "{\"prophile\""},
        {"format 3", "format 0"},
        {"\"kinds\"", "\"kines\""},
        {"\"samples\":[\n[1,", "\"samples\":[\n[-1,"},
        {"\"samples\":[\n[1,", "\"samples\":[\n[1.5,"},
        {"\"samples\":[\n[1,", "\"samples\":[\n[1e300,"},
        {"\"samples\":[\n[1,", "\"samples\":[\n[\"1\","},
        {"\"samples\":[\n[1,", "\"samples\":[\n[1,1,"},
        {"{\"kind\":[3,", "{\"kind\":[99,"},
        {"{\"kind\":[3,", "{\"kind\":[3,3,"},
        {"\"overheads\":[", "\"overheads\":[true,"},
        {"\"covered\":[", "\"covered\":[0.5,"},
        {"\"tree\":[\n[", "\"tree\":[\n[\"x\","},
        {"\"tree\":[\n[", "\"tree\":[[],\n["},
    };
    file_path files[8];
    measured("", false, NULL);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        uint32_t n = in_cache(files);
        for (uint32_t j = 0; j < n; j++)
            if (strstr(files[j], "ref-reference-1"))
                edit(files[j], edits[i].find, edits[i].put);
        if (!measured("", true, NULL))
            fail_msg("%s was taken", edits[i].put);
        assert_int_equal(measured("", false, NULL), 0); /* written again */
    }
    uint32_t n = in_cache(files);
    for (uint32_t j = 0; j < n; j++)
        assert_int_equal(truncate(files[j], 100), 0);
    assert_true(measured("", true, NULL) > 0);
    for (uint32_t j = 0; j < n; j++)
        assert_int_equal(truncate(files[j], 0), 0);
    assert_true(measured("", true, NULL) > 0);
    assert_int_equal(measured("", false, NULL), 0);
}

/* A file where the directory ought to be. */
static void test_unwritable(void **state)
{
    (void)state;
    char settings[400];
    const char *file = tmpdir_text(&cache, "file", "no directory");
    snprintf(settings, sizeof settings, "core.cache_dir=%s/cache", file);
    assert_true(measured(settings, true, NULL) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEPS(test_same_model), KEEPS(test_kept),    KEEPS(test_other_graphs),
        KEEPS(test_busy),       KEEPS(test_damaged), KEEPS(test_unwritable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
