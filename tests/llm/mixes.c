#include "mixes.h"

#include "../../core/device/caps.h"
#include "../../core/graph/graph.h"
#include "../../core/plan/plan.h"

#include <stdio.h>

uint32_t mix_pick(test_random *r, const uint32_t *list, uint32_t n)
{
    return list[test_below(r, n)];
}

/* ------------------------------------------------------------------------ */
/* Settings                                                                  */

static void say(mix *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(mix *m, const char *format, ...)
{
    const size_t n = strlen(m->text);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(m->text + n, sizeof m->text - n, format, args);
    va_end(args);
    assert_true(more >= 0 && (size_t)more < sizeof m->text - n);
}

static const char *on_off(test_random *r)
{
    return test_below(r, 2) ? "on" : "off";
}

static void say_sim(mix *m, char name)
{
    test_random *r = &m->random;
    /* Rounding may turn what a router chooses. */
    const bool exact = m->tiny.n_experts != 0;
    const bool array = !exact && name != 'a' && test_below(r, 3) == 0;
    const uint32_t memory = MIX_PICK(r, 0, 0, 512);
    char key[16];
    snprintf(key, sizeof key, "npu_sim:%c", name);
    say(m, "%s.flag_wait=%s %s.queue_depth=%u %s.bandwidth=%u ", key, on_off(r),
        key, MIX_PICK(r, 1, 2, 3, 256), key,
        m->is_virtual ? MIX_PICK(r, 1, 10, 40) : 100);
    say(m, "%s.memory=%u %s.copy_queues=%u ", key, memory, key,
        memory ? test_below(r, 3) : 0);
    say(m, "%s.submit_us=%u %s.dispatch_us=%u %s.launch_us=%u ", key,
        test_below(r, 3), key, MIX_PICK(r, 0, 0, 20, 100), key,
        test_below(r, 3));
    if (array)
        say(m,
            "%s.model=systolic %s.ops=%s %s.fp16=1 %s.int8=0 "
            "%s.static=%s %s.lengths=1,2,3,4,6,8,16 ",
            key, key, test_below(r, 2) ? "all" : "matmul", key, key, key,
            on_off(r), key);
    else
        say(m, "%s.model=roofline %s.kind=gpu %s.precision=%s %s.ops=%s ", key,
            key, key, exact || test_below(r, 3) ? "f32" : "f16", key,
            name == 'a' || test_below(r, 2) ? "all" : "matmul");
}

/* Simulated devices are named a, b, ...; the first one takes everything. */
static void say_sims(mix *m, uint32_t n)
{
    say(m, "npu_sim.clock=%s npu_sim.memory_bandwidth=%u ",
        m->is_virtual ? "virtual" : "real", MIX_PICK(&m->random, 0, 50));
    for (uint32_t i = 0; i < n; i++)
        say_sim(m, (char)('a' + i));
}

static void say_ref(mix *m)
{
    static const char *const memories[] = {"coherent", "local,coherent",
                                           "local,shadow",
                                           "coherent,shadow,local,shared"};
    static const char *const ops[] = {"all", "all", "matmul,glu,add",
                                      "attention,set_rows,rope,rms_norm"};
    test_random *r = &m->random;
    for (int i = 0; i < 2; i++) {
        const uint32_t memory = test_below(r, 4);
        say(m, "ref.memory%d=%s ref.import%d=%s ", i, memories[memory], i,
            memory == 2 ? "off" : "on");
        say(m, "ref.ops%d=%s ref.flag_wait%d=%s ", i, ops[test_below(r, 4)], i,
            on_off(r));
        say(m, "ref.queue_depth%d=%u ref.delay_us%d=%u ", i,
            MIX_PICK(r, 1, 2, 64), i, MIX_PICK(r, 0, 0, 200));
    }
}

/* Two devices of which the cache knows the costs after the first case. */
static void say_known(mix *m)
{
    static const char *const plans[] = {"layer", "tensor"};
    test_random *r = &m->random;
    say(m, "core.plan=%s core.profile=auto npu_sim.memory_bandwidth=50 ",
        plans[test_below(r, 2)]);
    for (int i = 0; i < 2; i++)
        say(m,
            "npu_sim:%c.model=roofline npu_sim:%c.kind=gpu "
            "npu_sim:%c.bandwidth=%d npu_sim:%c.submit_us=1 "
            "npu_sim:%c.launch_us=1 npu_sim:%c.flag_wait=%s ",
            'a' + i, 'a' + i, 'a' + i, 20 + 10 * i, 'a' + i, 'a' + i, 'a' + i,
            i ? "on" : "off");
}

static void say_simulated(mix *m)
{
    if (m->is_known)
        say_known(m);
    else
        say_sims(m, 2 + test_below(&m->random, MIXES_SIMS - 1));
    say(m, "core.plugins=npu_sim,cpu core.devices=npu_sim,cpu");
}

static void say_real(mix *m)
{
    test_random *r = &m->random;
    const uint32_t n_sims = test_below(r, 3);
    const char *opencl = m->options.opencl;
    const bool gpu = opencl && test_below(r, 4);
    if (n_sims)
        say_sims(m, n_sims);
    say_ref(m);
    say(m, "core.plugins=ref,cpu%s%s core.devices=ref,cpu%s%s%s",
        n_sims ? ",npu_sim" : "", gpu ? ",opencl" : "",
        n_sims ? ",npu_sim" : "", gpu ? "," : "", gpu ? opencl : "");
}

/* A device in the host's memory, and one or two with memory of their own. */
static void say_cards(mix *m)
{
    static const char *const plans[] = {"layer", "tensor", "tensor"};
    static const char *const objectives[] = {"0", "0", "40:2", "4:64"};
    test_random *r = &m->random;
    const uint32_t n_cards = 1 + test_below(r, 2);
    say(m,
        "npu_sim.memory_bandwidth=%u core.plan=%s core.profile=auto "
        "core.objective=%s core.plugins=npu_sim,cpu core.devices=npu_sim,cpu "
        "npu_sim:a.model=roofline npu_sim:a.kind=cpu npu_sim:a.precision=f32 "
        "npu_sim:a.bandwidth=%u npu_sim:a.f32_tflops=0.02 ",
        MIX_PICK(r, 0, 50), plans[test_below(r, 3)],
        objectives[test_below(r, 4)], MIX_PICK(r, 1, 4, 20));
    for (uint32_t i = 1; i <= n_cards; i++) {
        char key[16];
        snprintf(key, sizeof key, "npu_sim:%c", 'a' + i);
        say(m,
            "%s.model=roofline %s.kind=gpu %s.precision=f32 %s.bandwidth=%u "
            "%s.f32_tflops=1 %s.memory=%u %s.link=%u %s.copy_queues=%u "
            "%s.launch_us=1 %s.submit_us=1 ",
            key, key, key, key, MIX_PICK(r, 20, 100), key, key,
            1 + test_below(r, 5), key, MIX_PICK(r, 1, 5, 40), key,
            test_below(r, 3), key, key);
    }
}

/* The processor, a simulated card that works in real time, and drivers. */
static void say_drivers(mix *m)
{
    test_random *r = &m->random;
    m->is_measured = test_below(r, 3) == 0;
    const bool opencl = m->options.opencl && test_below(r, 4);
    const bool vulkan = m->options.vulkan && test_below(r, 4);
    say(m,
        "core.plan=%s core.profile=auto npu_sim.clock=real "
        "npu_sim:b.model=roofline npu_sim:b.kind=gpu npu_sim:b.precision=f32 "
        "npu_sim:b.memory=%u npu_sim:b.copy_queues=%u "
        "core.plugins=cpu,npu_sim%s%s "
        "core.devices=cpu,npu_sim",
        m->is_measured ? "tensor" : "first", 1 + test_below(r, 8),
        test_below(r, 3), opencl ? ",opencl" : "", vulkan ? ",vulkan" : "");
    if (opencl)
        say(m, ",%s", m->options.opencl);
    if (vulkan)
        say(m, ",%s", m->options.vulkan);
    if (opencl)
        say(m,
            " opencl.memory=separate opencl.max_memory=%u "
            "opencl.copy_queues=%u",
            MIX_PICK(r, 2, 4, 8, 64), test_below(r, 2));
    if (vulkan)
        say(m, " vulkan.memory=separate vulkan.max_memory=%u",
            MIX_PICK(r, 2, 4, 8, 64));
}

static void say_all(mix *m)
{
    test_random *r = &m->random;
    say(m,
        "core.cache_dir=%s cpu.threads=%u cpu.poll=0 core.dispatch=%s "
        "core.sync=%s ",
        m->options.cache, 1 + test_below(r, 2),
        test_below(r, 3) ? "unlock" : "age",
        test_below(r, 3) ? "fast" : "block");
    if (m->options.scarce && m->is_virtual)
        say_cards(m);
    else if (m->options.scarce)
        say_drivers(m);
    else if (m->is_virtual)
        say_simulated(m);
    else
        say_real(m);
}

/* ------------------------------------------------------------------------ */
/* Model                                                                     */

/* Weights of some MiB. */
static void make_larger(tiny_params *p)
{
    p->n_embd = 128;
    p->n_ff = 512;
    p->n_vocab = 1024;
}

static void choose_model(mix *m)
{
    test_random *r = &m->random;
    tiny_params *p = &m->tiny;
    *p = tiny_defaults();
    p->seed = 1 + test_below(r, 1000);
    p->n_layers = 1 + test_below(r, 4);
    if (m->options.scarce)
        make_larger(p);
    if (m->is_known)
        return;
    p->n_kv_heads = MIX_PICK(r, 1, 2, 4);
    p->tied = test_below(r, 2);
    p->biases = test_below(r, 2);
    p->dtype = MIX_PICK(r, CLV_DTYPE_F32, CLV_DTYPE_F32, CLV_DTYPE_F16,
                        CLV_DTYPE_Q8_0);
    p->window = MIX_PICK(r, 0, 0, 7);
    if (test_below(r, 3) == 0) {
        p->dtype = CLV_DTYPE_F32;
        p->n_experts = 4;
        p->n_ff = m->options.scarce ? p->n_ff / 4 : p->n_ff;
        p->n_experts_used = 1 + test_below(r, 3);
    }
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                   */

/* Those of plugin.h; for CLV_ERROR_UNSTATED a bound far above errors here. */
static double bound_of(uint32_t error_class)
{
    static const double bounds[] = {1e-6, 0, 1e-10, 1e-6, 1e-4, 1e-2};
    assert_true(error_class < sizeof bounds / sizeof *bounds);
    return bounds[error_class];
}

/* Whether the device takes all nodes. */
static bool look_at(mix *m, const clv_graph *g, clv_device *dev)
{
    const clv_subgraph view = core_graph_view(g);
    clv_op_caps *caps = calloc(g->n_nodes, sizeof *caps);
    bool able = true;
    assert_non_null(caps);
    assert_ok(core_device_caps(dev, &view, caps));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        double *error = &m->errors.ops[g->nodes[i].op];
        able &= caps[i].answer != CLV_ANSWER_NO;
        if (caps[i].answer != CLV_ANSWER_NO)
            *error = fmax(*error, bound_of(caps[i].error_class));
    }
    free(caps);
    return able;
}

static void sort_devices(mix *m)
{
    const clv_plan *plan;
    clv_device *others[MIXES_DEVICES];
    const uint32_t n = clv_context_device_count(m->rig.ctx);
    uint32_t n_others = 0;
    assert_ok(clv_context_find_device(m->rig.ctx, "cpu", &m->alone));
    const clv_session_params params = {
        .n_ctx = 32, .devices = &m->alone, .n_devices = 1};
    clv_session *s;
    assert_ok(clv_session_create(m->model, &params, &s));
    assert_ok(clv_session_prepare(s, 4, &plan));
    for (uint32_t i = 0; i < n; i++) {
        clv_device *dev = clv_context_device(m->rig.ctx, i);
        if (m->is_virtual && dev == m->alone)
            continue;
        assert_true(m->n_devices + n_others < MIXES_DEVICES);
        if (look_at(m, plan->source, dev))
            m->devices[m->n_devices++] = dev;
        else
            others[n_others++] = dev;
    }
    m->n_able = m->n_devices;
    for (uint32_t i = 0; i < n_others; i++)
        m->devices[m->n_devices++] = others[i];
    clv_session_destroy(s);
    assert_true(m->n_able > 0);
}

void mix_open(mix *m, uint64_t seed, const mix_options *options)
{
    const bool drivers = options->opencl || options->vulkan;
    *m = (mix){.random = {seed * 0x9e3779b97f4a7c15u + 1}, .options = *options};
    m->is_virtual = !drivers && test_below(&m->random, 2);
    m->is_known =
        m->is_virtual && !options->scarce && test_below(&m->random, 3) == 0;
    choose_model(m);
    say(m, "model: %u layers, %u of %u experts, %s; ", m->tiny.n_layers,
        m->tiny.n_experts_used, m->tiny.n_experts,
        clv_dtype_name(m->tiny.dtype));
    const size_t settings = strlen(m->text);
    say_all(m);
    rig_open(&m->rig, NULL, m->text + settings);
    m->model = rig_model(m->rig.ctx, &m->tiny, &m->source);
    sort_devices(m);
}

void mix_close(mix *m)
{
    clv_model_destroy(m->model);
    rig_close(&m->rig);
}
