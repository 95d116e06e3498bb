/* Measuring devices at work side by side. */
#include "coverage.h"
#include "../../core/device/loss.h"
#include "../../core/device/memory.h"
#include "../../core/base/error.h"
#include "../../core/device/subgraph.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KINDS 16

static bool share_clock(const clv_device *a, const clv_device *b)
{
    if (a->info.clock != b->info.clock)
        return false;
    return a->info.clock == CLV_CLOCK_REAL || a->plugin == b->plugin;
}

/* The kind of product that reads the most weights in a run of the graph. What
 * is simulated shares memory by bytes, whatever they mean. */
static void find_weights(const clv_graph *graph, const clv_device *dev,
                         planner_workload_kind *out)
{
    planner_workload_kind kinds[MAX_KINDS];
    double bytes[MAX_KINDS] = {0};
    uint32_t n = 0, best = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        planner_workload w;
        uint32_t k = 0;
        if (graph->nodes[i].op != CLV_OP_MATMUL ||
            dev->info.clock != CLV_CLOCK_REAL)
            continue;
        planner_workload_of(graph, i, NULL, NULL, &w);
        w.kind.variant = 0; /* with a bias or not */
        while (k < n && memcmp(&kinds[k], &w.kind, sizeof *kinds))
            k++;
        if (k == MAX_KINDS)
            continue;
        n += k == n;
        kinds[k] = w.kind;
        bytes[k] += planner_workload_bytes(&w);
        best = bytes[k] > bytes[best] ? k : best;
    }
    *out = n ? kinds[best] : (planner_workload_kind){0};
}

static bool is_known(const planner_profile *profile, clv_device *const *devs,
                     uint32_t n, const planner_workload_kind *weights)
{
    for (uint32_t i = 0; i < profile->n_sets; i++) {
        const planner_profile_set *set = &profile->sets[i];
        if (set->n == n && !memcmp(set->devices, devs, n * sizeof *devs) &&
            (!weights->weight_dtype ||
             !memcmp(&set->contention.weights, weights, sizeof *weights)))
            return true;
    }
    return false;
}

static clv_status measure_set(planner_coverage *s, clv_device *const *devs,
                              uint32_t n, const planner_workload_kind *weights)
{
    planner_profile *profile = s->profile;
    planner_contention c = {.weights = *weights,
                            .alone = calloc(n, sizeof *c.alone),
                            .slowdown = calloc(n, sizeof *c.slowdown)};
    clv_status status = c.alone && c.slowdown ? planner_coverage_open(s)
                                              : core_no_memory("for a profile");
    const uint64_t start = clv_now_ns();
    if (!status)
        status = profile->source->contention(s->meter, devs, n, &c);
    clv_log(profile->ctx, CLV_LOG_DEBUG,
            "measured %u devices together in "
            "%.0f ms",
            n, (double)(clv_now_ns() - start) * 1e-6);
    for (uint32_t i = 0; i < n && !status; i++)
        if (!(c.slowdown[i] >= 1))
            c.slowdown[i] = 1;
    if (!status) {
        pthread_rwlock_wrlock(&profile->lock);
        status = planner_profile_add_set(profile, devs, n, &c);
        pthread_rwlock_unlock(&profile->lock);
    }
    if (status) {
        free(c.alone);
        free(c.slowdown);
        if (status == CLV_ERR_CANCELLED || status == CLV_ERR_NO_MEMORY)
            return status;
        clv_log(profile->ctx, CLV_LOG_WARN,
                "devices are not measured "
                "together: %s",
                clv_last_error());
        return CLV_OK;
    }
    planner_profile_save_set(profile, devs, n);
    return CLV_OK;
}

static clv_status cover_set(planner_coverage *s, const clv_graph *graph,
                            clv_device *const *devs, uint32_t n)
{
    planner_profile *profile = s->profile;
    planner_workload_kind weights;
    clv_status status = CLV_OK;
    if (n < 2)
        return CLV_OK;
    find_weights(graph, devs[0], &weights);
    if (!s->params->again && !is_known(profile, devs, n, &weights))
        status = planner_profile_load_set(profile, devs, n, &weights);
    if (status || !planner_coverage_may_measure(s) ||
        (!s->params->again && is_known(profile, devs, n, &weights)))
        return status;
    return measure_set(s, devs, n, &weights);
}

/* Whether weights will be copied to it in each run. */
static bool is_too_small(const clv_graph *graph, clv_device *dev)
{
    const uint64_t left = clv_device_room(dev);
    return left < UINT64_MAX && core_graph_weight_bytes(graph) >
                                    left + atomic_load(&dev->local_bytes);
}

/* Without being asked, only devices are measured together that have to share
 * the host's memory and are no two drivers of one piece of hardware. */
static bool is_worth(const planner_coverage *s, const clv_graph *graph,
                     clv_device *dev, clv_device *const *group, uint32_t n)
{
    uint32_t type;
    if (!planner_coverage_is_quick(s, dev))
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (group[i]->plugin != dev->plugin &&
            !memcmp(group[i]->info.uuid, dev->info.uuid, sizeof dev->info.uuid))
            return false;
    return !core_device_has_local(dev, &type) || is_too_small(graph, dev);
}

/* Each group of those that share a clock, in the context's order. */
clv_status planner_coverage_contention(planner_coverage *s,
                                       const clv_graph *graph)
{
    const clv_context *ctx = s->profile->ctx;
    const planner_profile_params *params = s->params;
    clv_device **group = calloc(ctx->n_devices + 1u, sizeof *group);
    clv_status status = group ? CLV_OK : core_no_memory("for a profile");
    for (uint32_t i = 0; i < ctx->n_devices && !status; i++) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < ctx->n_devices; j++) {
            clv_device *dev = ctx->devices[j];
            bool wanted = false;
            for (uint32_t k = 0; k < params->n_devices; k++)
                wanted |= params->devices[k] == dev;
            if (wanted && !core_device_lost(dev) &&
                is_worth(s, graph, dev, group, n) &&
                share_clock(dev, ctx->devices[i]))
                group[n++] = dev;
        }
        if (n && group[0] == ctx->devices[i])
            status = cover_set(s, graph, group, n);
    }
    free(group);
    return status;
}
