/*
 * Drives the plugin through its ABI: a host table of our own, and graphs of
 * tensors in guarded memory.
 */
#pragma once

#include <cleave/plugin.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct host {
    clv_host_api api;
    const char *threads, *features, *poll; /* options */
    _Atomic int64_t live;  /* allocations not freed */
    _Atomic int64_t calls; /* allocations asked for */
    int64_t fail_at;       /* the call that gets NULL, from 1; 0: none */
    pthread_mutex_t lock;
    char error[512]; /* the latest, under the lock while threads run */
} host;

typedef struct plugin {
    void *lib;
    const clv_plugin_api *api;
    host host;
    clv_plugin_instance *inst;
    clv_plugin_device *dev;
} plugin;

/* Fails the test if the plugin cannot be had. */
const clv_plugin_api *plugin_load(void **lib);
void host_init(host *h);
/* Loads and opens with these options; NULL: the default. */
void plugin_open(plugin *p, const char *threads, const char *features);
/* Closes and unloads; nothing may be left. */
void plugin_close(plugin *p);

#define MAX_TENSORS 16
#define MAX_NODES 8

typedef struct tensor {
    unsigned char *block; /* guard, data, guard; NULL: a view */
    unsigned char *data;
    uint64_t size;
    int64_t rows, row, stride; /* bytes of a row, and to the next */
} tensor;

typedef struct graph {
    clv_tensor_desc descs[MAX_TENSORS];
    tensor tensors[MAX_TENSORS];
    clv_node nodes[MAX_NODES];
    clv_symbol_range ranges[CLV_MAX_SYMBOLS];
    int64_t values[CLV_MAX_SYMBOLS]; /* of the symbols, in a run */
    uint32_t n_tensors, n_nodes, n_symbols;
} graph;

/* Rank 1 where n is 0. Rows are pad bytes further apart than they are long.
 * The content is random, fit for the dtype. Returns the index. */
uint32_t add_tensor(graph *g, uint32_t dtype, uint32_t usage, int64_t n,
                    int64_t c, int64_t pad);
/* Rows and columns of another tensor, in its memory. */
uint32_t add_view(graph *g, uint32_t base, int64_t row, int64_t n,
                  int64_t column, int64_t c);
/* Inputs, then the output; CLV_NO_TENSOR for none. */
clv_node *add_node(graph *g, uint32_t op, const uint32_t *inputs, uint32_t n,
                   uint32_t output);
#define NODE(g, op, out, ...)                                                 \
    add_node(g, op, (const uint32_t[]){__VA_ARGS__},                          \
             sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), out)
void graph_free(graph *g);
clv_subgraph graph_view(const graph *g);

/* Capabilities of node i; the plugin must answer. */
clv_op_caps graph_caps(plugin *p, const graph *g, uint32_t node);
/* Compiles, runs, waits; checks the guards. */
clv_status graph_run(plugin *p, graph *g);

/* Element (i, j), decoded from its dtype; rank 1: row 0. */
double get(const graph *g, uint32_t t, int64_t i, int64_t j);
void set_f32(graph *g, uint32_t t, int64_t i, int64_t j, float value);
void set_i32(graph *g, uint32_t t, int64_t i, int32_t value);

/* The largest normalised mean square error of a class. */
double error_bound(uint32_t error_class);

/* Uniform in -1..1, or below n; the same in every run. */
double random_real(void);
uint32_t random_below(uint32_t n);
