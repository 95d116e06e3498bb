/* Sessions measure the devices for their runs. */
#include "rig.h"
#include "temp.h"

#include <cJSON.h>

typedef struct world {
    temp cache;
    rig_world rig;
    clv_model *model;
    clv_session *session;
} world;

static void open_world(world *w, const char *settings)
{
    char all[512];
    const tiny_params p = tiny_defaults();
    snprintf(all, sizeof all, "%s core.cache_dir=%s", settings, w->cache.dir);
    rig_open(&w->rig, "soc/snapdragon-8gen3.ini", all);
    w->model = rig_model(w->rig.ctx, &p, NULL);
    w->session = rig_session(w->model, 128, 64, 0);
}

static void close_world(world *w)
{
    clv_session_destroy(w->session);
    clv_model_destroy(w->model);
    rig_close(&w->rig);
}

static int setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    temp_init(&w->cache);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;
    temp_finish(&w->cache);
    free(w);
    return 0;
}

/* Samples of all devices of the context; each device has some, or none has. */
static uint32_t count_samples(const world *w)
{
    char *text;
    uint32_t sum = 0, n_devices = 0, n_empty = 0;
    assert_ok(clv_profile_print(w->rig.ctx, NULL, 0, "json", &text));
    cJSON *root = cJSON_Parse(text);
    const cJSON *device, *kind;
    cJSON_ArrayForEach (device, cJSON_GetObjectItem(root, "devices")) {
        uint32_t of_device = 0;
        cJSON_ArrayForEach (kind, cJSON_GetObjectItem(device, "kinds"))
            of_device +=
                (uint32_t)cJSON_GetObjectItem(kind, "samples")->valueint;
        n_devices++;
        n_empty += !of_device;
        sum += of_device;
    }
    cJSON_Delete(root);
    clv_string_free(text);
    assert_int_equal(n_devices, 2);
    assert_int_equal(n_empty, sum ? 0 : 2);
    return sum;
}

typedef struct watch {
    uint32_t calls, cancel_at;
    double last;
} watch;

static int on_progress(void *ctx, const char *what, double fraction)
{
    watch *seen = ctx;
    assert_non_null(what);
    assert_true(fraction >= seen->last && fraction <= 1 + 1e-9);
    seen->last = fraction;
    return ++seen->calls == seen->cancel_at;
}

static const char phone[] = "core.plugins=npu_sim core.devices=npu_sim "
                            "npu_sim.compute=off";

static void profile(world *w, uint32_t first, uint32_t second, watch *seen)
{
    const uint32_t lengths[] = {first, second};
    const clv_profile_params params = {.progress = on_progress,
                                       .progress_ctx = seen};
    assert_ok(clv_session_profile(w->session, lengths, 2, &params));
}

/* More lengths make more samples; earlier ones stay for other sessions. */
static void test_lengths(void **state)
{
    world *w = *state;
    watch first = {0}, more = {0}, again = {0};
    open_world(w, phone);
    assert_int_equal(count_samples(w), 0);
    profile(w, 1, 4, &first);
    const uint32_t few = count_samples(w);
    assert_true(few > 0 && first.calls > 2 && first.last > 0.9);
    profile(w, 4, 50, &more);
    const uint32_t all = count_samples(w);
    assert_true(all > few);
    close_world(w);
    open_world(w, phone);
    profile(w, 4, 50, &again);
    assert_int_equal(count_samples(w), all);
    assert_true(again.calls < more.calls);
    assert_ok(clv_session_profile(w->session, (const uint32_t[]){4}, 1, NULL));
    assert_int_equal(count_samples(w), all);
    close_world(w);
}

static void test_cancelled(void **state)
{
    world *w = *state;
    watch seen = {.cancel_at = 2};
    const uint32_t length = 4;
    const clv_profile_params params = {.progress = on_progress,
                                       .progress_ctx = &seen};
    open_world(w, phone);
    assert_int_equal(clv_session_profile(w->session, &length, 1, &params),
                     CLV_ERR_CANCELLED);
    assert_int_equal(seen.calls, 2);
    close_world(w);
}

static void test_refused(void **state)
{
    world *w = *state;
    const uint32_t lengths[] = {4, 65, 0};
    open_world(w, phone);
    assert_fails(clv_session_profile(w->session, lengths, 2, NULL),
                 CLV_ERR_INVALID, "runs of 65 tokens cannot be measured");
    assert_fails(clv_session_profile(w->session, lengths + 2, 1, NULL),
                 CLV_ERR_INVALID, "runs of 0 tokens");
    assert_fails(clv_session_profile(w->session, lengths, 0, NULL),
                 CLV_ERR_INVALID, "no lengths");
    assert_fails(clv_session_profile(NULL, lengths, 1, NULL), CLV_ERR_INVALID,
                 "no session");
    assert_int_equal(count_samples(w), 0);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lengths, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
