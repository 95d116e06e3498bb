/*
 * The time of a node: what a program of several takes more than one of a single
 * one, so that submit, dispatch and wait are not in it; or, if the device
 * tells, when its nodes began and ended.
 */
#include "trial.h"
#include "../../core/base/error.h"

#include <math.h>
#include <stdlib.h>

#define ENOUGH_NS                                                              \
    1e6 /* of a run: the clock does not blur it, and others seldom             \
           interrupt it */
#define ALONE_NS 1e7 /* of a node beside which the rest does not count */
#define MAX_NODES 1024u
#define GROWTH 16u
#define MAX_RECORDS 8192u
#define CORRELATION 1u
#define NOTED_NS 2e4 /* of a node, in which taking notes does not count */

typedef struct measuring {
    planner_meter *meter;
    clv_device *dev;
    const planner_workload *workload;
    bool shared; /* operands, as the device has no room for more */
} measuring;

/* A new trial, so that its operands come from memory; one run. */
static clv_status run_new(const measuring *m, uint32_t nodes, bool warm,
                          double *ns, double *energy)
{
    const planner_trial_params params = {
        .workload = m->workload, .nodes = nodes, .shared = m->shared};
    core_trial *trial;
    clv_status status = planner_trial_create(m->meter, m->dev, &params, &trial);
    if (!status && warm)
        status = planner_trial_time(trial, 0, ns, NULL);
    if (!status)
        status = planner_trial_time(trial, 0, ns, energy);
    planner_trial_destroy(trial);
    return status;
}

/* Where all runs take the same, two are enough. */
static clv_status measure_virtual(measuring *m, planner_sample *out)
{
    double ns[2], again, energy[2];
    clv_status status = run_new(m, 1, false, &ns[0], &energy[0]);
    if (!status)
        status = run_new(m, 1, false, &again, NULL);
    if (!status && again != ns[0])
        return planner_measure_noisy(m->meter, m->dev, m->workload, out);
    if (!status)
        status = run_new(m, 2, false, &ns[1], &energy[1]);
    if (status == CLV_ERR_LIMIT || status == CLV_ERR_NO_MEMORY) {
        m->shared = true;
        status = run_new(m, 2, false, &ns[1], &energy[1]);
    }
    if (status)
        return status;
    out->ns = ns[1] - ns[0];
    out->energy_nj = energy[1] - energy[0];
    return CLV_OK;
}

/* How many nodes make a run long enough, as far as the time for it goes:
 * compiling may take long. single: one run of one node. */
static clv_status choose_nodes(const measuring *m, double single,
                               uint32_t *nodes)
{
    double ns, end = (double)clv_now_ns() + m->meter->params.max_seconds * 1e9;
    *nodes = 2;
    for (;;) {
        clv_status status = run_new(m, *nodes, false, &ns, NULL);
        if (status)
            return status;
        if (ns - single >= ENOUGH_NS || *nodes == MAX_NODES ||
            (double)clv_now_ns() > end)
            return CLV_OK;
        double each = (ns - single) / (*nodes - 1);
        double want = each > 0 ? 1.2 * ENOUGH_NS / each + 1 : MAX_NODES;
        uint32_t most =
            *nodes < MAX_NODES / GROWTH ? *nodes * GROWTH : MAX_NODES;
        uint32_t next = want < most ? (uint32_t)want : most;
        *nodes = next > *nodes ? next : *nodes + 1;
    }
}

/* Repetitions. Every other one has the device note when its nodes ran, if it
 * can: short times, so that some are undisturbed on the busiest machine. */
typedef struct series {
    double *one, *many, *energy; /* [repetitions] runs without notes */
    double *nodes;               /* [MAX_RECORDS] noted */
    uint32_t n, n_plain, n_nodes;
} series;

/* A new trial that the device takes notes of. */
static clv_status run_noted(const measuring *m, uint32_t nodes, series *s)
{
    const planner_trial_params params = {.workload = m->workload,
                                         .nodes = nodes};
    core_trial *trial;
    clv_status status = planner_trial_create(m->meter, m->dev, &params, &trial);
    planner_trial_forget(m->dev);
    if (!status)
        status = planner_trial_submit(trial, CORRELATION);
    if (!status)
        status = planner_trial_wait(trial, 0);
    if (!status)
        s->n_nodes +=
            planner_trial_nodes(m->dev, CORRELATION, s->nodes + s->n_nodes,
                                MAX_RECORDS - s->n_nodes);
    planner_trial_destroy(trial);
    return status;
}

static clv_status run_plain(const measuring *m, uint32_t nodes, series *s)
{
    double first = 0;
    uint32_t i = s->n_plain;
    clv_status status = CLV_OK;
    if (nodes > 1)
        status = run_new(m, 1, false, &s->one[i], &first);
    if (!status)
        status = run_new(m, nodes, false, &s->many[i], &s->energy[i]);
    if (nodes > 1)
        s->energy[i] = (s->energy[i] - first) / (nodes - 1);
    s->n_plain += !status;
    return status;
}

static clv_status repeat(const measuring *m, uint32_t nodes, series *s)
{
    const planner_meter_params *params = &m->meter->params;
    double end = (double)clv_now_ns() + params->max_seconds * 1e9;
    clv_status status = CLV_OK;
    for (; !status && s->n < params->repetitions &&
           (!s->n || (double)clv_now_ns() < end);
         s->n++) {
        status = run_plain(m, nodes, s);
        if (!status)
            status = run_noted(m, nodes, s);
    }
    return status;
}

/* Notes take time themselves, some of it in between the nodes: they are an
 * upper bound, and all the same for nodes that take long. */
static void conclude(series *s, uint32_t nodes, planner_sample *out)
{
    double many = planner_undisturbed(s->many, s->n_plain);
    double one = nodes > 1 ? planner_undisturbed(s->one, s->n_plain) : 0;
    double each = (many - one) / (nodes > 1 ? nodes - 1 : 1);
    out->energy_nj = fmax(planner_median(s->energy, s->n_plain), 0);
    out->ns = each > 0 ? each : many / nodes;
    out->spread = many / s->many[0] - 1;
    if (!s->n_nodes)
        return;
    double noted = planner_undisturbed(s->nodes, s->n_nodes);
    if (noted > 0 && (noted >= NOTED_NS || noted < out->ns)) {
        out->ns = noted;
        out->spread = s->nodes[0] > 0 ? noted / s->nodes[0] - 1 : 0;
    }
}

static clv_status measure_real(measuring *m, planner_sample *out)
{
    uint32_t n = m->meter->params.repetitions, nodes = 1;
    double single;
    series s = {.one = calloc(n, sizeof *s.one),
                .many = calloc(n, sizeof *s.many),
                .energy = calloc(n, sizeof *s.energy),
                .nodes = calloc(MAX_RECORDS, sizeof *s.nodes)};
    clv_status status = CLV_OK;
    if (!s.one || !s.many || !s.energy || !s.nodes)
        status = core_no_memory("to measure devices");
    if (!status)
        status = run_new(m, 1, true, &single, NULL);
    if (!status && single < ALONE_NS)
        status = choose_nodes(m, single, &nodes);
    if (!status)
        status = repeat(m, nodes, &s);
    if (!status)
        conclude(&s, nodes, out);
    free(s.one);
    free(s.many);
    free(s.energy);
    free(s.nodes);
    return status;
}

clv_status planner_measure_workload(planner_meter *meter, clv_device *dev,
                                    const planner_workload *workload,
                                    planner_sample *out)
{
    measuring m = {.meter = meter, .dev = dev, .workload = workload};
    *out = (planner_sample){.workload = *workload};
    clv_status status = planner_trial_accepted(dev, workload, NULL);
    if (status)
        return status;
    return dev->info.clock == CLV_CLOCK_VIRTUAL ? measure_virtual(&m, out)
                                                : measure_real(&m, out);
}
