/* Problems for the search, made of bytes as they come: refused, or solved. */
#include "../../planner/search/search.h"

#include <math.h>
#include <stdlib.h>

#define MAX_NODES 6
#define MAX_OPTIONS 24
#define MAX_PIECES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct bytes {
    const uint8_t *data;
    size_t size;
} bytes;

static uint8_t next(bytes *b)
{
    if (!b->size)
        return 0;
    b->size--;
    return *b->data++;
}

/* Mostly small; now and then what no time is. */
static double next_ns(bytes *b)
{
    uint8_t byte = next(b);
    return byte == 255 ? NAN : byte == 254 ? -1 : byte == 253 ? 1e300 : byte;
}

static planner_box next_box(bytes *b)
{
    uint8_t at = next(b), to = next(b);
    return (planner_box){.begin = {at & 3, at >> 4 & 3},
                         .end = {to & 7, to >> 4 & 7}};
}

static void read_piece(bytes *b, planner_solve_piece *piece)
{
    uint8_t flags = next(b);
    piece->device = flags & 7;
    piece->partial = flags >> 3 & 1;
    piece->joins = flags >> 4 & 1;
    piece->ns = next_ns(b);
    piece->weight_bytes = next(b);
    piece->out = next_box(b);
    for (int k = 0; k < 2; k++)
        piece->needs[k] = next_box(b);
}

static void read_node(bytes *b, planner_solve_node *node)
{
    uint8_t where = next(b), what = next(b);
    node->n_deps = where & 3;
    for (uint32_t k = 0; k < node->n_deps; k++)
        node->deps[k] = where >> (2 + 2 * k) & 7;
    node->class = what & 7;
    node->n_options = what >> 5;
    node->first_option = next(b) % MAX_OPTIONS;
}

static void solve(const planner_solve_problem *problem)
{
    planner_solution solution;
    uint32_t options[MAX_NODES];
    double ns;
    if (planner_search(problem, 0, &solution))
        return;
    for (uint32_t i = 0; i < problem->n_nodes; i++)
        options[i] = solution.choices[i].option;
    if (planner_solve_evaluate(problem, options, NULL, NULL, &ns) ||
        !(fabs(ns - solution.makespan_ns) <= 1e-9 * ns))
        abort();
    planner_solution_finish(&solution);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static planner_solve_device devices[8];
    static planner_solve_node nodes[MAX_NODES];
    static planner_solve_option options[MAX_OPTIONS];
    static planner_solve_piece pieces[MAX_PIECES];
    bytes b = {data, size};
    uint8_t counts = next(&b);
    for (int d = 0; d < 8; d++) {
        uint8_t flags = next(&b);
        devices[d] = (planner_solve_device){
            .submit_ns = next_ns(&b),
            .submit_idle_ns = next_ns(&b),
            .dispatch_ns = next_ns(&b),
            .wait_ns = next_ns(&b),
            .host_waits = flags & 1,
            .memory = flags & 2 ? (uint64_t)flags * 4 : UINT64_MAX,
            .max_share = flags & 4 ? flags / 255.0 : 1};
    }
    for (int i = 0; i < MAX_NODES; i++)
        read_node(&b, &nodes[i]);
    for (int o = 0; o < MAX_OPTIONS; o++) {
        uint8_t byte = next(&b);
        options[o] = (planner_solve_option){byte & 63, byte >> 6};
    }
    for (int i = 0; i < MAX_PIECES; i++)
        read_piece(&b, &pieces[i]);
    planner_solve_problem problem = {.devices = devices,
                                     .nodes = nodes,
                                     .options = options,
                                     .pieces = pieces,
                                     .n_devices = counts & 7,
                                     .n_nodes = counts >> 3 & 7,
                                     .n_options = MAX_OPTIONS,
                                     .n_pieces = MAX_PIECES};
    if (problem.n_nodes <= MAX_NODES)
        solve(&problem);
    return 0;
}
