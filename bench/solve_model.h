/*
 * Problems like those of language models: layers of 17 nodes over an NPU, a GPU
 * and a CPU, with made-up rooflines. Every node may run whole on some devices,
 * or be divided between two of them at some points.
 */
#pragma once

#include "../planner/search/search.h"

#include <stdlib.h>
#include <string.h>

typedef struct model_shape {
    uint32_t n_layers;
    int64_t n_tokens, width, kv_width, hidden;
    bool distinct; /* every node is of a class of its own */
} model_shape;

enum { MODEL_NPU, MODEL_GPU, MODEL_CPU, MODEL_DEVICES };

typedef struct model_problem {
    planner_solve_problem p;
    model_shape shape;
    planner_solve_device devices[MODEL_DEVICES];
    planner_solve_node *nodes;
    planner_solve_option *options;
    planner_solve_piece *pieces;
} model_problem;

#define MODEL_LAYER 17
#define MODEL_OPTIONS 48 /* of a node, at most */

static const planner_solve_device model_devices[MODEL_DEVICES] = {
    {.submit_ns = 10e3,
     .submit_idle_ns = 10e3,
     .dispatch_ns = 30e3,
     .wait_ns = 5e3,
     .host_waits = true,
     .memory = UINT64_MAX,
     .max_share = 1},
    {.submit_ns = 15e3,
     .submit_idle_ns = 90e3,
     .dispatch_ns = 5e3,
     .wait_ns = 5e3,
     .host_waits = true,
     .memory = UINT64_MAX,
     .max_share = 1},
    {.submit_ns = 2e3,
     .submit_idle_ns = 5e3,
     .dispatch_ns = 1e3,
     .wait_ns = 2e3,
     .host_waits = false,
     .memory = UINT64_MAX,
     .max_share = 1},
};

/* Time of a product of n x in by in x out, int4 weights, ns. */
static inline double model_matmul_ns(int device, int64_t n, int64_t in,
                                     int64_t out)
{
    static const double flops[] = {9e3, 1e3, 0.25e3}, bytes[] = {40, 43, 30};
    if (device == MODEL_NPU)
        n = (n + 31) / 32 * 32;
    double work = 2.0 * (double)n * (double)in * (double)out / flops[device];
    double moved = ((double)in * (double)out / 2 + 2.0 * (double)(n * in) +
                    2.0 * (double)(n * out)) /
                   bytes[device];
    if (device == MODEL_NPU && in > 3 * out)
        work *= 6;
    return work > moved ? work : moved;
}

static inline double model_vector_ns(int device, int64_t n, int64_t width)
{
    static const double bytes[] = {8, 40, 25};
    return 1e3 + 6.0 * (double)(n * width) / bytes[device];
}

/* What a node is, for its options. */
typedef struct model_node {
    bool matmul;
    int64_t n, in, out; /* out: columns of the result */
    bool own_columns;   /* needs the same columns of all its deps */
    uint32_t n_deps;
    int64_t dep_columns[3]; /* of each dep */
} model_node;

static inline void model_piece(model_problem *m, const model_node *node,
                               int device, planner_box out, planner_box in)
{
    planner_solve_problem *p = &m->p;
    planner_solve_option *option = &m->options[p->n_options - 1];
    planner_solve_piece *piece = &m->pieces[p->n_pieces++];
    int64_t n = out.end[0] - out.begin[0], columns = out.end[1] - out.begin[1];
    int64_t deep = in.end[1] - in.begin[1];
    memset(piece, 0, sizeof *piece);
    piece->device = (uint32_t)device;
    piece->ns = node->matmul ? model_matmul_ns(device, n, deep, columns)
                             : model_vector_ns(device, n, columns);
    piece->energy_nj = piece->ns * (device == MODEL_GPU ? 4.3 : 2);
    piece->weight_bytes = node->matmul ? (uint64_t)(deep * columns / 2) : 0;
    piece->out = out;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        planner_box need = {.begin = {out.begin[0], 0},
                            .end = {out.end[0], node->dep_columns[k]}};
        if (node->own_columns && node->dep_columns[k] == node->out) {
            need.begin[1] = out.begin[1];
            need.end[1] = out.end[1];
        } else if (deep < node->in) {
            need.begin[1] = in.begin[1];
            need.end[1] = in.end[1];
        }
        piece->needs[k] = need;
    }
    option->n_pieces++;
}

static inline planner_box model_box(int64_t r0, int64_t r1, int64_t c0,
                                    int64_t c1)
{
    return (planner_box){.begin = {r0, c0}, .end = {r1, c1}};
}

static inline void model_option(model_problem *m)
{
    m->options[m->p.n_options++] = (planner_solve_option){m->p.n_pieces, 0};
    m->nodes[m->p.n_nodes - 1].n_options++;
}

/* Columns [0, at) on a, the rest on b. */
static inline void model_columns(model_problem *m, const model_node *node,
                                 int a, int b, int64_t at)
{
    planner_box all = model_box(0, node->n, 0, node->in);
    model_option(m);
    model_piece(m, node, a, model_box(0, node->n, 0, at), all);
    model_piece(m, node, b, model_box(0, node->n, at, node->out), all);
}

static inline void model_channels(model_problem *m, const model_node *node,
                                  int a, int b, int64_t at)
{
    planner_box out = model_box(0, node->n, 0, node->out);
    model_option(m);
    model_piece(m, node, a, out, model_box(0, node->n, 0, at));
    m->pieces[m->p.n_pieces - 1].partial = true;
    model_piece(m, node, b, out, model_box(0, node->n, at, node->in));
    m->pieces[m->p.n_pieces - 1].partial = true;
    model_piece(m, node, b, out, out);
    planner_solve_piece *join = &m->pieces[m->p.n_pieces - 1];
    join->joins = true;
    join->weight_bytes = 0;
    join->ns = model_vector_ns(b, node->n, node->out);
    memset(join->needs, 0, sizeof join->needs);
}

static inline void model_sequence(model_problem *m, const model_node *node,
                                  int a, int b, int64_t at)
{
    model_option(m);
    model_piece(m, node, a, model_box(0, at, 0, node->out),
                model_box(0, at, 0, node->in));
    model_piece(m, node, b, model_box(at, node->n, 0, node->out),
                model_box(at, node->n, 0, node->in));
}

static inline void model_options(model_problem *m, const model_node *node)
{
    planner_box out = model_box(0, node->n, 0, node->out);
    planner_box in = model_box(0, node->n, 0, node->in);
    for (int d = node->matmul ? 0 : 1; d < MODEL_DEVICES; d++) {
        model_option(m);
        model_piece(m, node, d, out, in);
    }
    static const int eighths[] = {1, 2, 3, 4, 5, 6, 7, 14};
    for (int e = 0; e < 8; e++) {
        int64_t part =
            eighths[e] == 14 ? node->out / 16 * 15 : node->out / 8 * eighths[e];
        if (node->matmul || node->own_columns) {
            if (node->matmul)
                model_columns(m, node, MODEL_NPU, MODEL_GPU, part);
            model_columns(m, node, MODEL_GPU, MODEL_CPU, part);
        }
        if (node->matmul && e % 2)
            model_channels(m, node, MODEL_NPU, MODEL_GPU,
                           eighths[e] == 14 ? node->in / 16 * 15
                                            : node->in / 8 * eighths[e]);
    }
    if (node->matmul && node->n > 256)
        model_sequence(m, node, MODEL_NPU, MODEL_GPU, 256);
    if (node->n > 2)
        model_sequence(m, node, MODEL_GPU, MODEL_CPU, node->n / 4 * 3);
}

/* deps: relative, 0: none. */
static inline void model_add(model_problem *m, uint32_t class, model_node node,
                             const uint32_t deps[3])
{
    planner_solve_problem *p = &m->p;
    uint32_t i = p->n_nodes++;
    planner_solve_node *out = &m->nodes[i];
    *out = (planner_solve_node){.class = m->shape.distinct ? i : class,
                                .first_option = p->n_options};
    int64_t columns[3];
    memcpy(columns, node.dep_columns, sizeof columns);
    for (int k = 0; k < 3; k++)
        if (deps[k] && deps[k] <= i) {
            node.dep_columns[node.n_deps++] = columns[k];
            out->deps[out->n_deps++] = i - deps[k];
        }
    if (i >= 2 * MODEL_LAYER && !m->shape.distinct) {
        out->first_option = m->nodes[i - MODEL_LAYER].first_option;
        out->n_options = m->nodes[i - MODEL_LAYER].n_options;
        return;
    }
    if (i < MODEL_LAYER) /* it may have fewer deps */
        out->class += m->shape.distinct ? 0 : MODEL_LAYER;
    model_options(m, &node);
}

static inline void model_layer(model_problem *m)
{
    int64_t n = m->shape.n_tokens, w = m->shape.width, kv = m->shape.kv_width;
    int64_t h = m->shape.hidden;
#define MATMUL(in_, out_) .matmul = true, .n = n, .in = in_, .out = out_
#define VECTOR(out_) .n = n, .in = out_, .out = out_
    const struct {
        model_node node;
        uint32_t deps[3];
    } layer[MODEL_LAYER] = {
        {{VECTOR(w), .dep_columns = {w}}, {1}},     /* norm */
        {{MATMUL(w, w), .dep_columns = {w}}, {1}},  /* q */
        {{MATMUL(w, kv), .dep_columns = {w}}, {2}}, /* k */
        {{MATMUL(w, kv), .dep_columns = {w}}, {3}}, /* v */
        {{VECTOR(w), .own_columns = true, .dep_columns = {w}}, {3}},
        {{VECTOR(kv), .own_columns = true, .dep_columns = {kv}}, {3}},
        {{VECTOR(kv), .own_columns = true, .dep_columns = {kv}}, {1}},
        {{VECTOR(kv), .own_columns = true, .dep_columns = {kv}}, {4}},
        {{VECTOR(w), .dep_columns = {w, kv, kv}}, {4, 2, 1}}, /* attention */
        {{MATMUL(w, w), .dep_columns = {w}}, {1}},            /* o */
        {{VECTOR(w), .own_columns = true, .dep_columns = {w, w}}, {1, 11}},
        {{VECTOR(w), .dep_columns = {w}}, {1}},    /* norm */
        {{MATMUL(w, h), .dep_columns = {w}}, {1}}, /* gate */
        {{MATMUL(w, h), .dep_columns = {w}}, {2}}, /* up */
        {{VECTOR(h), .own_columns = true, .dep_columns = {h, h}}, {1, 2}},
        {{MATMUL(h, w), .dep_columns = {h}}, {1}}, /* down */
        {{VECTOR(w), .own_columns = true, .dep_columns = {w, w}}, {1, 6}},
    };
#undef MATMUL
#undef VECTOR
    for (uint32_t i = 0; i < MODEL_LAYER; i++)
        model_add(m, i, layer[i].node, layer[i].deps);
}

/* NULL without memory. */
static inline model_problem *model_problem_new(const model_shape *shape)
{
    model_problem *m = calloc(1, sizeof *m);
    size_t n = (size_t)shape->n_layers * MODEL_LAYER;
    size_t n_options = (shape->distinct ? n : 2 * MODEL_LAYER) * MODEL_OPTIONS;
    if (!m)
        return NULL;
    m->shape = *shape;
    memcpy(m->devices, model_devices, sizeof m->devices);
    m->nodes = calloc(n, sizeof *m->nodes);
    m->options = calloc(n_options, sizeof *m->options);
    m->pieces = calloc(3 * n_options, sizeof *m->pieces);
    m->p = (planner_solve_problem){.devices = m->devices,
                                   .nodes = m->nodes,
                                   .options = m->options,
                                   .pieces = m->pieces,
                                   .n_devices = MODEL_DEVICES};
    for (uint32_t l = 0;
         m->nodes && m->options && m->pieces && l < shape->n_layers; l++)
        model_layer(m);
    return m;
}

static inline void model_problem_free(model_problem *m)
{
    free(m->nodes);
    free(m->options);
    free(m->pieces);
    free(m);
}
