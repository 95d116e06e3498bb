/*
 * Profiles: what is measured, what is answered, and what is kept between runs.
 * Devices are measured by functions of this file, so that times are known and
 * measurements are counted.
 */
#include "layer.h"
#include "tmpdir.h"

#include "../../planner/profile/store.h"
#include "../../planner/profile/trial.h"
#include "../plugins/ref/context.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

static const test_shape usual = {.hidden = 256,
                                 .heads = 8,
                                 .groups = 4,
                                 .head_dim = 32,
                                 .ffn = 704,
                                 .vocabulary = 1000,
                                 .tokens = 128,
                                 .context = 256,
                                 .dtype = CLV_DTYPE_Q8_0};
static const test_shape *shape = &usual;

/* ------------------------------------------------------------------------ */
/* Devices that are measured without work                                   */

static struct {
    uint32_t workloads, overheads, copies, contentions;
    clv_status status; /* of works to come, */
    uint32_t after;    /* behind so many */
    uint32_t noisy;    /* each so-many-th is disturbed */
    bool busy;         /* other processes are at work, and works take a ms */
    uint32_t together; /* weights of products that were measured so last */
    uint64_t work_ns;  /* of the process's clock and the real one, for a work */
} fake;

/* What works have taken so far; other threads read the clocks, too. */
static atomic_uint_fast64_t spent_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* Time passes faster by what works have taken. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const uint64_t spent = atomic_load(&spent_ns);
    int failed = __real_clock_gettime(clock, now);
    now->tv_sec += (time_t)(spent / 1000000000u);
    now->tv_nsec += (long)(spent % 1000000000u);
    now->tv_sec += now->tv_nsec / 1000000000;
    now->tv_nsec %= 1000000000;
    return failed;
}

/* The second device has bad luck with bandwidth, and a bend. */
static double time_of(const clv_device *dev, const planner_workload *workload)
{
    double flops = planner_workload_flops(workload),
           bytes = planner_workload_bytes(workload);
    if (dev->plugin_index)
        return 3000 + fmax(0.001 * flops, 0.05 * bytes);
    return 500 + 0.01 * flops + 0.02 * bytes;
}

static clv_status fake_open(clv_context *ctx,
                            const planner_meter_params *params,
                            planner_meter **out)
{
    (void)ctx, (void)params;
    *out = (planner_meter *)(void *)&fake;
    return CLV_OK;
}

static void fake_close(planner_meter *meter)
{
    assert_true(!meter || (void *)meter == (void *)&fake);
}

static clv_status fake_work(planner_meter *meter, clv_device *dev,
                            const planner_workload *workload,
                            planner_sample *out)
{
    assert_ptr_equal(meter, &fake);
    if (fake.status && fake.workloads >= fake.after)
        return clv_error(fake.status, "no luck");
    fake.workloads++;
    if (workload->kind.op == CLV_OP_ROPE && dev->plugin_index)
        return clv_error(CLV_ERR_UNSUPPORTED, "not this one");
    double ns = time_of(dev, workload);
    if (fake.busy)
        usleep(1000);
    atomic_fetch_add(&spent_ns, fake.work_ns);
    *out =
        (planner_sample){.workload = *workload, .ns = ns, .energy_nj = 2 * ns};
    if (fake.noisy && fake.workloads % fake.noisy == 0) {
        out->ns *= 20;
        out->spread = 2;
    }
    return CLV_OK;
}

static clv_status fake_overheads(planner_meter *meter, clv_device *dev,
                                 planner_overheads *out)
{
    (void)meter;
    fake.overheads++;
    *out = (planner_overheads){.submit = 1000,
                               .submit_idle = 2000,
                               .dispatch = 30,
                               .wait_poll = 40,
                               .wait_block = 50,
                               .copy = 60,
                               .copy_byte = dev->plugin_index ? 0 : 0.25};
    return CLV_OK;
}

static clv_status fake_copies(clv_device *dev, uint32_t n, bool noisy,
                              planner_overheads *out)
{
    (void)dev, (void)n, (void)noisy;
    fake.copies++;
    out->copy_byte = 0.02;
    return CLV_OK;
}

static clv_status fake_contention(planner_meter *meter, clv_device *const *devs,
                                  uint32_t n, planner_contention *out)
{
    (void)meter, (void)devs;
    fake.contentions++;
    fake.together = out->weights.weight_dtype;
    out->bandwidth = 50;
    for (uint32_t i = 0; i < n; i++) {
        out->alone[i] = 30 + i;
        out->slowdown[i] = 1.5 + i;
    }
    return CLV_OK;
}

/* A processor, all the time. */
static double fake_others(void)
{
    return fake.busy ? (double)clv_now_ns() : 0;
}

static const planner_profile_source fake_source = {.open = fake_open,
                                                   .close = fake_close,
                                                   .workload = fake_work,
                                                   .overheads = fake_overheads,
                                                   .copies = fake_copies,
                                                   .contention =
                                                       fake_contention,
                                                   .others = fake_others};

/* ------------------------------------------------------------------------ */

typedef struct rig {
    test_context test;
    planner_profile *profile;
    test_layer layer;
    clv_device *a, *b;
} rig;

static tmpdir cache;

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

static void rig_make(rig *r, const char *settings)
{
    char text[1024];
    memset(&fake, 0, sizeof fake);
    snprintf(text, sizeof text, "core.cache_dir=%s %s", cache.path, settings);
    r->test = test_context_create(text);
    assert_ok(planner_profile_of(r->test.ctx, &r->profile));
    r->profile->source = &fake_source;
    test_layer_make(&r->layer, r->test.ctx, shape);
    r->a = clv_context_device(r->test.ctx, 0);
    r->b = clv_context_device(r->test.ctx, 1);
}

static void rig_free(rig *r)
{
    test_layer_free(&r->layer);
    test_context_destroy(&r->test);
}

static clv_status cover(rig *r, const clv_profile_params *params)
{
    return clv_profile_graph(r->test.ctx, r->layer.graph, params);
}

static bool cost(const rig *r, const clv_device *dev,
                 const planner_workload *workload, planner_cost *out)
{
    return planner_profile_cost(r->profile, dev, workload, out);
}

static uint32_t find_node(const rig *r, uint32_t op)
{
    for (uint32_t i = 0; i < r->layer.graph->n_nodes; i++)
        if (r->layer.graph->nodes[i].op == op)
            return i;
    fail_msg("there is no %s", core_op_name(op));
    return 0;
}

static planner_workload work_at(const rig *r, uint32_t op, int64_t n,
                                int64_t depth)
{
    planner_workload workload;
    planner_workload_of(r->layer.graph, find_node(r, op), NULL,
                        (const int64_t[]){n, depth}, &workload);
    return workload;
}

/* ------------------------------------------------------------------------ */
/* Measuring                                                                */

static void test_costs(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "");
    planner_cost c;
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 128, 128);
    assert_false(cost(&r, r.a, &workload, &c));
    /* What is usual for such a device, until it is measured. */
    assert_true(planner_profile_overheads(r.profile, r.a)->submit > 0);
    assert_ok(cover(&r, NULL));
    assert_true(fake.workloads > 100);
    assert_int_equal(fake.overheads, 2);

    /* What was measured, as measured. */
    assert_true(cost(&r, r.a, &workload, &c));
    assert_true(c.measured && c.ns == time_of(r.a, &workload) &&
                c.energy_nj == 2 * c.ns);
    assert_true(cost(&r, r.b, &workload, &c));
    assert_true(c.measured && c.ns == time_of(r.b, &workload));

    /* Else by a model, which finds the bend. */
    for (int64_t n = 1; n < 128; n += 7) {
        workload.n = n;
        workload.out = 13 * n;
        assert_true(cost(&r, r.a, &workload, &c));
        if (fabs(c.ns / time_of(r.a, &workload) - 1) > 0.02)
            fail_msg("%g, not %g", c.ns, time_of(r.a, &workload));
        assert_false(c.measured);
        assert_true(fabs(c.energy_nj / c.ns - 2) < 1e-9);
        assert_true(cost(&r, r.b, &workload, &c));
        if (n > 16 && fabs(c.ns / time_of(r.b, &workload) - 1) > 0.10)
            fail_msg("%g, not %g", c.ns, time_of(r.b, &workload));
    }
    /* Of kinds that were not measured, the roofline. */
    workload = work_at(&r, CLV_OP_ROPE, 8, 8);
    assert_true(cost(&r, r.a, &workload, &c));
    workload.kind.op = CLV_OP_SOFTMAX;
    double bytes, flops;
    core_profile_top(r.profile, r.a, &bytes, &flops);
    assert_true(cost(&r, r.a, &workload, &c) && !c.measured);
    assert_float_equal(c.ns,
                       fmax(planner_workload_bytes(&workload) / bytes,
                            planner_workload_flops(&workload) / flops),
                       1e-9 * c.ns);

    const planner_overheads *o = planner_profile_overheads(r.profile, r.a);
    assert_true(o->submit == 1000 && o->copy_byte == 0.25);
    rig_free(&r);
}

/* Of prompts little is known, of single tokens much: a model that fits these
 * does not answer for those. */
static void test_few_among_many(void **state)
{
    static const int64_t outs[] = {128, 1024};
    planner_sample shown[12];
    planner_cost c;
    uint32_t n = 0;
    (void)state;
    rig r;
    rig_make(&r, "core.cache_dir=");
    for (int i = 0; i < 10; i++, n++) {
        shown[n].workload = work_at(&r, CLV_OP_MATMUL, 1, 1);
        shown[n].workload.in = 4096;
        shown[n].workload.out = 1024 * (i + 1);
        shown[n] = (planner_sample){.workload = shown[n].workload,
                                    .ns = 1000. * (i + 1)};
    }
    for (int i = 0; i < 2; i++, n++) {
        shown[n] = (planner_sample){.workload = shown[0].workload};
        shown[n].workload.n = 512;
        shown[n].workload.out = outs[i];
        shown[n].ns = 60. * 1024 * (2 - i); /* no linear model has that */
    }
    assert_ok(planner_profile_learn(r.profile, r.a, shown, n));
    planner_workload workload = shown[n - 1].workload;
    workload.out = 8192;
    assert_true(cost(&r, r.a, &workload, &c) && !c.measured);
    if (fabs(c.ns / (60. * 8192) - 1) > 0.2)
        fail_msg("%g, not about %g", c.ns, 60. * 8192);
    rig_free(&r);
}

/* What was disturbed is answered by a model of the rest. */
static void test_noise(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.cache_dir=");
    fake.noisy = 4;
    assert_ok(cover(&r, NULL));
    uint32_t modelled = 0, n = 0;
    for (int64_t rows = 1; rows <= 128; rows *= 2) {
        planner_cost c;
        planner_workload workload = work_at(&r, CLV_OP_MATMUL, rows, rows);
        assert_true(cost(&r, r.a, &workload, &c));
        if (fabs(c.ns / time_of(r.a, &workload) - 1) > 0.02)
            fail_msg("%g, not %g", c.ns, time_of(r.a, &workload));
        modelled += !c.measured;
        n++;
    }
    assert_true(modelled && modelled < n);
    rig_free(&r);
}

static void test_what_is_wanted(void **state)
{
    (void)state;
    rig r;
    planner_workloads list;
    static const int64_t lengths[] = {1, 32, 64, 512};
    rig_make(&r, "");
    const clv_graph *g = r.layer.graph;
    clv_op_caps *caps = calloc(g->n_nodes, sizeof *caps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        bool no = g->nodes[i].op == CLV_OP_RMS_NORM;
        caps[i] =
            (clv_op_caps){.answer = no ? CLV_ANSWER_NO : CLV_ANSWER_STATIC,
                          .static_shapes = lengths,
                          .n_static = 4,
                          .split_axes = CLV_SPLIT_ROWS | CLV_SPLIT_HEADS,
                          .split_granularity = {64, 0, 0, 2}};
    }
    assert_ok(planner_profile_workloads(g, caps, false, &list));
    bool parts = false, most = false;
    for (uint32_t i = 0; i < list.n; i++) {
        const planner_workload *w = &list.items[i].workload;
        assert_int_not_equal(w->kind.op, CLV_OP_RMS_NORM);
        assert_true(w->n == 1 || w->n == 32 || w->n == 64);
        assert_true(!w->depth || (w->depth >= w->n && w->depth <= 256));
        for (uint32_t j = 0; j < i; j++)
            assert_false(planner_workload_equal(w, &list.items[j].workload));
        if (i)
            assert_true(list.items[i].rank >= list.items[i - 1].rank);
        if (w->kind.op != CLV_OP_MATMUL)
            continue;
        parts |= w->out < 256 && w->in == 704;
        most |= w->out == 704;
        assert_true(w->out % 64 == 0 || w->out == 1000);
        assert_true(w->in == 256 || w->in == 704); /* no channels */
    }
    assert_true(parts && most);
    uint32_t quick = list.n;
    planner_workloads_finish(&list);
    assert_ok(planner_profile_workloads(g, caps, true, &list));
    assert_true(list.n > quick);
    planner_workloads_finish(&list);
    free(caps);
    rig_free(&r);
}

static void test_together(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "");
    clv_device *both[] = {r.a, r.b}, *turned[] = {r.b, r.a};
    assert_true(planner_profile_bandwidth(r.profile, both, 2) == 0);
    assert_true(planner_profile_slowdown(r.profile, both, 2, 1) == 1);
    const clv_profile_params one = {.devices = both, .n_devices = 1};
    assert_ok(cover(&r, &one));
    assert_int_equal(fake.contentions, 0);
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.contentions, 1);
    assert_true(planner_profile_bandwidth(r.profile, both, 2) == 50);
    assert_true(planner_profile_bandwidth(r.profile, turned, 2) == 50);
    assert_true(planner_profile_bandwidth(r.profile, both, 1) == 30);
    assert_true(planner_profile_slowdown(r.profile, both, 2, 1) == 2.5);
    assert_true(planner_profile_slowdown(r.profile, turned, 2, 1) == 1.5);
    assert_true(planner_profile_slowdown(r.profile, both, 1, 0) == 1);
    rig_free(&r);
}

/* With the weights that a graph has, each once. */
static void test_together_weights(void **state)
{
    (void)state;
    rig r;
    test_layer other;
    test_shape another = *shape;
    rig_make(&r, "");
    assert_ok(cover(&r, NULL));
    const uint32_t before = fake.contentions; /* it may be in the cache */
    another.dtype = CLV_DTYPE_Q4_0;
    test_layer_make(&other, r.test.ctx, &another);
    assert_ok(clv_profile_graph(r.test.ctx, other.graph, NULL));
    assert_int_equal(fake.contentions, before + 1);
    assert_int_equal(fake.together, CLV_DTYPE_Q4_0);
    assert_ok(cover(&r, NULL));
    assert_ok(clv_profile_graph(r.test.ctx, other.graph, NULL));
    assert_int_equal(fake.contentions, before + 1);
    test_layer_free(&other);
    rig_free(&r);
}

static int stop(void *ctx, const char *what, double fraction)
{
    uint32_t *left = ctx;
    assert_non_null(strstr(what, "ref"));
    assert_true(fraction >= 0 && fraction <= 1);
    return (*left)-- == 0;
}

static void test_cancelled(void **state)
{
    (void)state;
    rig r;
    uint32_t left = 20;
    rig_make(&r, "core.cache_dir=");
    const clv_profile_params params = {.progress = stop, .progress_ctx = &left};
    assert_int_equal(cover(&r, &params), CLV_ERR_CANCELLED);
    assert_int_equal(fake.workloads, 20);
    assert_ok(cover(&r, NULL)); /* goes on where it stopped */
    uint32_t all = fake.workloads;
    rig_free(&r);
    rig_make(&r, "core.cache_dir=");
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.workloads, all);
    rig_free(&r);
}

static void test_device_fails(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.cache_dir=");
    fake.status = CLV_ERR_INTERNAL;
    fake.after = 50;
    assert_ok(cover(&r, NULL));
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 1, 1);
    assert_true(cost(&r, r.a, &workload, &c)); /* has what came before */
    assert_false(cost(&r, r.b, &workload, &c));
    fake.status = CLV_OK;
    assert_ok(cover(&r, NULL));
    assert_true(cost(&r, r.b, &workload, &c));
    fake.status = CLV_ERR_NO_MEMORY;
    const clv_profile_params again = {.again = true};
    assert_int_equal(cover(&r, &again), CLV_ERR_NO_MEMORY);
    rig_free(&r);
}

/* Only what the user asks for is measured. */
static void test_off(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.cache_dir= core.profile=off");
    const planner_profile_params params = {
        .devices = (clv_device *const[]){r.a, r.b}, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.workloads + fake.overheads + fake.contentions, 0);
    planner_workload workload = work_at(&r, CLV_OP_MATMUL, 1, 1);
    assert_false(cost(&r, r.a, &workload, &c));
    assert_ok(cover(&r, NULL));
    assert_true(cost(&r, r.a, &workload, &c));
    rig_free(&r);
}

/* ------------------------------------------------------------------------ */
/* Keeping                                                                  */

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

static uint32_t in_cache(file_path files[8]);

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

    /* Not of another one. */
    rig_make(&r, "ref.name0=card ref.name1=chip");
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.overheads, 2);
    rig_free(&r);
}

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

/* Works of a real device are measured for a second; of a simulated one all that
 * are wanted, however slow the machine is, up to ten seconds. */
static void test_time_for_works(void **state)
{
    static const struct {
        uint32_t clock;
        uint64_t work_ns;
        bool all;
    } cases[] = {{CLV_CLOCK_REAL, 1000, true},
                 {CLV_CLOCK_REAL, 5000000, false},
                 {CLV_CLOCK_VIRTUAL, 5000000, true},
                 {CLV_CLOCK_VIRTUAL, 1000000000, false}};
    uint32_t wanted = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_make(&r, "core.cache_dir=");
        r.a->info.clock = cases[i].clock;
        fake.work_ns = cases[i].work_ns;
        const clv_profile_params params = {
            .devices = &r.a, .n_devices = 1, .again = true};
        assert_ok(cover(&r, &params));
        wanted = wanted ? wanted : fake.workloads;
        if (cases[i].all)
            assert_int_equal(fake.workloads, wanted);
        else
            assert_in_range(fake.workloads, 6, wanted - 1);
        rig_free(&r);
    }
    assert_true(wanted > 60);
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

/* ------------------------------------------------------------------------ */

static void test_printed(void **state)
{
    (void)state;
    rig r;
    char *text;
    rig_make(&r, "core.cache_dir=");
    assert_ok(clv_profile_print(r.test.ctx, &r.a, 1, "md", &text));
    assert_non_null(strstr(text, "Nothing is measured"));
    clv_string_free(text);
    assert_ok(cover(&r, NULL));
    assert_ok(clv_profile_print(r.test.ctx, NULL, 0, "md", &text));
    assert_non_null(strstr(text, "## ref:0"));
    assert_non_null(strstr(text, "| matmul f32 x q8_0 |"));
    assert_non_null(strstr(text, "## Together"));
    clv_string_free(text);

    assert_ok(clv_profile_print(r.test.ctx, NULL, 0, "json", &text));
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    const cJSON *devices = cJSON_GetObjectItem(json, "devices");
    assert_int_equal(cJSON_GetArraySize(devices), 2);
    const cJSON *kinds = cJSON_GetObjectItem(cJSON_GetArrayItem(devices, 1),
                                             "kinds"),
                *kind;
    bool tree = false;
    cJSON_ArrayForEach (kind, kinds)
        tree |=
            !strcmp(cJSON_GetObjectItem(kind, "model")->valuestring, "tree") &&
            cJSON_GetObjectItem(kind, "leaves")->valueint > 1;
    assert_true(tree);
    cJSON_Delete(json);
    clv_string_free(text);
    assert_int_equal(clv_profile_print(r.test.ctx, NULL, 0, "csv", &text),
                     CLV_ERR_INVALID);
    assert_null(text);
    rig_free(&r);
}

static void test_refused(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.cache_dir=");
    clv_device *twice[] = {r.a, r.a};
    const clv_profile_params params = {.devices = twice, .n_devices = 2};
    assert_int_equal(cover(&r, &params), CLV_ERR_INVALID);
    assert_error_says("twice");
    clv_graph *broken;
    assert_ok(clv_graph_create(&broken));
    clv_graph_add(broken, 0, 1);
    assert_int_equal(clv_profile_graph(r.test.ctx, broken, NULL),
                     clv_graph_check(broken));
    assert_int_not_equal(clv_graph_check(broken), CLV_OK);
    clv_graph_destroy(broken);
    rig_free(&r);
}

/* Plans ask while another thread measures. */
static _Atomic bool asking;

static void *ask(void *arg)
{
    const rig *r = arg;
    planner_workload workload = work_at(r, CLV_OP_MATMUL, 100, 100);
    planner_cost c;
    clv_device *both[] = {r->a, r->b};
    while (atomic_load(&asking)) {
        if (cost(r, r->a, &workload, &c) && !(c.ns > 0))
            return arg;
        planner_profile_overheads(r->profile, r->b);
        planner_profile_bandwidth(r->profile, both, 2);
    }
    return NULL;
}

static void test_asked_meanwhile(void **state)
{
    (void)state;
    rig r;
    pthread_t thread;
    void *wrong;
    rig_make(&r, "core.cache_dir=");
    const clv_profile_params again = {.again = true};
    atomic_store(&asking, true);
    assert_int_equal(pthread_create(&thread, NULL, ask, &r), 0);
    for (int i = 0; i < 3; i++)
        assert_ok(cover(&r, &again));
    atomic_store(&asking, false);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    rig_free(&r);
}

static int make_cache(void **state)
{
    *state = NULL;
    return !tmpdir_make(&cache);
}

static int remove_cache(void **state)
{
    (void)state;
    tmpdir_remove(&cache);
    return 0;
}

/* Unasked, a device with a real clock is measured by two products; the rest
 * follows from its roofline. What is asked for later is still measured. */
static void test_first_look(void **state)
{
    (void)state;
    rig r;
    planner_cost c;
    rig_make(&r, "core.profile=auto core.cache_dir=");
    clv_device *devices[] = {r.a, r.b};
    const planner_profile_params params = {.devices = devices, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_true(fake.workloads >= 2 && fake.workloads <= 4);
    assert_int_equal(fake.overheads, 0);
    planner_workload workload = work_at(&r, CLV_OP_ROPE, 8, 8);
    assert_true(cost(&r, r.a, &workload, &c) && c.ns > 0 && !c.measured);
    assert_ok(cover(&r, NULL));
    assert_true(fake.workloads > 100);
    assert_int_equal(fake.overheads, 2);
    rig_free(&r);
}

/* The first look times copies of a device with memory of its own; all else
 * about submits and waits is what is usual. */
static void test_first_copies(void **state)
{
    (void)state;
    rig r;
    rig_make(&r, "core.profile=auto core.cache_dir= "
                 "ref.memory0=local,coherent");
    clv_device *devices[] = {r.a, r.b};
    const planner_profile_params params = {.devices = devices, .n_devices = 2};
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.copies, 1);
    const planner_overheads *o = planner_profile_overheads(r.profile, r.a);
    const planner_overheads *start = planner_usual_overheads(r.a);
    assert_float_equal(o->copy_byte, 0.02, 1e-9);
    assert_float_equal(o->submit, start->submit, 1e-9);
    assert_ok(planner_profile_cover(r.profile, r.layer.graph, &params));
    assert_int_equal(fake.copies, 1);
    assert_ok(cover(&r, NULL));
    assert_int_equal(fake.overheads, 2); /* asked for, all is measured */
    rig_free(&r);
}

/* A third of the shorter times are disturbed: differences one by one would say
 * 80, where 560 is right. */
static void test_disturbed_differences(void **state)
{
    double more[] = {640, 644, 640, 980, 641, 640, 643, 640, 642};
    double less[] = {80, 560, 81, 80, 562, 80, 82, 560, 80};
    double mean[] = {4, 4, 7}, means[] = {1, 2, 3};
    (void)state;
    assert_float_equal(planner_above(false, more, less, 9), 560, 1);
    assert_float_equal(planner_above(true, mean, means, 3), 3, 1e-9);
}

int main(void)
{
#define KEEPS(test)                                                            \
    cmocka_unit_test_setup_teardown(test, make_cache, remove_cache)
    const struct CMUnitTest tests[] = {
        KEEPS(test_costs),
        KEEPS(test_same_model),
        cmocka_unit_test(test_few_among_many),
        cmocka_unit_test(test_noise),
        KEEPS(test_what_is_wanted),
        KEEPS(test_together),
        KEEPS(test_together_weights),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_off),
        KEEPS(test_kept),
        KEEPS(test_other_graphs),
        KEEPS(test_busy),
        KEEPS(test_damaged),
        KEEPS(test_unwritable),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_asked_meanwhile),
        cmocka_unit_test(test_time_for_works),
        cmocka_unit_test(test_first_copies),
        cmocka_unit_test(test_first_look),
        cmocka_unit_test(test_disturbed_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
