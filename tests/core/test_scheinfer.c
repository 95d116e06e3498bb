/*
 * ScheInfer's formulas against brute force, and the search's choice of the
 * weights that a graphics card holds against the best one.
 */
#include "scheinfer.h"
#include "solve_problem.h"

#include <math.h>
#include <stdio.h>

/* 0..1 */
static double fraction(test_random *r)
{
    return test_bits(r) / 4294967296.0;
}

/* From low to high, as likely in each order of magnitude. */
static double magnitude(test_random *r, double low, double high)
{
    return low * pow(high / low, fraction(r));
}

/* ------------------------------------------------------------------------ */
/* The oracle itself                                                         */

static scheinfer_mlp table_mlp(test_random *r)
{
    const int64_t widths[] = {2048, 3584, 4096, 5120, 6144, 8192};
    const int64_t hiddens[] = {1536, 2560, 6400, 11008, 14336, 28672};
    double m_h = (double)(widths[test_below(r, 6)] * hiddens[test_below(r, 6)]);
    return scheinfer_mlp_of(&scheinfer_testbeds[test_below(r, 3)],
                            test_below(r, 2), 1u << test_below(r, 11), m_h,
                            2 + test_below(r, 2));
}

static scheinfer_mlp random_mlp(test_random *r)
{
    if (test_below(r, 3) == 0)
        return table_mlp(r);
    return (scheinfer_mlp){
        .gpu = {magnitude(r, 1e-7, 1e-5), magnitude(r, 1e-14, 1e-11)},
        .cpu = {magnitude(r, 1e-7, 1e-5), magnitude(r, 1e-13, 1e-10)},
        .link = {magnitude(r, 1e-6, 1e-5), magnitude(r, 1e-12, 1e-10)},
        .launch = magnitude(r, 1e-6, 1e-4),
        .n_gemm = magnitude(r, 1e6, 1e11),
        .n_w = magnitude(r, 1e6, 1e9),
        .n_l = 1 + test_below(r, 6)};
}

static double recurrence_at(const scheinfer_mlp *m, double r_gg, double r_cg)
{
    scheinfer_times t = scheinfer_times_of(m, r_gg, r_cg);
    return scheinfer_recurrence(&t, m->n_l);
}

/* The cases are the recurrence, and no r_cg is better than the edge points. */
static void test_formulas(void **state)
{
    (void)state;
    test_random r = {1};
    for (int k = 0; k < 2000; k++) {
        scheinfer_mlp m = random_mlp(&r);
        double r_gg = test_below(&r, 4) ? fraction(&r) : test_below(&r, 2);
        double r_cg, best = scheinfer_best(&m, r_gg, &r_cg);
        double here = recurrence_at(&m, r_gg, r_cg), least = here;
        for (int i = 0; i <= 1000; i++) {
            double rate = (1 - r_gg) * i / 1000;
            scheinfer_times t = scheinfer_times_of(&m, r_gg, rate);
            double time = scheinfer_recurrence(&t, m.n_l);
            assert_true(fabs(scheinfer_cases(&t, m.n_l) / time - 1) < 1e-9);
            least = fmin(least, time);
        }
        assert_true(fabs(here / best - 1) < 1e-9);
        if (least < best * (1 - 1e-9))
            fail_msg("case %d: %g s, not %g, with %g of r_gg %g", k, least,
                     best, r_cg, r_gg);
    }
}

/* No number of tokens is better than the edge points. */
static void test_prompt_formulas(void **state)
{
    (void)state;
    test_random r = {2};
    for (int k = 0; k < 2000; k++) {
        scheinfer_mlp m = random_mlp(&r);
        double r_gg = fraction(&r), r_cg = fraction(&r) * (1 - r_gg), n_g;
        double tokens = 1 + test_below(&r, 2048);
        double best = scheinfer_prompt(&m, tokens, r_gg, r_cg, &n_g);
        assert_true(n_g >= 0 && n_g <= tokens);
        assert_true(best <= recurrence_at(&m, r_gg, r_cg) * (1 + 1e-9));
        for (int i = 0; i <= 200; i++) {
            scheinfer_mlp part = m;
            /* Tokens of the CPU's part, as r_cg of an MLP that is all CPU's:
             * the same lines with other constants. */
            scheinfer_times t = scheinfer_times_of(&part, r_gg, r_cg);
            double n = tokens * i / 200, r_cc = 1 - r_gg - r_cg;
            if (i) {
                t.launch += 2 * m.launch;
                t.link += m.link.alpha + r_cc * m.n_w * m.link.beta;
                t.gpu +=
                    m.gpu.alpha + n / tokens * r_cc * m.n_gemm * m.gpu.beta;
            }
            t.cpu = (i < 200 ? m.cpu.alpha : 0) +
                    (1 - n / tokens) * r_cc * m.n_gemm * m.cpu.beta;
            if (scheinfer_recurrence(&t, m.n_l) < best * (1 - 1e-9))
                fail_msg("case %d: %g tokens are better than %g", k, n, n_g);
        }
    }
}

/* The paper's rates of LLaMA-2-70B on testbed A (section V-E2): 0.18 with all
 * 16 threads, whose speed Table I has. */
static void test_rates(void **state)
{
    (void)state;
    scheinfer_mlp m = scheinfer_mlp_of(&scheinfer_testbeds[0], SCHEINFER_INT4,
                                       1, 8192.0 * 28672, 3);
    double r_cg;
    scheinfer_best(&m, 0, &r_cg);
    assert_true(fabs(r_cg / 0.18 - 1) < 0.15);
}

/* ------------------------------------------------------------------------ */
/* Which layers the card holds                                               */

#define PARTS 8
#define MAX_LAYERS 40
#define MAX_UNIT 12

/* Layers of some kinds, in one order or another. Tokens of a layer pass through
 * its products on the CPU and on the card at once, and then through the next.
 */
typedef struct assignment {
    scheinfer_layer layers[MAX_LAYERS];
    double times[MAX_LAYERS][PARTS + 1];
    uint32_t kinds[MAX_LAYERS], n;
    uint64_t memory;
    problem *q;
} assignment;

/* The two sides of a layer, of which i / PARTS is on the card. */
static void add_part(assignment *a, const scheinfer_mlp *m, uint32_t i,
                     uint64_t bytes)
{
    double r_gg = (double)i / PARTS, r_cg;
    scheinfer_best(m, r_gg, &r_cg);
    scheinfer_times t = scheinfer_times_of(m, r_gg, r_cg);
    double all = scheinfer_recurrence(&t, m->n_l), cpu = m->n_l * t.cpu;
    t.cpu = 0;
    double gpu = scheinfer_recurrence(&t, m->n_l);
    assert_true(fabs(fmax(cpu, gpu) / all - 1) < 1e-9);
    problem_option(a->q);
    problem_piece(a->q, 0, gpu * 1e9, columns(0, 8))->weight_bytes = bytes;
    problem_piece(a->q, 1, cpu * 1e9, columns(8, 16));
}

static void add_layer(assignment *a, const scheinfer_mlp *m, uint64_t unit)
{
    uint32_t at = a->n++;
    planner_solve_node *node = problem_node(a->q);
    if (at)
        problem_dep(node, at - 1);
    for (uint32_t i = 0; i <= PARTS; i++) {
        a->times[at][i] = scheinfer_best(m, (double)i / PARTS, NULL);
        add_part(a, m, i, i * unit);
    }
    a->layers[at] = (scheinfer_layer){a->times[at], unit};
}

/* Layers of one machine, of some sizes, each for as many tokens as come to it:
 * experts are used less. */
static void make_assignment(assignment *a, test_random *r)
{
    scheinfer_mlp kinds[4], machine = random_mlp(r);
    uint64_t units[4], most = 0;
    uint32_t n_kinds = 1 + test_below(r, 4), n = 2 + test_below(r, 39);
    bool blocks = test_below(r, 2);
    *a = (assignment){.q = problem_new(2)};
    for (uint32_t k = 0; k < n_kinds; k++) {
        units[k] = 1 + test_below(r, MAX_UNIT);
        kinds[k] = machine;
        kinds[k].n_w *= (double)units[k];
        kinds[k].n_gemm *= (double)units[k] * magnitude(r, 0.1, 1);
    }
    for (uint32_t j = 0; j < n; j++) {
        uint32_t k = blocks ? j * n_kinds / n : test_below(r, n_kinds);
        a->kinds[j] = k;
        add_layer(a, &kinds[k], units[k]);
        most += PARTS * units[k];
        for (uint32_t i = 1; i < j; i++) /* the first has no dep */
            if (a->kinds[i] == k) {
                a->q->nodes[j].class = i;
                break;
            }
    }
    a->memory = test_below(r, (uint32_t)most + 1);
    a->q->devices[0].memory = a->memory;
}

typedef struct losses {
    double sum, worst;
    uint32_t n, over; /* of 2% */
} losses;

static void note_loss(losses *l, double time, double best)
{
    double loss = time / best - 1;
    assert_true(loss > -1e-9);
    l->sum += loss;
    l->worst = fmax(l->worst, loss);
    l->over += loss > 0.02;
    l->n++;
}

static double search_ns(const assignment *a)
{
    planner_solution s;
    uint64_t bytes = 0;
    assert_ok(planner_search(&a->q->p, 0, &s));
    for (uint32_t j = 0; j < a->n; j++) {
        const planner_solve_option *o = &a->q->options[s.choices[j].option];
        bytes += a->q->pieces[o->first_piece].weight_bytes;
    }
    if (bytes > a->memory)
        fail_msg("%llu of %llu bytes", (unsigned long long)bytes,
                 (unsigned long long)a->memory);
    double ns = s.makespan_ns;
    planner_solution_finish(&s);
    return ns;
}

static void print_losses(const char *who, const losses *l)
{
    print_message("%s: longer than the best assignment by %.3f%% in the mean, "
                  "%.2f%% at most; %u of %u by more than 2%%\n",
                  who, 100 * l->sum / l->n, 100 * l->worst, l->over, l->n);
}

static void test_assignment(void **state)
{
    (void)state;
    losses planner = {0}, greedy = {0};
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        test_random r = {seed * 7919};
        assignment a;
        uint32_t parts[MAX_LAYERS];
        make_assignment(&a, &r);
        double best = scheinfer_exact(a.layers, a.n, PARTS, a.memory);
        double ours = search_ns(&a) * 1e-9;
        if (ours > best * 1.02)
            print_message("seed %llu: %u layers, %llu: %g\n",
                          (unsigned long long)seed, a.n,
                          (unsigned long long)a.memory, ours / best);
        note_loss(&planner, ours, best);
        note_loss(&greedy,
                  scheinfer_greedy(a.layers, a.n, PARTS, a.memory, parts),
                  best);
        free(a.q);
    }
    print_losses("search", &planner);
    print_losses("greedy by time saved for a byte", &greedy);
    assert_true(planner.worst <= 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_prompt_formulas),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_assignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
