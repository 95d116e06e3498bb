/* The search against brute force. */
#include "solve_exact.h"
#include "solve_problem.h"
#include "../../planner/search/improve.h"

#include "../../bench/solve_model.h"
#include "../../planner/search/evaluate.h"

#include <math.h>
#include <stdio.h>

static void assert_ns(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%.6f ns, not %.6f", got, want);
}

/* ------------------------------------------------------------------------ */
/* Brute force                                                               */

typedef struct truth {
    planner_tables tables;
    planner_schedule schedule;
    planner_state *state;
    planner_value best;
    uint32_t options[PROBLEM_NODES];
} truth;

static void truth_make(truth *t, const problem *q)
{
    assert_ok(planner_tables_make(&q->p, &t->tables));
    planner_schedule_init(&t->schedule, &t->tables);
    t->state = calloc(1, t->schedule.state_size);
    assert_non_null(t->state);
}

static void truth_finish(truth *t)
{
    free(t->state);
    planner_tables_finish(&t->tables);
}

static planner_value truth_value(truth *t)
{
    planner_totals totals = planner_totals_of(&t->tables, t->options);
    return planner_value_of(
        t->tables.problem, &totals,
        planner_evaluate(&t->schedule, t->options, t->state, NULL, NULL));
}

static void try_all(truth *t, uint32_t node)
{
    const planner_solve_problem *p = t->tables.problem;
    if (node == p->n_nodes) {
        planner_value value = truth_value(t);
        if (planner_value_better(value, t->best))
            t->best = value;
        return;
    }
    for (uint32_t o = 0; o < p->nodes[node].n_options; o++) {
        t->options[node] = o;
        try_all(t, node + 1);
    }
}

static planner_value best_of_all(const problem *q)
{
    truth t = {.best = {INFINITY, INFINITY, INFINITY, INFINITY}};
    truth_make(&t, q);
    try_all(&t, 0);
    truth_finish(&t);
    return t.best;
}

/* Everything that holds of any answer. */
static planner_value check_solution(const problem *q, const planner_solution *s)
{
    uint32_t options[PROBLEM_NODES];
    truth t;
    double ns, energy = 0;
    truth_make(&t, q);
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        const planner_solve_node *node = &q->nodes[i];
        options[i] = s->choices[i].option;
        t.options[i] = options[i] - node->first_option;
        assert_true(t.options[i] < node->n_options);
        const planner_solve_option *o = &q->options[options[i]];
        for (uint32_t k = 0; k < o->n_pieces; k++)
            energy += q->pieces[o->first_piece + k].energy_nj;
    }
    assert_ok(planner_solve_evaluate(&q->p, options, NULL, NULL, &ns));
    assert_ns(s->makespan_ns, ns);
    assert_ns(s->energy_nj, energy);
    planner_value value = truth_value(&t);
    assert_ns(value.ns, ns);
    truth_finish(&t);
    return value;
}

/* Each alternative takes what it says; best: and is the best of its node. */
static void check_alternatives(const problem *q, const planner_solution *s,
                               bool best_ones)
{
    truth t;
    truth_make(&t, q);
    for (uint32_t i = 0; i < q->p.n_nodes; i++)
        t.options[i] = s->choices[i].option - q->nodes[i].first_option;
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        const planner_solve_choice *c = &s->choices[i];
        uint32_t own = t.options[i];
        planner_value best = {INFINITY, INFINITY, INFINITY, INFINITY},
                      said = best;
        for (uint32_t o = 0; o < q->nodes[i].n_options; o++) {
            t.options[i] = o;
            planner_value value = truth_value(&t);
            if (o != own && planner_value_better(value, best))
                best = value;
            if (q->nodes[i].first_option + o == c->alternative)
                said = value;
        }
        t.options[i] = own;
        if (q->nodes[i].n_options == 1) {
            assert_int_equal(c->alternative, UINT32_MAX);
            continue;
        }
        assert_ns(c->alternative_ns, said.ns);
        assert_false(best_ones && planner_value_better(best, said));
    }
    truth_finish(&t);
}

/* A chain of products, each computed by device 2 in place, or by device 0 with
 * a weight that it holds or that device 1 copies. */
static problem *chain_of_lanes(test_random *r, uint32_t n, uint64_t ring,
                               double copy_ns)
{
    problem *q = problem_new(3);
    for (int d = 0; d < 3; d++)
        q->devices[d] = problem_device(5, 10, 3, 20, false);
    q->devices[1].ring = ring;
    for (uint32_t i = 0; i < n; i++) {
        const double size = 10 + (double)test_below(r, 90);
        planner_solve_node *node = problem_node(q);
        if (i)
            problem_dep(node, i - 1);
        problem_option(q);
        problem_piece(q, 0, 2 * size, whole_box)->weight_bytes = 1;
        problem_option(q);
        planner_solve_piece *copy = problem_piece(q, 1, copy_ns * size, no_box);
        for (int k = 0; k < PLANNER_SOLVE_DEPS; k++)
            copy->needs[k] = no_box;
        copy->ring_bytes = (uint64_t)size;
        problem_piece(q, 0, 2 * size, whole_box)->after = 1;
        problem_option(q);
        problem_piece(q, 2, 20 * size, whole_box);
    }
    return q;
}

/* What the makespan would be with another option of a node, where copies run
 * beside the work, is told without going on to the end. */
static void test_points(void **state)
{
    (void)state;
    test_random r = {8};
    for (int i = 0; i < 6; i++) {
        const uint64_t ring = i % 2 ? 2000 : 200;
        const double copy_ns = 10 + 10 * i;
        problem *q = chain_of_lanes(&r, 400, ring, copy_ns);
        const planner_block none = {0};
        truth t = {.tables = {0}};
        planner_trials trials;
        uint32_t options[400], near = 0, n = 0;
        double ns[1200], *at = ns;
        truth_make(&t, q);
        for (uint32_t j = 0; j < 400; j++)
            options[j] = test_below(&r, 3);
        assert_ok(planner_trials_make(&t.schedule, &trials));
        planner_improve_all(&trials, &none, options, ns);
        planner_trials_finish(&trials);
        for (uint32_t j = 0; j < 400; j++) {
            const uint32_t own = options[j];
            for (options[j] = 0; options[j] < 3; options[j]++, n++) {
                const double want =
                    planner_evaluate(&t.schedule, options, t.state, NULL, NULL);
                near += fabs(*at++ - want) <= 1e-5 * want;
            }
            options[j] = own;
        }
        print_message("ring of %llu, copies %g ns a byte: %u of %u exact\n",
                      (unsigned long long)ring, copy_ns, near, n);
        assert_true(near >= n * 95 / 100);
        truth_finish(&t);
        free(q);
    }
}

enum { REPLICAS, ROWS, CHANNELS };

/* Whole on either device, divided over both, or replicated. */
static void add_shared_node(problem *q, double ns, uint32_t axis)
{
    for (uint32_t d = 0; d < 2; d++) {
        problem_option(q);
        problem_piece(q, d, ns, whole_box);
    }
    for (uint32_t both = 0; both < (axis == CHANNELS ? 2 : 1); both++) {
        problem_option(q);
        for (uint32_t d = 0; d < 2; d++) {
            planner_solve_piece *piece = problem_piece(
                q, d, axis == REPLICAS ? ns : ns / 2,
                axis == ROWS ? columns(8 * d, 8 * d + 8) : whole_box);
            piece->partial = axis == CHANNELS;
            if (axis == CHANNELS)
                piece->needs[0] = columns(8 * d, 8 * d + 8);
        }
        for (uint32_t d = 0; d < 1 + both && axis == CHANNELS; d++) {
            planner_solve_piece *join = problem_piece(q, d, 2, whole_box);
            join->joins = true;
            join->needs[0] = no_box;
        }
    }
}

/* Norm, up, down and sum of some layers; *replicated: takes the last option of
 * each node. */
static problem *layers(uint32_t n, uint32_t *replicated)
{
    static const uint32_t axes[] = {REPLICAS, ROWS, CHANNELS, REPLICAS};
    problem *q = problem_new(2);
    for (uint32_t d = 0; d < 2; d++)
        q->devices[d] = problem_device(1, 2, 5, 40, true);
    for (uint32_t i = 0; i < 4 * n; i++) {
        planner_solve_node *node = problem_node(q);
        node->class = i % 4 + (i ? 1 : 0) * 4;
        if (i)
            problem_dep(node, i - 1);
        if (i > 4 && i % 4 == 3)
            problem_dep(node, i - 4);
        node->class += 8 * node->n_deps;
        add_shared_node(q, axes[i % 4] == REPLICAS ? 2 : 100, axes[i % 4]);
        replicated[i] = q->p.n_options - 1;
    }
    return q;
}

/* Devices that each do the small nodes between divided ones for themselves
 * meet once for two products, not twice. */
static void test_replicas(void **state)
{
    (void)state;
    uint32_t all[40];
    double ns;
    planner_solution with, without;
    problem *q = layers(10, all);
    assert_ok(planner_solve_evaluate(&q->p, all, NULL, NULL, &ns));
    assert_ok(planner_search(&q->p, 0, &with));
    assert_ok(planner_search(
        &q->p, PLANNER_STAGE_TOGETHER | PLANNER_STAGE_REPLICAS, &without));
    print_message("replicated %.0f ns, found %.0f, %.0f without them\n", ns,
                  with.makespan_ns, without.makespan_ns);
    assert_true(with.makespan_ns <= ns + 1e-6);
    assert_true(without.makespan_ns > 1.05 * ns);
    planner_solution_finish(&with);
    planner_solution_finish(&without);
    free(q);
}

/* How near answers come to the best ones. */
typedef struct tally {
    uint32_t n, optimal;
    uint32_t no_room;  /* weights that could have fitted */
    uint32_t broken;   /* other constraints that could have been kept better */
    double sum, worst; /* of ratios of makespans, where both keep to the same */
} tally;

/* The best choice there is; options: [n_nodes], or NULL. */
static planner_value oracle_of(const problem *q, uint32_t *options)
{
    truth t = {.tables = {0}};
    planner_value best;
    truth_make(&t, q);
    assert_true(exact_possible(&t.tables));
    best = exact_search(&t.schedule, t.options);
    for (uint32_t i = 0; options && i < q->p.n_nodes; i++)
        options[i] = q->nodes[i].first_option + t.options[i];
    truth_finish(&t);
    return best;
}

static planner_value oracle(const problem *q)
{
    return oracle_of(q, NULL);
}

static void check_optimum(const problem *q, uint64_t seed, bool free,
                          tally *sum)
{
    planner_solution s;
    planner_value best = oracle(q);
    assert_ok(planner_search(&q->p, 0, &s));
    sum->n++;
    planner_value value = check_solution(q, &s);
    if (planner_value_better(value, best))
        fail_msg("seed %llu: %.3f ns (%g over) are better than the best, %.3f "
                 "(%g over)",
                 (unsigned long long)seed, value.ns, value.share, best.ns,
                 best.share);
    sum->optimal += !planner_value_better(best, value);
    if (best.memory <= 0 && value.memory > 0) {
        sum->no_room++;
    } else if (value.memory > best.memory || value.share > best.share + 1e-9) {
        sum->broken++;
    } else if (best.ns > 0) {
        sum->sum += value.ns / best.ns - 1;
        sum->worst = fmax(sum->worst, value.ns / best.ns - 1);
    }
    check_alternatives(q, &s, free);
    planner_solution_finish(&s);
}

static void print_tally(const tally *t)
{
    print_message("optimal %.1f%%, out of memory %.2f%%, other constraints "
                  "broken %.1f%%, longer by %.2f%% in the mean, %.1f%% at "
                  "most\n",
                  100.0 * t->optimal / t->n, 100.0 * t->no_room / t->n,
                  100.0 * t->broken / t->n, 100 * t->sum / t->n,
                  100 * t->worst);
}

static problem *random_problem(test_random *r, uint32_t max_nodes)
{
    problem *q = problem_new(1 + test_below(r, 4));
    uint32_t n = 1 + test_below(r, max_nodes);
    random_devices(r, q);
    while (q->p.n_nodes < n)
        random_node(r, q, 7, true);
    return q;
}

static void restrict_devices(test_random *r, problem *q)
{
    for (uint32_t d = 0; d < q->p.n_devices; d++) {
        if (test_below(r, 2))
            q->devices[d].memory = test_below(r, 4000);
        if (test_below(r, 2))
            q->devices[d].max_share = test_below(r, 11) / 10.0;
    }
}

/* What is found is no worse than what is known, and as good as ever where that
 * is bad. */
static void test_known(void **state)
{
    (void)state;
    uint32_t missed = 0, known[PROBLEM_NODES];
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        test_random r = {seed * 7919};
        problem *q = random_problem(&r, 3);
        planner_solution s;
        restrict_devices(&r, q);
        planner_value best = oracle_of(q, known);
        assert_ok(planner_search(&q->p, 0, &s));
        planner_value value = check_solution(q, &s);
        planner_solution_finish(&s);
        missed += planner_value_better(best, value);
        q->p.known = known;
        assert_ok(planner_search(&q->p, 0, &s));
        assert_false(planner_value_better(best, check_solution(q, &s)));
        check_alternatives(q, &s, false);
        planner_solution_finish(&s);
        for (uint32_t i = 0; i < q->p.n_nodes; i++)
            known[i] = q->nodes[i].first_option;
        assert_ok(planner_search(&q->p, 0, &s));
        assert_false(planner_value_better(value, check_solution(q, &s)));
        planner_solution_finish(&s);
        known[0] += q->nodes[0].n_options;
        assert_int_equal(planner_search(&q->p, 0, &s), CLV_ERR_INVALID);
        free(q);
    }
    print_message("the search alone misses the best of %u\n", missed);
    assert_true(missed > 10);
}

/* The oracle leaves out nothing that matters. */
static void test_oracle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        test_random r = {seed * 6007};
        problem *q = random_problem(&r, 3);
        if (seed % 2)
            random_memories(&r, q);
        if (seed % 3)
            restrict_devices(&r, q);
        planner_value best = best_of_all(q), found = oracle(q);
        assert_false(planner_value_better(best, found));
        assert_false(planner_value_better(found, best));
        free(q);
    }
}

static void test_optimum(void **state)
{
    (void)state;
    tally sum = {0};
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        test_random r = {seed};
        problem *q = random_problem(&r, seed % 4 ? 3 : 6);
        if (seed % 2)
            random_memories(&r, q);
        check_optimum(q, seed, true, &sum);
        free(q);
    }
    print_tally(&sum);
    assert_true(sum.optimal > 0.98 * sum.n && !sum.broken);
    assert_true(sum.sum / sum.n < 0.001 && sum.worst < 0.2);
}

static void test_constraints(void **state)
{
    (void)state;
    tally sum = {0};
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        test_random r = {seed * 7919};
        problem *q = random_problem(&r, 3);
        restrict_devices(&r, q);
        check_optimum(q, seed, false, &sum);
        free(q);
    }
    print_tally(&sum);
    assert_true(sum.optimal > 0.9 * sum.n);
    assert_true(!sum.no_room && sum.broken < 0.005 * sum.n);
    assert_true(sum.sum / sum.n < 0.02);
}

/* ------------------------------------------------------------------------ */
/* Larger ones                                                               */

static double solved(const planner_solve_problem *p)
{
    planner_solution s;
    assert_ok(planner_search(p, 0, &s));
    double ns = s.makespan_ns;
    planner_solution_finish(&s);
    return ns;
}

/* The problem with options of one piece only, where a node has any. */
static problem *whole_only(const problem *q)
{
    problem *out = problem_new(q->p.n_devices);
    memcpy(out->devices, q->devices, sizeof q->devices);
    memcpy(out->pieces, q->pieces, sizeof q->pieces);
    out->p.n_pieces = q->p.n_pieces;
    out->p.n_nodes = q->p.n_nodes;
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        const planner_solve_node *from = &q->nodes[i];
        planner_solve_node *to = &out->nodes[i];
        *to = *from;
        to->first_option = out->p.n_options;
        to->n_options = 0;
        for (int all = 0; all < 2 && !to->n_options; all++)
            for (uint32_t o = 0; o < from->n_options; o++) {
                if (!all && q->options[from->first_option + o].n_pieces > 1)
                    continue;
                out->options[out->p.n_options++] =
                    q->options[from->first_option + o];
                to->n_options++;
            }
    }
    return out;
}

/* Everything on one device; 0 where it does not take all. */
static double alone(const problem *q, uint32_t device)
{
    uint32_t options[PROBLEM_NODES];
    double ns;
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        const planner_solve_node *node = &q->nodes[i];
        uint32_t o = 0;
        for (; o < node->n_options; o++) {
            const planner_solve_option *x = &q->options[node->first_option + o];
            if (x->n_pieces == 1 && q->pieces[x->first_piece].device == device)
                break;
        }
        if (o == node->n_options)
            return 0;
        options[i] = node->first_option + o;
    }
    assert_ok(planner_solve_evaluate(&q->p, options, NULL, NULL, &ns));
    return ns;
}

/* Node by node the option after which all is done soonest. */
static double greedy(const problem *q)
{
    truth t;
    truth_make(&t, q);
    planner_solve_problem part = q->p;
    for (part.n_nodes = 1; part.n_nodes <= q->p.n_nodes; part.n_nodes++) {
        uint32_t i = part.n_nodes - 1, best = 0;
        double least = INFINITY;
        truth p;
        assert_ok(planner_tables_make(&part, &p.tables));
        planner_schedule_init(&p.schedule, &p.tables);
        p.state = t.state;
        memcpy(p.options, t.options, sizeof p.options);
        for (uint32_t o = 0; o < q->nodes[i].n_options; o++) {
            p.options[i] = o;
            double ns = truth_value(&p).ns;
            if (ns < least) {
                least = ns;
                best = o;
            }
        }
        t.options[i] = best;
        planner_tables_finish(&p.tables);
    }
    double ns = truth_value(&t).ns;
    truth_finish(&t);
    return ns;
}

static void check_no_worse(const problem *q, uint64_t seed)
{
    planner_solution s;
    assert_ok(planner_search(&q->p, 0, &s));
    double ns = check_solution(q, &s).ns * (1 - 1e-9), other;
    const char *what = "greedy";
    if (ns > (other = greedy(q)))
        fail_msg("seed %llu: %.3f ns, %s takes %.3f", (unsigned long long)seed,
                 ns, what, other);
    what = "one device";
    for (uint32_t d = 0; d < q->p.n_devices; d++)
        if ((other = alone(q, d)) > 0 && ns > other)
            fail_msg("seed %llu: %.3f ns, %s takes %.3f",
                     (unsigned long long)seed, ns, what, other);
    problem *whole = whole_only(q);
    if (ns > (other = solved(&whole->p)))
        fail_msg("seed %llu: %.3f ns, whole nodes take %.3f",
                 (unsigned long long)seed, ns, other);
    free(whole);
    check_alternatives(q, &s, true);
    planner_solution_finish(&s);
}

static void test_larger(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        test_random r = {seed * 104729};
        problem *q = problem_new(1 + test_below(&r, 4));
        uint32_t n = 6 + test_below(&r, 20);
        random_devices(&r, q);
        while (q->p.n_nodes < n)
            if (seed % 2)
                random_node(&r, q, 8, false);
            else
                layer_node(&r, q, test_below(&r, 2));
        if (seed % 3 == 0)
            random_memories(&r, q);
        check_no_worse(q, seed);
        free(q);
    }
}

/* Layers: the search of a few copies is as good as that of all of them. */
static void test_repeated(void **state)
{
    (void)state;
    double worst = 0, sum = 0;
    int n_cases = 60;
    for (uint64_t seed = 1; seed <= (uint64_t)n_cases; seed++) {
        double ns[2];
        for (int same_class = 0; same_class < 2; same_class++) {
            test_random r = {seed * 31337};
            problem *q = problem_new(2 + test_below(&r, 2));
            uint32_t period = 2 + test_below(&r, 4);
            random_devices(&r, q);
            layer_node(&r, q, false);
            layer_node(&r, q, false);
            for (uint32_t i = 0; i < period; i++)
                layer_node(&r, q, test_below(&r, 2));
            if (seed % 3 == 0)
                random_memories(&r, q);
            repeat_nodes(q, period, 12, same_class);
            planner_solution s;
            assert_ok(planner_search(&q->p, 0, &s));
            check_solution(q, &s);
            ns[same_class] = s.makespan_ns;
            planner_solution_finish(&s);
            free(q);
        }
        double more = ns[1] / ns[0] - 1;
        worst = more > worst ? more : worst;
        sum += more;
    }
    print_message("copied layers against searched ones: %+.2f%%, at most "
                  "%+.2f%%\n",
                  100 * sum / n_cases, 100 * worst);
    assert_true(sum / n_cases < 0.005 && worst < 0.1);
}

/* ------------------------------------------------------------------------ */
/* Constraints on many nodes                                                 */

/* A chain of n nodes: 10 ns and 100 bytes on device 0, 30 on device 1. */
static problem *chain(uint32_t n)
{
    problem *q = problem_new(2);
    for (uint32_t i = 0; i < n; i++) {
        planner_solve_node *node = problem_node(q);
        node->class = 1 + !i;
        if (i)
            problem_dep(node, i - 1);
        problem_option(q);
        problem_piece(q, 0, 10, whole_box)->weight_bytes = 100;
        problem_option(q);
        problem_piece(q, 1, 30, whole_box)->weight_bytes = 100;
    }
    return q;
}

/* As many nodes as fit are on the device that is faster. */
static void test_memory(void **state)
{
    (void)state;
    for (uint32_t fit = 0; fit <= 40; fit += 5) {
        problem *q = chain(40);
        planner_solution s;
        q->devices[0].memory = 100 * fit + 50;
        assert_ok(planner_search(&q->p, 0, &s));
        planner_value value = check_solution(q, &s);
        assert_true(planner_value_legal(value));
        assert_ns(value.ns, 10 * fit + 30 * (40 - fit));
        planner_solution_finish(&s);
        q->devices[1].memory = 100 * (40 - fit) - (fit < 40);
        assert_ok(planner_search(&q->p, 0, &s));
        value = check_solution(q, &s);
        assert_ns(value.memory, fit < 40 ? 1 : 0);
        planner_solution_finish(&s);
        free(q);
    }
}

/* A chain's nodes run one after another: 30 of 40 may be on device 0. */
static void test_share(void **state)
{
    (void)state;
    problem *q = chain(40);
    planner_solution s;
    q->devices[0].max_share = 0.5;
    assert_ok(planner_search(&q->p, 0, &s));
    planner_value value = check_solution(q, &s);
    assert_true(planner_value_legal(value));
    assert_ns(value.ns, 600);
    planner_solution_finish(&s);
    /* Nobody else takes the first 20: as little more as possible. */
    for (uint32_t i = 0; i < 20; i++) {
        q->nodes[i].class = 3 + !i;
        q->nodes[i].n_options = 1;
    }
    q->devices[0].max_share = 0.1;
    assert_ok(planner_search(&q->p, 0, &s));
    value = check_solution(q, &s);
    assert_ns(value.ns, 20 * 10 + 20 * 30);
    assert_ns(value.share, 200.0 / 800 - 0.1);
    planner_solution_finish(&s);
    free(q);
}

/* Layers of a model: what is asked for is kept, at a price. */
static void test_model_constraints(void **state)
{
    (void)state;
    const model_shape shape = {.n_layers = 32,
                               .n_tokens = 64,
                               .width = 512,
                               .kv_width = 128,
                               .hidden = 1536};
    model_problem *m = model_problem_new(&shape);
    assert_non_null(m);
    double ns = solved(&m->p), before = ns;
    for (int quarter = 3; quarter >= 0; quarter--) {
        planner_solution s;
        planner_totals totals = {0};
        m->devices[MODEL_NPU].max_share = quarter / 4.0;
        assert_ok(planner_search(&m->p, 0, &s));
        for (uint32_t i = 0; i < m->p.n_nodes; i++) {
            const planner_solve_option *o = &m->options[s.choices[i].option];
            for (uint32_t k = 0; k < o->n_pieces; k++)
                totals.ns[m->pieces[o->first_piece + k].device] +=
                    m->pieces[o->first_piece + k].ns;
        }
        assert_true(totals.ns[MODEL_NPU] <=
                    (quarter / 4.0 + 1e-9) * s.makespan_ns);
        assert_true(s.makespan_ns >= before * 0.99);
        before = s.makespan_ns;
        planner_solution_finish(&s);
    }
    assert_true(before > ns);
    model_problem_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_optimum),
        cmocka_unit_test(test_constraints),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_model_constraints),
        cmocka_unit_test(test_larger),
        cmocka_unit_test(test_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
