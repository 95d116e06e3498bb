/*
 * What each stage of the search is worth: random problems and those of a model
 * are solved with all stages and without one of them. Prints the table of
 * docs/planning.md: how much longer the makespan is without the stage, and the
 * search's time. An argument sets how many random problems there are.
 */
#include "solve_problem.h"
#include "../../bench/solve_model.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static const struct {
    planner_stage stage;
    const char *name;
} stages[] = {
    {0, "none"},
    {PLANNER_STAGE_LOOK_AHEAD, "beam that looks ahead"},
    {PLANNER_STAGE_FIRST_DONE, "beam of what is done first"},
    {PLANNER_STAGE_TOGETHER, "beam of devices together"},
    {PLANNER_STAGE_REPLICAS, "replicas in the other beams"},
    {PLANNER_STAGE_IMPROVE, "improvement"},
    {PLANNER_STAGE_BLOCKS, "repeated blocks"},
    {PLANNER_STAGE_PRICES, "prices"},
};
#define N_STAGES (sizeof stages / sizeof *stages)

typedef struct result {
    double *more; /* [n] makespan by that with all stages; INFINITY: a
                     constraint is broken */
    uint32_t n;
    double ms;
} result;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool shares_kept(const planner_solve_problem *p,
                        const planner_solution *s)
{
    double ns[PLANNER_SOLVE_DEVICES] = {0};
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const planner_solve_option *o = &p->options[s->choices[i].option];
        for (uint32_t k = 0; k < o->n_pieces; k++)
            ns[p->pieces[o->first_piece + k].device] +=
                p->pieces[o->first_piece + k].ns;
    }
    for (uint32_t d = 0; d < p->n_devices; d++)
        if (ns[d] > p->devices[d].max_share * s->makespan_ns * (1 + 1e-6))
            return false;
    return true;
}

/* Problems without an answer that keeps to the constraints are left out. */
static void measure(const planner_solve_problem *p, result *results)
{
    double all = 0;
    for (uint32_t i = 0; i < N_STAGES; i++) {
        planner_solution s;
        double begin = now_ms();
        clv_status status = planner_search(p, stages[i].stage, &s);
        results[i].ms += now_ms() - begin;
        bool legal = !status && shares_kept(p, &s);
        if (!i && !legal) {
            planner_solution_finish(&s);
            return;
        }
        if (!i)
            all = s.makespan_ns;
        results[i].more[results[i].n++] =
            legal && all > 0 ? s.makespan_ns / all : INFINITY;
        planner_solution_finish(&s);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_set(const char *name, result *results, uint32_t tried)
{
    for (uint32_t i = 0; i < N_STAGES; i++) {
        result *r = &results[i];
        uint32_t helped = 0, broken = 0;
        if (!r->n)
            continue;
        qsort(r->more, r->n, sizeof *r->more, by_value);
        for (uint32_t k = 0; k < r->n; k++) {
            broken += isinf(r->more[k]) != 0;
            helped += r->more[k] > 1.005;
        }
        printf("| %s | %s | %.3f | %.3f | %.3f | %.1f%% | %.1f%% | %.1f |\n",
               name, stages[i].name, r->more[r->n / 2], r->more[r->n * 9 / 10],
               r->more[r->n - 1 - broken], 100.0 * helped / r->n,
               100.0 * broken / r->n, r->ms / tried);
        r->n = 0;
        r->ms = 0;
    }
}

enum { SET_RANDOM, SET_LAYERS, SET_REPEATED, SET_CONSTRAINED, N_SETS };

static problem *random_problem(uint64_t seed, int set)
{
    test_random r = {seed * 104729 + (uint64_t)set};
    problem *q = problem_new(2 + test_below(&r, 3));
    uint32_t n = 6 + test_below(&r, 20), period = 2 + test_below(&r, 6);
    random_devices(&r, q);
    if (set == SET_REPEATED)
        n = period + 2;
    while (q->p.n_nodes < n)
        if (set == SET_RANDOM || (set == SET_CONSTRAINED && seed % 2))
            random_node(&r, q, 8, true);
        else
            layer_node(&r, q, q->p.n_nodes > 2 && test_below(&r, 2));
    if (set == SET_REPEATED)
        repeat_nodes(q, period, 12 + test_below(&r, 8), true);
    if (seed % 3 == 0)
        random_memories(&r, q);
    for (uint32_t d = 0; d < q->p.n_devices && set == SET_CONSTRAINED; d++) {
        if (test_below(&r, 2))
            q->devices[d].memory = q->p.n_nodes * (300 + test_below(&r, 1300));
        if (test_below(&r, 2))
            q->devices[d].max_share = 0.2 + test_below(&r, 8) / 10.0;
    }
    return q;
}

static void measure_models(result *results)
{
    static const int64_t tokens[] = {1, 32, 256, 300, 600, 1024};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const model_shape shape = {.n_layers = 32,
                                   .n_tokens = tokens[i],
                                   .width = 4096,
                                   .kv_width = 1024,
                                   .hidden = 14336};
        model_problem *m = model_problem_new(&shape);
        if (!m)
            continue;
        measure(&m->p, results);
        model_problem_free(m);
    }
    print_set("Llama-8B", results, sizeof tokens / sizeof *tokens);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
    result results[N_STAGES] = {0};
    for (uint32_t i = 0; i < N_STAGES; i++) {
        results[i].more = calloc(n + 8, sizeof *results[i].more);
        if (!results[i].more)
            return 1;
    }
    printf("| problems | without | median | p90 | worst | helps by > 0.5%% | "
           "constraint broken | ms |\n|---|---|--:|--:|--:|--:|--:|--:|\n");
    for (uint32_t i = 0; i < n; i++) {
        problem *q = random_problem(i / N_SETS + 1, (int)(i % N_SETS));
        measure(&q->p, results);
        free(q);
    }
    print_set("random", results, n);
    measure_models(results);
    for (uint32_t i = 0; i < N_STAGES; i++)
        free(results[i].more);
    return 0;
}
