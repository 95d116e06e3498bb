/* Problems for the search, made by hand or at random. */
#pragma once

#include "../../planner/search/search.h"

#include <stdlib.h>

#include "test.h"

#define PROBLEM_NODES 600
#define PROBLEM_OPTIONS 3000
#define PROBLEM_PIECES 8000

typedef struct problem {
    planner_solve_problem p;
    planner_solve_device devices[PLANNER_SOLVE_DEVICES];
    planner_solve_node nodes[PROBLEM_NODES];
    planner_solve_option options[PROBLEM_OPTIONS];
    planner_solve_piece pieces[PROBLEM_PIECES];
} problem;

static inline problem *problem_new(uint32_t n_devices)
{
    problem *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->p = (planner_solve_problem){.devices = q->devices,
                                   .nodes = q->nodes,
                                   .options = q->options,
                                   .pieces = q->pieces,
                                   .n_devices = n_devices};
    for (uint32_t d = 0; d < n_devices; d++)
        q->devices[d] =
            (planner_solve_device){.memory = UINT64_MAX, .max_share = 1};
    return q;
}

static inline planner_solve_device problem_device(double submit, double idle,
                                                  double dispatch, double wait,
                                                  bool host_waits)
{
    return (planner_solve_device){.submit_ns = submit,
                                  .submit_idle_ns = idle,
                                  .dispatch_ns = dispatch,
                                  .wait_ns = wait,
                                  .host_waits = host_waits,
                                  .memory = UINT64_MAX,
                                  .max_share = 1};
}

/* Results are 16 rows of 16 columns. */
#define PROBLEM_EXTENT 16
static const planner_box whole_box = {.end = {PROBLEM_EXTENT, PROBLEM_EXTENT}};
static const planner_box no_box = {.end = {0, 0}};

static inline planner_box columns(int64_t begin, int64_t end)
{
    return (planner_box){.begin = {0, begin}, .end = {PROBLEM_EXTENT, end}};
}

static inline planner_box rows(int64_t begin, int64_t end)
{
    return (planner_box){.begin = {begin, 0}, .end = {end, PROBLEM_EXTENT}};
}

/* A node of its own class without deps and options yet. */
static inline planner_solve_node *problem_node(problem *q)
{
    assert_true(q->p.n_nodes < PROBLEM_NODES);
    planner_solve_node *node = &q->nodes[q->p.n_nodes];
    *node = (planner_solve_node){.first_option = q->p.n_options,
                                 .class = q->p.n_nodes};
    q->p.n_nodes++;
    return node;
}

static inline void problem_dep(planner_solve_node *node, uint32_t dep)
{
    node->deps[node->n_deps++] = dep;
}

/* Another option of the latest node. */
static inline void problem_option(problem *q)
{
    assert_true(q->p.n_options < PROBLEM_OPTIONS);
    q->options[q->p.n_options++] =
        (planner_solve_option){.first_piece = q->p.n_pieces};
    q->nodes[q->p.n_nodes - 1].n_options++;
}

/* Another piece of the latest option, that makes `out` of all of its deps. */
static inline planner_solve_piece *problem_piece(problem *q, uint32_t device,
                                                 double ns, planner_box out)
{
    assert_true(q->p.n_pieces < PROBLEM_PIECES);
    planner_solve_piece *piece = &q->pieces[q->p.n_pieces++];
    *piece = (planner_solve_piece){.device = device, .ns = ns, .out = out};
    for (int k = 0; k < PLANNER_SOLVE_DEPS; k++)
        piece->needs[k] = whole_box;
    q->options[q->p.n_options - 1].n_pieces++;
    return piece;
}

/* A node with one option: the whole on a device. dep: UINT32_MAX for none. */
static inline void problem_whole(problem *q, uint32_t device, double ns,
                                 uint32_t dep)
{
    planner_solve_node *node = problem_node(q);
    if (dep != UINT32_MAX)
        problem_dep(node, dep);
    problem_option(q);
    problem_piece(q, device, ns, whole_box);
}

/* Whatever the problem, with the first option of each node. */
static inline double first_makespan(const problem *q)
{
    uint32_t options[PROBLEM_NODES];
    double ns;
    for (uint32_t i = 0; i < q->p.n_nodes; i++)
        options[i] = q->nodes[i].first_option;
    assert_ok(planner_solve_evaluate(&q->p, options, NULL, NULL, &ns));
    return ns;
}

/* ------------------------------------------------------------------------ */
/* At random                                                                 */

static inline double random_ns(test_random *r, uint32_t n)
{
    return (double)test_below(r, n);
}

static inline void random_devices(test_random *r, problem *q)
{
    uint32_t cost = test_below(r, 3) * 20 + 1;
    for (uint32_t d = 0; d < q->p.n_devices; d++) {
        planner_solve_device *dev = &q->devices[d];
        dev->submit_ns = random_ns(r, cost);
        dev->submit_idle_ns = dev->submit_ns + random_ns(r, cost);
        dev->dispatch_ns = random_ns(r, cost);
        dev->wait_ns = random_ns(r, cost);
        dev->host_waits = test_below(r, 2);
    }
}

/* Some devices have memory of their own; results of nodes have sizes. */
static inline void random_memories(test_random *r, problem *q)
{
    for (uint32_t d = 0; d < q->p.n_devices; d++) {
        planner_solve_device *dev = &q->devices[d];
        if (!test_below(r, 2))
            continue;
        dev->memory_index = 1 + d;
        dev->copy_ns = random_ns(r, 20);
        dev->copy_row_ns = random_ns(r, 20);
        dev->copy_byte_ns = random_ns(r, 10) / 10;
    }
    for (uint32_t i = 0; i < q->p.n_nodes; i++) {
        planner_solve_node *node = &q->nodes[i];
        node->columns = PROBLEM_EXTENT;
        node->element_bytes = 1;
        node->wanted = !test_below(r, 4);
        for (uint32_t k = 0; k < node->n_deps; k++)
            node->read_bytes[k] = test_below(r, 8) ? 1 : 0;
    }
}

static inline void set_needs(planner_solve_piece *piece, uint32_t n_deps,
                             const uint32_t *ways)
{
    for (uint32_t k = 0; k < n_deps; k++)
        piece->needs[k] = ways[k] == 0   ? piece->out
                          : ways[k] == 1 ? no_box
                                         : whole_box;
}

/* An option of 1..3 pieces: rows, columns or partial sums. */
static inline void random_option(test_random *r, problem *q,
                                 const double *speed, const uint32_t *ways)
{
    uint32_t n_deps = q->nodes[q->p.n_nodes - 1].n_deps;
    uint32_t n = 1 + test_below(r, 3), axis = test_below(r, 3), at = 0;
    problem_option(q);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = test_below(r, q->p.n_devices);
        uint32_t end = i + 1 == n ? PROBLEM_EXTENT : at + 1 + test_below(r, 4);
        planner_box out = axis ? columns(at, end) : rows(at, end);
        if (axis == 2)
            out = whole_box;
        planner_solve_piece *piece =
            problem_piece(q, d, speed[d] * (end - at) + random_ns(r, 20), out);
        piece->partial = axis == 2 && n > 1;
        piece->weight_bytes = 100 * (end - at);
        piece->energy_nj = random_ns(r, 50);
        set_needs(piece, n_deps, ways);
        at = end;
    }
    if (axis != 2 || n == 1)
        return;
    planner_solve_piece *join = problem_piece(q, test_below(r, q->p.n_devices),
                                              random_ns(r, 20), whole_box);
    join->joins = true;
    for (int k = 0; k < PLANNER_SOLVE_DEPS; k++)
        join->needs[k] = no_box;
}

/* The whole on each of some devices. */
static inline void replicated_option(test_random *r, problem *q,
                                     const double *speed, const uint32_t *ways)
{
    const uint32_t n_deps = q->nodes[q->p.n_nodes - 1].n_deps;
    const uint32_t n = q->p.n_devices, first = test_below(r, n);
    problem_option(q);
    for (uint32_t i = 0; i < 2 + test_below(r, n - 1); i++) {
        const uint32_t d = (first + i) % n;
        planner_solve_piece *piece =
            problem_piece(q, d, speed[d] + random_ns(r, 20), whole_box);
        piece->weight_bytes = 100 * PROBLEM_EXTENT;
        piece->energy_nj = random_ns(r, 50);
        set_needs(piece, n_deps, ways);
    }
}

/* Deps are of the nodes just before it, and sometimes of any. */
static inline void random_node(test_random *r, problem *q, uint32_t max_options,
                               bool replicas)
{
    double speed[PLANNER_SOLVE_DEVICES];
    uint32_t ways[PLANNER_SOLVE_DEPS] = {0}, i = q->p.n_nodes;
    planner_solve_node *node = problem_node(q);
    uint32_t n_deps = i ? test_below(r, i < 3 ? i + 1 : 4) : 0;
    for (uint32_t k = 0; k < n_deps; k++) {
        uint32_t back = test_below(r, 8) ? 1 + test_below(r, i < 3 ? i : 3)
                                         : 1 + test_below(r, i);
        problem_dep(node, i - back);
        ways[k] = test_below(r, 4);
    }
    for (uint32_t d = 0; d < q->p.n_devices; d++)
        speed[d] = 1 + random_ns(r, 12);
    uint32_t n = 1 + test_below(r, max_options);
    for (uint32_t o = 0; o < n; o++)
        if (replicas && q->p.n_devices > 1 && o && !test_below(r, 6))
            replicated_option(r, q, speed, ways);
        else
            random_option(r, q, speed, ways);
}

/* As model graphs have them: whole on every device, and in columns at every
 * eighth between each two devices; each node needs all of one before it, or the
 * same part of two. */
static inline void layer_node(test_random *r, problem *q, bool own_part)
{
    double speed[PLANNER_SOLVE_DEVICES];
    uint32_t i = q->p.n_nodes, ways[] = {!own_part * 2, !own_part * 2};
    planner_solve_node *node = problem_node(q);
    if (i)
        problem_dep(node, i - 1);
    if (i > 1 && (own_part || !test_below(r, 3)))
        problem_dep(node, i - 2);
    for (uint32_t d = 0; d < q->p.n_devices; d++) {
        speed[d] = (1 + random_ns(r, 12)) * (own_part ? 1 : 20);
        problem_option(q);
        set_needs(problem_piece(q, d, speed[d] * PROBLEM_EXTENT, whole_box),
                  node->n_deps, ways);
    }
    for (uint32_t a = 0; a < q->p.n_devices; a++)
        for (uint32_t b = 0; b < a; b++)
            for (int64_t at = 2; at < PROBLEM_EXTENT; at += 2) {
                problem_option(q);
                double rest = (double)(PROBLEM_EXTENT - at);
                set_needs(
                    problem_piece(q, a, speed[a] * (double)at, columns(0, at)),
                    node->n_deps, ways);
                set_needs(problem_piece(q, b, speed[b] * rest,
                                        columns(at, PROBLEM_EXTENT)),
                          node->n_deps, ways);
            }
}

/* Copies of the last `period` nodes: all deps move with them. */
static inline void repeat_nodes(problem *q, uint32_t period, uint32_t copies,
                                bool same_class)
{
    for (uint32_t i = 0; i < period * (copies - 1); i++) {
        uint32_t at = q->p.n_nodes;
        assert_true(at < PROBLEM_NODES);
        q->nodes[at] = q->nodes[at - period];
        for (uint32_t k = 0; k < q->nodes[at].n_deps; k++)
            q->nodes[at].deps[k] += period;
        if (!same_class)
            q->nodes[at].class = at;
        q->p.n_nodes++;
    }
}
