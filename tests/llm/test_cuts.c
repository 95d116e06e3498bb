/*
 * A cut never changes the answer: nano's logits and greedy text, on every pair
 * and triple of plugins and for every kind of cut, in every layer, are those of
 * the CPU alone, within the error that the devices declare. The session gets
 * plans as JSON. With the argument "all", each of those has every kind of cut,
 * else those of the CPU and one more. With the argument "gpu", on OpenCL and
 * Vulkan and each of the others.
 *
 * CLEAVE_TEST_CUTS=SECONDS continues with random plans for that long, for f16
 * and q8_0 weights, from a seed that is printed (or CLEAVE_TEST_SEED).
 */
#include "cuts.h"
#include "../../core/device/caps.h"
#include "rig.h"
#include "temp.h"

#include "../core/drivers.h"

#include "../../core/device/device.h"
#include "../../core/graph/tensor.h"
#include "../../core/plan/plan.h"

#include <stdio.h>
#include <time.h>

#define N_TOKENS CUTS_ROWS_OF_RUN
#define N_TEXT 2
#define N_CHUNKS 4 /* of N_TOKENS each */
#define N_DEVICES 5
#define N_LAYERS 8 /* at most */

/* The plugins. The simulated NPU has the lengths of the pieces of a short text.
 * Of two plugins that drive the CPU both are used if they are named. */
static const char *names[N_DEVICES] = {"cpu", "ref:0", "npu_sim:adreno",
                                       "npu_sim:hexagon", "example"};
#define QUICK                                                                  \
    "npu_sim:hexagon.lengths=1,2,3,4,5 npu_sim:hexagon.compile_base_us=0 "     \
    "npu_sim:hexagon.compile_element_ns=0 npu_sim:hexagon.compile_repeat_us=0"
static char settings[512] =
    "core.plugins=cpu,ref,npu_sim,example ref.devices=1 "
    "ref.states0=weights npu_sim.clock=real " QUICK;
static bool all;          /* the argument, or GPUs */
static uint32_t gpus = 0; /* bits of devices; 0: the test is about the others */

/* There are no predictions here, so a run of n tokens has n rows. Linked with
 * --wrap. */
clv_plan_summary __real_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan);
clv_plan_summary __wrap_clv_plan_summarise(const clv_plan *plan)
{
    clv_plan_summary summary = __real_clv_plan_summarise(plan);
    summary.predicted_ns = 0;
    return summary;
}

typedef struct world {
    rig_world rig;
    clv_model *model;
    clv_session *graphs; /* has the plans whose graphs are cut */
    const clv_graph *prefill, *decode;
    clv_device *devices[N_DEVICES];
    bool takes[N_DEVICES][CLV_OP_COUNT]; /* as far as is known */
    double errors[N_DEVICES]; /* stated for the graph's nodes, the largest */
    uint32_t n_vocab;
    int32_t ids[N_TOKENS + N_TEXT];
    float *expected; /* [1 + N_TEXT + 1, n_vocab]; last: after N_CHUNKS */
    int32_t chunks[N_CHUNKS * N_TOKENS];
} world;

/* ------------------------------------------------------------------------ */

/* Those of plugin.h, and for CLV_ERROR_UNSTATED a bound far above the errors
 * here. */
static double bound_of(uint32_t error_class)
{
    static const double bounds[] = {1e-6, 0, 1e-10, 1e-6, 1e-4, 1e-2};
    assert_true(error_class < sizeof bounds / sizeof *bounds);
    return bounds[error_class];
}

static void find_errors(world *w, uint32_t device)
{
    const clv_graph *g = w->prefill;
    clv_subgraph view = core_graph_view(g);
    clv_op_caps *caps = calloc(g->n_nodes, sizeof *caps);
    assert_non_null(caps);
    assert_ok(core_device_caps(w->devices[device], &view, caps));
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (caps[i].answer != CLV_ANSWER_NO &&
            bound_of(caps[i].error_class) > w->errors[device])
            w->errors[device] = bound_of(caps[i].error_class);
    free(caps);
}

static void find_expected(world *w)
{
    const clv_session_params params = {.n_ctx = 32,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = &w->devices[0],
                                       .n_devices = 1};
    clv_session *s;
    const float *logits;
    w->expected = malloc(sizeof *w->expected * (2 + N_TEXT) * w->n_vocab);
    assert_non_null(w->expected);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        w->ids[i] = (int32_t)((i * 7919 + 13) % w->n_vocab);
    assert_ok(clv_session_create(w->model, &params, &s));
    for (uint32_t i = 0; i <= N_TEXT; i++) {
        float *row = w->expected + (size_t)i * w->n_vocab;
        assert_ok(clv_session_eval(s, i ? &w->ids[N_TOKENS + i - 1] : w->ids,
                                   i ? 1 : N_TOKENS, CLV_LOGITS_LAST, &logits));
        memcpy(row, logits, sizeof *row * w->n_vocab);
        if (i < N_TEXT)
            w->ids[N_TOKENS + i] = rig_best(row, w->n_vocab);
    }
    for (uint32_t i = 0; i < N_CHUNKS * N_TOKENS; i++)
        w->chunks[i] = (int32_t)((i * 104729 + 17) % w->n_vocab);
    assert_ok(clv_session_truncate(s, 0));
    assert_ok(clv_session_eval(s, w->chunks, N_CHUNKS * N_TOKENS,
                               CLV_LOGITS_LAST, &logits));
    memcpy(w->expected + (size_t)(1 + N_TEXT) * w->n_vocab, logits,
           sizeof *logits * w->n_vocab);
    clv_session_destroy(s);
}

static void open_world(world *w, const char *path)
{
    const clv_plan *prefill, *decode;
    *w = (world){0};
    rig_open(&w->rig, "soc/snapdragon-8gen3.ini", settings);
    for (uint32_t i = 0; i < N_DEVICES; i++) {
        assert_ok(
            clv_context_find_device(w->rig.ctx, names[i], &w->devices[i]));
        for (uint32_t op = 0; op < CLV_OP_COUNT; op++)
            w->takes[i][op] = true;
    }
    assert_ok(clv_model_load(w->rig.ctx, path, NULL, &w->model));
    w->n_vocab = clv_model_describe(w->model)->n_vocab;
    w->graphs = rig_session(w->model, 32, 16, CLV_DTYPE_F32);
    assert_ok(clv_session_prepare(w->graphs, N_TOKENS, &prefill));
    assert_ok(clv_session_prepare(w->graphs, 1, &decode));
    w->prefill = prefill->source;
    w->decode = decode->source;
    for (uint32_t i = 0; i < N_DEVICES; i++)
        find_errors(w, i);
    find_expected(w);
}

static void close_world(world *w)
{
    free(w->expected);
    clv_session_destroy(w->graphs);
    clv_model_destroy(w->model);
    rig_close(&w->rig);
}

/* ------------------------------------------------------------------------ */

/* A set of devices and a kind of cut. */
typedef struct trial {
    world *w;
    uint32_t set; /* bit i: device i */
    clv_device *devices[CUTS_DEVICES];
    uint32_t index[CUTS_DEVICES], n; /* of each in the world */
    uint32_t kind;
    test_random *random;
    uint32_t n_cut[2]; /* nodes of prefill and decode */
    double error;      /* the largest that was seen */
} trial;

static void choose(trial *t, uint32_t set)
{
    t->set = set;
    t->n = 0;
    for (uint32_t i = 0; i < N_DEVICES; i++)
        if (set >> i & 1) {
            t->index[t->n] = i;
            t->devices[t->n++] = t->w->devices[i];
        }
}

static const char *describe(const trial *t)
{
    static char text[256];
    int n = snprintf(text, sizeof text, "%s over", cuts_name(t->kind));
    for (uint32_t i = 0; i < t->n; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %s",
                      clv_device_id(t->devices[i]));
    return text;
}

static char *make(trial *t, const clv_graph *graph, uint32_t *n_cut)
{
    cuts c = {.graph = graph,
              .devices = t->devices,
              .n_devices = t->n,
              .kind = t->kind,
              .random = t->random};
    for (uint32_t i = 0; i < t->n; i++)
        memcpy(c.takes[i], t->w->takes[t->index[i]], sizeof c.takes[i]);
    char *json = cuts_make(&c);
    *n_cut = c.n_cut;
    cuts_finish(&c);
    return json;
}

/* The bound for the least precise device, or for the CPU, which is the
 * reference, if each layer adds as much as is declared for a node. */
static double bound(const trial *t)
{
    double most = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->w->errors[t->index[i]] > most)
            most = t->w->errors[t->index[i]];
    return N_LAYERS * (t->w->errors[0] > most ? t->w->errors[0] : most);
}

static void compare(trial *t, uint32_t row, const float *logits)
{
    const world *w = t->w;
    const float *want = w->expected + (size_t)row * w->n_vocab;
    double error = rig_error(logits, want, w->n_vocab);
    if (error > t->error)
        t->error = error;
    if (!(error <= bound(t)))
        fail_msg("%s: row %u differs by %g, %g is stated", describe(t), row,
                 error, bound(t));
    rig_assert_choice(logits, want, w->n_vocab, bound(t));
}

/* Chunks of a longer prompt by the same plan, some of them in flight. */
static void run_chunks(trial *t, char *const plans[2])
{
    const world *w = t->w;
    const clv_session_params params = {.n_ctx = 32,
                                       .n_batch = N_TOKENS,
                                       .n_flight = 2 + test_below(t->random, 3),
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = t->devices,
                                       .n_devices = t->n,
                                       .plans = (const char *const *)plans,
                                       .n_plans = 1};
    clv_session *s;
    const float *logits;
    assert_ok(clv_session_create(w->model, &params, &s));
    for (int again = 0; again < 2; again++) { /* the first run is alone */
        assert_ok(clv_session_truncate(s, 0));
        assert_ok(clv_session_eval(s, w->chunks, N_CHUNKS * N_TOKENS,
                                   CLV_LOGITS_LAST, &logits));
        compare(t, 1 + N_TEXT, logits);
    }
    char *json;
    assert_ok(clv_plan_json(clv_session_plan(s), &json));
    assert_true(clv_plan_fits(w->prefill, json, strlen(json)));
    clv_string_free(json);
    clv_session_destroy(s);
}

/* Runs prompt and text; returns the status if a device does not take a node. */
static clv_status run(trial *t, char *const plans[2])
{
    const world *w = t->w;
    const clv_session_params params = {.n_ctx = 32,
                                       .n_batch = 16,
                                       .kv_dtype = CLV_DTYPE_F32,
                                       .devices = t->devices,
                                       .n_devices = t->n,
                                       .plans = (const char *const *)plans,
                                       .n_plans = 2};
    clv_session *s;
    const float *logits;
    clv_status status = clv_session_create(w->model, &params, &s);
    for (uint32_t i = 0; i <= N_TEXT && !status; i++) {
        status = clv_session_eval(s, i ? &w->ids[N_TOKENS + i - 1] : w->ids,
                                  i ? 1 : N_TOKENS, CLV_LOGITS_LAST, &logits);
        if (status)
            break;
        compare(t, i, logits);
        if (t->kind == CUTS_RANDOM)
            continue;
        const clv_plan *plan = clv_session_plan(s);
        assert_true((plan->n_pieces > plan->source->n_nodes) ==
                    (t->n_cut[i > 0] > 0));
        for (uint32_t d = 0; d < plan->n_devices; d++)
            assert_true(plan->devices[d].n_steps > 0);
    }
    clv_session_destroy(s);
    if (!status && t->kind == CUTS_RANDOM)
        run_chunks(t, plans);
    return status;
}

/* From "device 'example' does not take its piece of node 1 (rms_norm ...". */
static bool learn(world *w)
{
    char device[64], op[32];
    const char *text = strstr(clv_last_error(), "device '");
    const char *open = text ? strstr(text, " (") : NULL;
    if (!open || !strstr(text, "does not take its piece") ||
        sscanf(text, "device '%63[^']'", device) != 1 ||
        sscanf(open, " (%31[a-z_]", op) != 1)
        return false;
    for (uint32_t i = 0; i < N_DEVICES; i++)
        for (uint32_t o = 0; o < CLV_OP_COUNT; o++)
            if (!strcmp(device, names[i]) && !strcmp(op, core_op_name(o)) &&
                w->takes[i][o]) {
                w->takes[i][o] = false;
                return true;
            }
    return false;
}

/* Tries until no device is given what it does not take. */
static void attempt(trial *t)
{
    for (;;) {
        char *plans[2] = {make(t, t->w->prefill, &t->n_cut[0]),
                          make(t, t->w->decode, &t->n_cut[1])};
        clv_status status = run(t, plans);
        free(plans[0]);
        free(plans[1]);
        if (!status)
            return;
        if (status != CLV_ERR_UNSUPPORTED || !learn(t->w))
            fail_msg("%s: %s", describe(t), clv_last_error());
    }
}

/* ------------------------------------------------------------------------ */

static world nano;

static int setup(void **state)
{
    (void)state;
    open_world(&nano, rig_shared("models/nano-f16.gguf"));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_world(&nano);
    return 0;
}

static uint32_t count_bits(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

/* Nodes of a layer that a kind of cut divides if all devices take them, in
 * prefill and decode. */
static const uint32_t per_layer[CUTS_EXPERTS][2] = {
    [CUTS_ROWS] = {7, 7},  [CUTS_SEQUENCE] = {7, 0}, [CUTS_CHANNELS] = {7, 7},
    [CUTS_HEADS] = {3, 3}, [CUTS_HYBRID] = {7, 0},   [CUTS_LENGTHS] = {7, 0},
    [CUTS_PAIRS] = {3, 3},
};

/* All pairs and triples. With GPUs: the two, each of them with each of the
 * others, and the two with the CPU. */
static bool is_tried(uint32_t set)
{
    if (!gpus)
        return count_bits(set) == 2 || count_bits(set) == 3;
    return (count_bits(set) == 2 && set & gpus) || set == (gpus | 1);
}

/* Every kind with the CPU; and those of other sets by turns, so that triples
 * have every kind among them. */
static bool has_kind(uint32_t set, uint32_t turn, uint32_t kind)
{
    return all || (count_bits(set) == 2 && set & 1) ||
           turn % CUTS_EXPERTS == kind;
}

static bool has_example(uint32_t set)
{
    return !gpus && set >> 4 & 1;
}

/* The last layer has one token after its attention. */
static void check_cut(const trial *t)
{
    assert_true(t->n_cut[0] >= per_layer[t->kind][0] * (N_LAYERS - 1));
    assert_true(t->n_cut[1] >= per_layer[t->kind][1] * N_LAYERS);
}

static void test_sets(void **state)
{
    (void)state;
    uint32_t tried[CUTS_EXPERTS] = {0}, ran[CUTS_EXPERTS] = {0};
    uint32_t n_sets = 0, n_ran = 0, n_skipped = 0;
    double worst = 0;
    for (uint32_t set = 0; set < 1u << N_DEVICES; set++) {
        if (!is_tried(set))
            continue;
        const uint32_t turn = n_sets++;
        for (uint32_t kind = 0; kind < CUTS_EXPERTS; kind++) {
            trial t = {.w = &nano, .kind = kind};
            if (!has_kind(set, turn, kind))
                continue;
            tried[kind]++;
            choose(&t, set);
            attempt(&t);
            worst = t.error > worst ? t.error : worst;
            if (!t.n_cut[0]) {
                printf("not cut: %s\n", describe(&t));
                assert_true(kind == CUTS_HEADS && count_bits(set) == 2 &&
                            has_example(set));
                n_skipped++;
                continue;
            }
            check_cut(&t);
            ran[kind]++;
            n_ran++;
        }
    }
    printf("%u plans, error at most %.2g; %u not cut\n", n_ran, worst,
           n_skipped);
    assert_int_equal(n_sets, gpus ? 8 : 20);
    assert_int_equal(n_skipped, gpus ? 0 : all ? 4 : 1);
    for (uint32_t kind = 0; kind < CUTS_EXPERTS; kind++) {
        assert_true(tried[kind] >= (all ? n_sets : 4 + 1));
        assert_int_equal(ran[kind],
                         tried[kind] - (kind == CUTS_HEADS ? n_skipped : 0));
    }
    /* Only the example has ops that it does not take. */
    for (uint32_t i = 0; i < N_DEVICES; i++)
        for (uint32_t op = 0; op < CLV_OP_COUNT; op++)
            assert_true(nano.takes[i][op] ||
                        (has_example(1u << i) && op != CLV_OP_MATMUL));
}

/* On devices but these. */
static void try_random(world *w, test_random *r, uint32_t without)
{
    trial t = {.w = w, .kind = CUTS_RANDOM, .random = r};
    uint32_t set;
    do {
        set = test_below(r, 1u << N_DEVICES);
    } while (set & without || count_bits(set) < 2 ||
             count_bits(set) > CUTS_DEVICES);
    choose(&t, set);
    attempt(&t);
}

static void test_random_plans(void **state)
{
    (void)state;
    test_random r = {7};
    for (int i = 0; i < (all ? 6 : 3); i++)
        try_random(&nano, &r, 0);
}

/* The arrays do not take products of experts, and the example takes few ops. */
static uint32_t without_experts(void)
{
    return gpus ? 1u << 2 : 1u << 3 | 1u << 4;
}

static bool is_popular(const world *w)
{
    const llm_linear *up = &w->model->weights.layers[0][LLM_FFN_UP];
    return up->weight->tensor->popularity != NULL;
}

/* A model whose experts are in order of popularity, as earlier ones counted
 * it. That changes the order of few sums. */
static void open_popular(world *w, temp *cache)
{
    char before[sizeof settings];
    memcpy(before, settings, sizeof before);
    const size_t used = strlen(settings);
    snprintf(settings + used, sizeof settings - used, " core.cache_dir=%s",
             cache->dir);
    for (int i = 0; i < 64; i++) { /* few rows change no order */
        open_world(w, rig_shared("models/moe"));
        if (is_popular(w))
            break;
        close_world(w);
    }
    assert_true(is_popular(w));
    memcpy(settings, before, sizeof before);
}

/* A model of experts, of which each device has some, and random plans of it. */
static void test_experts(void **state)
{
    (void)state;
    test_random r = {11};
    temp cache;
    world moe;
    if (!rig_has_shared("models/moe"))
        skip();
    temp_init(&cache);
    open_popular(&moe, &cache);
    for (uint32_t set = 0; set < 1u << N_DEVICES; set++) {
        if (!is_tried(set) || set & without_experts())
            continue;
        trial t = {.w = &moe, .kind = CUTS_EXPERTS};
        choose(&t, set);
        attempt(&t);
        assert_true(t.n_cut[0] && t.n_cut[1] == t.n_cut[0]);
        t.kind = CUTS_RANDOM;
        t.random = &r;
        for (int i = 0; i < (all ? 2 : 1) && !gpus; i++) /* GPUs compile */
            attempt(&t);
    }
    close_world(&moe);
    temp_finish(&cache);
}

static void test_for_long(void **state)
{
    (void)state;
    const char *seconds = getenv("CLEAVE_TEST_CUTS");
    const char *seed = getenv("CLEAVE_TEST_SEED");
    if (!seconds)
        skip();
    world q8, moe;
    test_random r = {seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL)};
    const time_t end = time(NULL) + atoi(seconds);
    uint32_t n = 0;
    printf("CLEAVE_TEST_SEED=%llu\n", (unsigned long long)r.state);
    char path[4096];
    snprintf(path, sizeof path, "%s/models/nano-q8_0.gguf",
             getenv("CLEAVE_TEST_SOURCE"));
    open_world(&q8, path);
    open_world(&moe, rig_shared("models/moe"));
    for (; time(NULL) < end; n += 3) {
        try_random(&nano, &r, 0);
        try_random(&q8, &r, 0);
        try_random(&moe, &r, without_experts());
    }
    printf("%u random plans\n", n);
    close_world(&moe);
    close_world(&q8);
}

/* OpenCL and Vulkan beside a device with static shapes: because of that one,
 * graphs have as many rows as tokens. */
static void take_gpus(void)
{
    static char opencl[TEST_DEVICE_ID], vulkan[TEST_DEVICE_ID];
    test_find_driver("opencl", opencl);
    test_find_driver("vulkan", vulkan);
    names[2] = "npu_sim:hexagon";
    names[3] = opencl;
    names[4] = vulkan;
    gpus = 3u << 3;
    snprintf(settings, sizeof settings,
             "core.plugins=cpu,ref,npu_sim,opencl,vulkan ref.devices=1 "
             "ref.states0=weights opencl.kv=weights "
             "npu_sim.clock=real " QUICK
             " core.devices=cpu,ref:0,npu_sim:hexagon,%s,%s",
             opencl, vulkan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_random_plans),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_for_long),
    };
    if (!rig_has_shared("models/nano-f16.gguf"))
        return RIG_SKIPPED;
    all = argc > 1;
    if (all && !strcmp(argv[1], "gpu"))
        take_gpus();
    return cmocka_run_group_tests(tests, setup, teardown);
}
