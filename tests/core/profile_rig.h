/*
 * Profiles of devices that are measured by functions of this file, so that
 * times are known and measurements are counted.
 */
#pragma once

#include "layer.h"
#include "tmpdir.h"

#include "../../planner/profile/store.h"
#include "../plugins/ref/context.h"

#include <math.h>

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
    clv_status status;    /* of works to come, */
    uint32_t after;       /* behind so many */
    uint32_t noisy;       /* each so-many-th is disturbed */
    bool busy;            /* other processes are at work, and works take a ms */
    uint32_t together;    /* weights of products that were measured so last */
    void (*worked)(void); /* after each work */
} fake;

/* The second device has bad luck with bandwidth, and a bend. */
static inline double time_of(const clv_device *dev,
                             const planner_workload *workload)
{
    double flops = planner_workload_flops(workload),
           bytes = planner_workload_bytes(workload);
    if (dev->plugin_index)
        return 3000 + fmax(0.001 * flops, 0.05 * bytes);
    return 500 + 0.01 * flops + 0.02 * bytes;
}

static inline clv_status fake_open(clv_context *ctx,
                                   const planner_meter_params *params,
                                   planner_meter **out)
{
    (void)ctx, (void)params;
    *out = (planner_meter *)(void *)&fake;
    return CLV_OK;
}

static inline void fake_close(planner_meter *meter)
{
    assert_true(!meter || (void *)meter == (void *)&fake);
}

static inline clv_status fake_work(planner_meter *meter, clv_device *dev,
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
    if (fake.worked)
        fake.worked();
    *out =
        (planner_sample){.workload = *workload, .ns = ns, .energy_nj = 2 * ns};
    if (fake.noisy && fake.workloads % fake.noisy == 0) {
        out->ns *= 20;
        out->spread = 2;
    }
    return CLV_OK;
}

static inline clv_status fake_overheads(planner_meter *meter, clv_device *dev,
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

static inline clv_status fake_copies(clv_device *dev, uint32_t n, bool noisy,
                                     planner_overheads *out)
{
    (void)dev, (void)n, (void)noisy;
    fake.copies++;
    out->copy_byte = 0.02;
    return CLV_OK;
}

static inline clv_status fake_contention(planner_meter *meter,
                                         clv_device *const *devs, uint32_t n,
                                         planner_contention *out)
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
static inline double fake_others(void)
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

static inline void rig_make(rig *r, const char *settings)
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

static inline void rig_free(rig *r)
{
    test_layer_free(&r->layer);
    test_context_destroy(&r->test);
}

static inline clv_status cover(rig *r, const clv_profile_params *params)
{
    return clv_profile_graph(r->test.ctx, r->layer.graph, params);
}

static inline bool cost(const rig *r, const clv_device *dev,
                        const planner_workload *workload, planner_cost *out)
{
    return planner_profile_cost(r->profile, dev, workload, out);
}

static inline uint32_t find_node(const rig *r, uint32_t op)
{
    for (uint32_t i = 0; i < r->layer.graph->n_nodes; i++)
        if (r->layer.graph->nodes[i].op == op)
            return i;
    fail_msg("there is no %s", core_op_name(op));
    return 0;
}

static inline planner_workload work_at(const rig *r, uint32_t op, int64_t n,
                                       int64_t depth)
{
    planner_workload workload;
    planner_workload_of(r->layer.graph, find_node(r, op), NULL,
                        (const int64_t[]){n, depth}, &workload);
    return workload;
}

static inline int make_cache(void **state)
{
    *state = NULL;
    return !tmpdir_make(&cache);
}

static inline int remove_cache(void **state)
{
    (void)state;
    tmpdir_remove(&cache);
    return 0;
}

#define KEEPS(test)                                                            \
    cmocka_unit_test_setup_teardown(test, make_cache, remove_cache)
