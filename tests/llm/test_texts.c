/*
 * The same text on all devices: nano's greedy text is that of the reference on
 * every pair of plugins of which one drives GPUs, with the output features of
 * every node divided over the two.
 */
#include "cuts.h"
#include "files/safetensors_convert.h"
#include "rig.h"

#include "../core/drivers.h"

#include "../../core/plan/plan.h"

#include <stdio.h>

#define N_DEVICES 5
#define N_TEXT 24 /* tokens behind the prompt */
#define MODEL "models/nano-f16.gguf"

/* Predictions do not choose the graphs here: a run of n tokens has n rows, as
 * the simulated chip takes. Linked with --wrap. */
clv_plan_summary __real_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = __real_clv_plan_summarise(plan);
    summary.predicted_ns = 0;
    return summary;
}

static struct {
    rig_world rig;
    clv_model *model;
    clv_device *devices[N_DEVICES]; /* the last two drive GPUs */
    int32_t *prompt, *text;         /* [n_prompt], [n_text]: begins as prompt */
    uint32_t n_prompt, n_text;
} world;

static int32_t *read_ids(const llm_safetensors *golden, const char *name,
                         uint32_t *n)
{
    const llm_safetensors_tensor *t = llm_safetensors_find(golden, name);
    assert_non_null(t);
    int32_t *ids = malloc(t->count * sizeof *ids);
    assert_non_null(ids);
    assert_ok(llm_safetensors_to_i32(t, ids));
    *n = (uint32_t)t->count;
    return ids;
}

static int setup(void **state)
{
    char ids[N_DEVICES][TEST_DEVICE_ID] = {"cpu", "ref:0", "npu_sim:hexagon"};
    char settings[512];
    llm_safetensors *golden;
    (void)state;
    test_find_driver("opencl", ids[3]);
    test_find_driver("vulkan", ids[4]);
    snprintf(
        settings, sizeof settings,
        "core.plugins=cpu,ref,npu_sim,opencl,vulkan ref.devices=1 "
        "ref.states0=weights vulkan.kv=weights npu_sim:hexagon.lengths=1,10 "
        "npu_sim.clock=real "
        "core.devices=cpu,ref:0,npu_sim:hexagon,%s,%s",
        ids[3], ids[4]);
    rig_open(&world.rig, "soc/snapdragon-8gen3.ini", settings);
    for (uint32_t i = 0; i < N_DEVICES; i++)
        assert_ok(
            clv_context_find_device(world.rig.ctx, ids[i], &world.devices[i]));
    assert_ok(
        clv_model_load(world.rig.ctx, rig_shared(MODEL), NULL, &world.model));
    assert_ok(llm_safetensors_open(rig_shared("models/nano/golden.safetensors"),
                                   &golden));
    world.prompt = read_ids(golden, "ids1", &world.n_prompt);
    world.text = read_ids(golden, "greedy1", &world.n_text);
    llm_safetensors_close(golden);
    assert_true(world.n_text >= world.n_prompt + N_TEXT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(world.prompt);
    free(world.text);
    clv_model_destroy(world.model);
    rig_close(&world.rig);
    return 0;
}

/* A plan of a run of n tokens that cuts nodes over the devices. */
static char *make_plan(clv_session *s, clv_device *const *devices, uint32_t n)
{
    const clv_plan *plan;
    cuts c = {.devices = devices, .n_devices = 2, .kind = CUTS_ROWS};
    memset(c.takes, true, sizeof c.takes);
    assert_ok(clv_session_prepare(s, n, &plan));
    c.graph = plan->source;
    char *json = cuts_make(&c);
    assert_true(c.n_cut > 7 * 7); /* in all layers, or all but the last */
    cuts_finish(&c);
    return json;
}

static void compare_text(clv_session *s, const char *who)
{
    const uint32_t n_vocab = clv_model_describe(world.model)->n_vocab;
    const float *logits;
    assert_ok(clv_session_eval(s, world.prompt, world.n_prompt, CLV_LOGITS_LAST,
                               &logits));
    for (uint32_t i = 0;; i++) {
        const int32_t want = world.text[world.n_prompt + i];
        const int32_t best = rig_best(logits, n_vocab);
        assert_int_equal(clv_session_plan(s)->n_devices, 2);
        if (best != want)
            fail_msg("%s: token %u is %d, not %d", who, i, best, want);
        if (i + 1 == N_TEXT)
            break;
        assert_ok(clv_session_eval(s, &best, 1, CLV_LOGITS_LAST, &logits));
    }
}

static void try_pair(clv_session *graphs, uint32_t a, uint32_t b)
{
    clv_device *devices[] = {world.devices[a], world.devices[b]};
    char *plans[] = {make_plan(graphs, devices, world.n_prompt),
                     make_plan(graphs, devices, 1)};
    const clv_session_params params = {.n_ctx = 64,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = devices,
                                       .n_devices = 2,
                                       .plans = (const char *const *)plans,
                                       .n_plans = 2};
    clv_session *s;
    char who[2 * TEST_DEVICE_ID + 2];
    snprintf(who, sizeof who, "%s,%s", clv_device_id(devices[0]),
             clv_device_id(devices[1]));
    assert_ok(clv_session_create(world.model, &params, &s));
    compare_text(s, who);
    assert_non_null(clv_session_plan(s)->cut.graph);
    clv_session_destroy(s);
    free(plans[0]);
    free(plans[1]);
}

static void test_pairs(void **state)
{
    (void)state;
    clv_session *graphs = rig_session(world.model, 64, 0, CLV_DTYPE_F32);
    for (uint32_t gpu = N_DEVICES - 2; gpu < N_DEVICES; gpu++)
        for (uint32_t other = 0; other < gpu; other++)
            try_pair(graphs, other, gpu);
    clv_session_destroy(graphs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
    if (!rig_has_shared(MODEL))
        return RIG_SKIPPED;
    return cmocka_run_group_tests(tests, setup, teardown);
}
