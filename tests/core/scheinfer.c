#include "scheinfer.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const scheinfer_testbed scheinfer_testbeds[SCHEINFER_TESTBEDS] = {
    {"A",
     {{1.0e-7, 3.2e-12}, {4.7e-6, 8.1e-13}},
     {{7.4e-7, 1.6e-11}, {1.1e-5, 5.4e-12}},
     {3.0e-6, 2.6e-11},
     4.4e-5},
    {"B",
     {{1.9e-7, 2.6e-12}, {4.6e-6, 6.5e-13}},
     {{3.4e-6, 1.5e-11}, {1.3e-5, 6.5e-12}},
     {5.8e-6, 2.5e-11},
     5.7e-5},
    {"C",
     {{1.4e-7, 3.6e-12}, {6.4e-6, 9.2e-13}},
     {{1.8e-6, 2.5e-11}, {5.6e-7, 8.4e-12}},
     {3.7e-6, 4.1e-11},
     5.2e-5},
};

scheinfer_mlp scheinfer_mlp_of(const scheinfer_testbed *testbed,
                               scheinfer_format format, double tokens,
                               double m_h, uint32_t n_l)
{
    return (scheinfer_mlp){
        .gpu = testbed->gpu[format],
        .cpu = testbed->cpu[format],
        .link = {testbed->link.alpha, 2 * testbed->link.beta},
        .launch = testbed->launch,
        .n_gemm = tokens * m_h,
        .n_w = m_h * (format == SCHEINFER_FP16 ? 2 : 0.5),
        .n_l = n_l};
}

/* Rates that are differences of others may be off by a rounding. */
static double sign(double r)
{
    return r > 1e-12;
}

scheinfer_times scheinfer_times_of(const scheinfer_mlp *m, double r_gg,
                                   double r_cg)
{
    double r_cc = fmax(0, 1 - r_gg - r_cg);
    return (scheinfer_times){
        .launch = (2 * sign(r_cg) + sign(r_gg)) * m->launch,
        .link = sign(r_cg) * m->link.alpha + r_cg * m->n_w * m->link.beta,
        .gpu = (sign(r_cg) + sign(r_gg)) * m->gpu.alpha +
               (r_cg + r_gg) * m->n_gemm * m->gpu.beta,
        .cpu = sign(r_cc) * m->cpu.alpha + r_cc * m->n_gemm * m->cpu.beta};
}

double scheinfer_recurrence(const scheinfer_times *t, uint32_t n_l)
{
    double launch = 0, link = 0, gpu = 0, cpu = 0;
    for (uint32_t i = 0; i < n_l; i++) {
        launch += t->launch;
        link = fmax(launch, link) + t->link;
        gpu = fmax(link, gpu) + t->gpu;
        cpu += t->cpu;
    }
    return fmax(gpu, cpu);
}

double scheinfer_cases(const scheinfer_times *t, uint32_t n_l)
{
    bool q1 = t->launch < t->link, q2 = t->gpu < t->link;
    bool q3 = t->launch < t->gpu;
    double gpu;
    if (q1 && q2)
        gpu = t->launch + n_l * t->link + t->gpu;
    else if (q1 || q3)
        gpu = t->launch + t->link + n_l * t->gpu;
    else
        gpu = n_l * t->launch + t->link + t->gpu;
    return fmax(gpu, n_l * t->cpu);
}

/* ------------------------------------------------------------------------ */
/* Edge points                                                               */

/* Times of the streams at some x, where nothing is left out: a + b * x. */
typedef struct lines {
    scheinfer_line launch, link, gpu, cpu;
} lines;

#define MAX_EDGES 8

static void add_edge(double *edges, uint32_t *n, scheinfer_line a,
                     scheinfer_line b, double end)
{
    double x = (b.alpha - a.alpha) / (a.beta - b.beta);
    if (isfinite(x) && x > 0 && x < end)
        edges[(*n)++] = x;
}

static scheinfer_line add(double i, scheinfer_line a, double j,
                          scheinfer_line b, double k, scheinfer_line c)
{
    return (scheinfer_line){i * a.alpha + j * b.alpha + k * c.alpha,
                            i * a.beta + j * b.beta + k * c.beta};
}

/* Where lines between 0 and end meet. */
static uint32_t find_edges(const lines *l, double n_l, double end,
                           double edges[MAX_EDGES])
{
    uint32_t n = 0;
    scheinfer_line cpu = {n_l * l->cpu.alpha, n_l * l->cpu.beta};
    add_edge(edges, &n, l->launch, l->link, end);
    add_edge(edges, &n, l->gpu, l->link, end);
    add_edge(edges, &n, l->launch, l->gpu, end);
    add_edge(edges, &n, add(1, l->launch, n_l, l->link, 1, l->gpu), cpu, end);
    add_edge(edges, &n, add(1, l->launch, 1, l->link, n_l, l->gpu), cpu, end);
    add_edge(edges, &n, add(n_l, l->launch, 1, l->link, 1, l->gpu), cpu, end);
    edges[n++] = 0;
    edges[n++] = end;
    return n;
}

double scheinfer_best(const scheinfer_mlp *m, double r_gg, double *r_cg)
{
    double edges[MAX_EDGES], end = 1 - r_gg, least = INFINITY;
    double held = sign(r_gg);
    const lines l = {
        .launch = {(2 + held) * m->launch, 0},
        .link = {m->link.alpha, m->n_w * m->link.beta},
        .gpu = {(1 + held) * m->gpu.alpha + r_gg * m->n_gemm * m->gpu.beta,
                m->n_gemm * m->gpu.beta},
        .cpu = {m->cpu.alpha + end * m->n_gemm * m->cpu.beta,
                -m->n_gemm * m->cpu.beta}};
    uint32_t n = find_edges(&l, m->n_l, end, edges);
    for (uint32_t i = 0; i < n; i++) {
        scheinfer_times t = scheinfer_times_of(m, r_gg, edges[i]);
        double time = scheinfer_cases(&t, m->n_l);
        if (time < least) {
            least = time;
            if (r_cg)
                *r_cg = edges[i];
        }
    }
    return least;
}

/* ------------------------------------------------------------------------ */
/* Prompts                                                                   */

/* eq. 15, with n_g tokens of the CPU's part on the GPU; none: as eq. 4. */
static scheinfer_times prompt_times(const scheinfer_mlp *m, double tokens,
                                    double r_gg, double r_cg, double n_g)
{
    double r_cc = fmax(0, 1 - r_gg - r_cg), moved = sign(r_cc) * sign(n_g);
    double part = n_g / tokens;
    scheinfer_times t = scheinfer_times_of(m, r_gg, r_cg);
    t.launch += 2 * moved * m->launch;
    t.link += moved * (m->link.alpha + r_cc * m->n_w * m->link.beta);
    t.gpu += moved * (m->gpu.alpha + part * r_cc * m->n_gemm * m->gpu.beta);
    t.cpu = sign(r_cc * (tokens - n_g)) * m->cpu.alpha +
            (1 - part) * r_cc * m->n_gemm * m->cpu.beta;
    return t;
}

double scheinfer_prompt(const scheinfer_mlp *m, double tokens, double r_gg,
                        double r_cg, double *n_g)
{
    double edges[MAX_EDGES + 1], least = INFINITY;
    double r_cc = fmax(0, 1 - r_gg - r_cg), a_token = r_cc * m->n_gemm / tokens;
    scheinfer_times some = prompt_times(m, tokens, r_gg, r_cg, 1e-6);
    const lines l = {.launch = {some.launch, 0},
                     .link = {some.link, 0},
                     .gpu = {some.gpu, a_token * m->gpu.beta},
                     .cpu = {some.cpu, -a_token * m->cpu.beta}};
    uint32_t n = find_edges(&l, m->n_l, tokens, edges);
    for (uint32_t i = 0; i < n; i++) {
        scheinfer_times t = prompt_times(m, tokens, r_gg, r_cg, edges[i]);
        double time = scheinfer_cases(&t, m->n_l);
        if (time < least) {
            least = time;
            if (n_g)
                *n_g = edges[i];
        }
    }
    return least;
}

/* ------------------------------------------------------------------------ */
/* Memory                                                                    */

double scheinfer_greedy(const scheinfer_layer *layers, uint32_t n_layers,
                        uint32_t n_g, uint64_t memory, uint32_t *parts)
{
    double sum = 0;
    memset(parts, 0, n_layers * sizeof *parts);
    for (;;) {
        double most = 0;
        uint32_t layer = 0, part = 0;
        for (uint32_t j = 0; j < n_layers; j++)
            for (uint32_t i = parts[j] + 1; i <= n_g; i++) {
                const scheinfer_layer *l = &layers[j];
                double bytes = (double)((i - parts[j]) * l->unit);
                double saved = (l->times[parts[j]] - l->times[i]) / bytes;
                if ((i - parts[j]) * l->unit <= memory && saved > most) {
                    most = saved;
                    layer = j;
                    part = i;
                }
            }
        if (!part)
            break;
        memory -= (part - parts[layer]) * layers[layer].unit;
        parts[layer] = part;
    }
    for (uint32_t j = 0; j < n_layers; j++)
        sum += layers[j].times[parts[j]];
    return sum;
}

double scheinfer_exact(const scheinfer_layer *layers, uint32_t n_layers,
                       uint32_t n_g, uint64_t memory)
{
    /* least[b]: of the layers so far, with b of the memory */
    double *least = calloc(memory + 1, sizeof *least);
    if (!least)
        return NAN;
    for (uint32_t j = 0; j < n_layers; j++)
        for (uint64_t b = memory + 1; b--;) {
            double best = INFINITY;
            for (uint32_t i = 0; i <= n_g && i * layers[j].unit <= b; i++)
                best = fmin(best,
                            least[b - i * layers[j].unit] + layers[j].times[i]);
            least[b] = best;
        }
    double result = least[memory];
    free(least);
    return result;
}
