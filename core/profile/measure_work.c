/*
 * The time of a node: what a program of several takes more than one of a single
 * one, so that submit, dispatch and wait are not in it.
 */
#include "trial.h"

#include <stdlib.h>

#define ENOUGH_NS 1e6   /* of a run: the clock does not blur it, and others seldom
                           interrupt it */
#define ALONE_NS 1e7    /* of a node beside which the rest does not count */
#define MAX_NODES 1024u
#define GROWTH 16u

typedef struct measuring {
    core_meter *meter;
    clv_device *dev;
    const core_work *work;
    bool shared; /* operands, as the device has no room for more */
} measuring;

/* A new trial, so that its operands come from memory; one run. */
static clv_status run_new(const measuring *m, uint32_t nodes, bool warm,
                          double *ns, double *energy)
{
    const core_trial_params params = {.work = m->work, .nodes = nodes,
                                      .shared = m->shared};
    core_trial *trial;
    clv_status status = core_trial_create(m->meter, m->dev, &params, &trial);
    if (!status && warm)
        status = core_trial_time(trial, 0, ns, NULL);
    if (!status)
        status = core_trial_time(trial, 0, ns, energy);
    core_trial_destroy(trial);
    return status;
}

/* Where all runs take the same, two are enough. */
static clv_status measure_virtual(measuring *m, core_sample *out)
{
    double ns[2], energy[2];
    clv_status status = run_new(m, 1, false, &ns[0], &energy[0]);
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

/* How many nodes make a run long enough. single: one run of one node. */
static clv_status choose_nodes(const measuring *m, double single,
                               uint32_t *nodes)
{
    double ns;
    *nodes = 2;
    for (;;) {
        clv_status status = run_new(m, *nodes, false, &ns, NULL);
        if (status)
            return status;
        if (ns - single >= ENOUGH_NS || *nodes == MAX_NODES)
            return CLV_OK;
        double each = (ns - single) / (*nodes - 1);
        double want = each > 0 ? 1.2 * ENOUGH_NS / each + 1 : MAX_NODES;
        uint32_t most = *nodes < MAX_NODES / GROWTH ? *nodes * GROWTH
                                                    : MAX_NODES;
        uint32_t next = want < most ? (uint32_t)want : most;
        *nodes = next > *nodes ? next : *nodes + 1;
    }
}

/* Repetitions of runs of one node, and, if there are more, of those. */
typedef struct series {
    double *one, *many, *energy;
    uint32_t n;
} series;

static clv_status repeat(const measuring *m, uint32_t nodes, series *s)
{
    const core_meter_params *params = &m->meter->params;
    double end = (double)clv_now_ns() + params->max_seconds * 1e9;
    clv_status status = CLV_OK;
    while (!status && s->n < params->repetitions &&
           (!s->n || (double)clv_now_ns() < end)) {
        double first = 0;
        if (nodes > 1)
            status = run_new(m, 1, false, &s->one[s->n], &first);
        if (!status)
            status = run_new(m, nodes, false, &s->many[s->n],
                             &s->energy[s->n]);
        if (nodes > 1)
            s->energy[s->n] = (s->energy[s->n] - first) / (nodes - 1);
        s->n += !status;
    }
    return status;
}

static void conclude(series *s, uint32_t nodes, core_sample *out)
{
    double many = core_undisturbed(s->many, s->n);
    out->spread = (s->many[s->n - 1] - s->many[0]) / many;
    out->energy_nj = core_median(s->energy, s->n);
    out->ns = many / nodes;
    if (nodes > 1) {
        double each = (many - core_undisturbed(s->one, s->n)) / (nodes - 1);
        if (each > 0)
            out->ns = each;
    }
    if (out->energy_nj < 0)
        out->energy_nj = 0;
}

static clv_status measure_real(measuring *m, core_sample *out)
{
    uint32_t n = m->meter->params.repetitions, nodes = 1;
    double single;
    series s = {.one = calloc(n, sizeof *s.one),
                .many = calloc(n, sizeof *s.many),
                .energy = calloc(n, sizeof *s.energy)};
    clv_status status = CLV_OK;
    if (!s.one || !s.many || !s.energy)
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to measure devices");
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
    return status;
}

clv_status core_measure_work(core_meter *meter, clv_device *dev,
                             const core_work *work, core_sample *out)
{
    measuring m = {.meter = meter, .dev = dev, .work = work};
    *out = (core_sample){.work = *work};
    clv_status status = core_trial_accepted(dev, work, NULL);
    if (status)
        return status;
    return dev->info.clock == CLV_CLOCK_VIRTUAL ? measure_virtual(&m, out)
                                                : measure_real(&m, out);
}
