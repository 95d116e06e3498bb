/*
 * Graphs for tests: tensors with known contents between sentinels, run on the
 * device under test, and element access to compare results.
 *
 * A tensor has an image in host memory. kit_run() puts it into the device's
 * memory with sentinel bytes on both sides and between padded rows, runs, reads
 * everything back and fails the case if a sentinel or an input changed.
 */
#pragma once

#include "../plugin/under_test.h"

#include <cleave/plugin_op.h>

#define KIT_MAX_TENSORS 24
#define KIT_MAX_NODES 12

typedef struct kit_tensor {
    uint8_t *data; /* image, size bytes; a view's lies in its base's */
    uint64_t size;
    uint32_t base;   /* whose memory this is; its own index unless a view */
    uint64_t offset; /* of a view in its base, bytes */
    int64_t rows, row, stride; /* rows; bytes of one, and to the next */
} kit_tensor;

typedef struct kit_graph {
    kit *k;
    kit_plugin *plugin; /* that it runs on */
    clv_tensor_desc descs[KIT_MAX_TENSORS];
    kit_tensor tensors[KIT_MAX_TENSORS];
    clv_node nodes[KIT_MAX_NODES];
    clv_symbol_range ranges[CLV_MAX_SYMBOLS];
    int64_t values[CLV_MAX_SYMBOLS]; /* of the symbols, in a run */
    uint32_t n_tensors, n_nodes, n_symbols;
    bool empty; /* tensors get zeros: only questions are asked about it */
} kit_graph;

void kit_graph_init(kit *k, kit_graph *g); /* runs on kit_under_test() */
void kit_graph_init_on(kit *k, kit_plugin *plugin, kit_graph *g);
void kit_graph_free(kit_graph *g);

/* [n, c], or rank 1 [c] where n is 0; rows lie pad bytes further apart than
 * they are long. Random content fit for the dtype. Returns the index. */
uint32_t kit_add_tensor(kit_graph *g, uint32_t dtype, uint32_t usage, int64_t n,
                        int64_t c, int64_t pad);
/* Rows row..row+n-1 and columns column..column+c-1 of another tensor, in its
 * memory. */
uint32_t kit_add_view(kit_graph *g, uint32_t base, int64_t row, int64_t n,
                      int64_t column, int64_t c);
/* Inputs, then the output; CLV_NO_TENSOR for none. */
clv_node *kit_add_node(kit_graph *g, uint32_t op, const uint32_t *inputs,
                       uint32_t n, uint32_t output);
#define KIT_NODE(g, op, out, ...)                                              \
    kit_add_node(g, op, (const uint32_t[]){__VA_ARGS__},                       \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),   \
                 out)
/* Makes dims[0] of these tensors one symbol in 1..max, with value in a run. */
uint32_t kit_make_symbol(kit_graph *g, int64_t min, int64_t max, int64_t value);
void kit_set_symbol(kit_graph *g, uint32_t tensor, uint32_t axis,
                    uint32_t symbol);

/* The plugin's view of it. */
clv_subgraph kit_subgraph(const kit_graph *g);

/* Element (i, j) decoded from its dtype; rank 1: row 0. */
double kit_get(const kit_graph *g, uint32_t t, int64_t i, int64_t j);
/* Encodes; only f32, f16, bf16 and i32. */
void kit_set(kit_graph *g, uint32_t t, int64_t i, int64_t j, double value);

/* Overwrites what was lent for a call, so that a plugin that still looks at it
 * is found out; also where it is freed next. */
void kit_forget(void *data, size_t size);

/* Answers of the device for every node; out: [g->n_nodes]. The subgraph given
 * to the plugin is a copy that is overwritten after the call, so that a plugin
 * that keeps a pointer into it is found out. */
void kit_caps(kit_graph *g, clv_op_caps *out);
/* Whether all nodes are taken in the given shapes; if not, why. */
bool kit_takes(kit_graph *g, char reason[KIT_TEXT_SIZE]);

enum {
    KIT_RUN_IMPORT = 1u << 0, /* host memory imported instead of allocated */
    KIT_RUN_OFFSET = 1u << 1, /* every tensor at an odd multiple of the stated
                                 pointer alignment in its buffer */
    KIT_RUN_TWICE = 1u << 2,  /* the program runs twice: same bytes */
};
/* Compiles, binds, submits, waits, reads back, checks sentinels. The case fails
 * if any of it does: a yes binds. */
void kit_run(kit_graph *g, uint32_t flags);

/* --- programs and bindings by hand --------------------------------------- */

/* A graph compiled and bound: for cases about programs, waits and time. */
typedef struct kit_program {
    kit_graph *g;
    clv_plugin_program *handle;
    clv_plugin_buffer *buffers[KIT_MAX_TENSORS]; /* NULL: a view's */
    clv_binding weights[KIT_MAX_TENSORS], bindings[KIT_MAX_TENSORS];
    uint32_t n_weights, n_bindings;
    uint32_t n_all_bindings; /* with those of tensors that the program does not
                                touch, which stand last */
    uint32_t mem_type;
    bool imports; /* the device takes memory by imports alone */
    uint64_t leads[KIT_MAX_TENSORS];  /* where the image lies in its buffer */
    uint64_t sizes[KIT_MAX_TENSORS];  /* of the buffers */
    uint8_t *memory[KIT_MAX_TENSORS]; /* imported */
    uint8_t *before[KIT_MAX_TENSORS]; /* the buffers as they were uploaded */
} kit_program;

/* Allocates and fills the buffers; compiles unless without_program. */
void kit_program_make(kit_graph *g, uint32_t flags, bool without_program,
                      kit_program *out);
/* The compile struct that kit_program_make() uses; for load and validate. It
 * points into p and p->g, and to graph, which it fills. */
clv_compile kit_program_compile_info(kit_program *p, clv_subgraph *graph);
/* A command that runs it with the graph's symbol values. */
clv_command kit_program_command(const kit_program *p);
void kit_program_upload(kit_program *p);   /* images to the device */
void kit_program_download(kit_program *p); /* and back, checking sentinels */
void kit_program_free(kit_program *p);

/* One command, waits and signals optional (timeline NULL: none). */
clv_status kit_submit(kit *k, const clv_command *commands, uint32_t n,
                      clv_plugin_timeline *wait, uint64_t wait_value,
                      clv_plugin_timeline *signal, uint64_t signal_value);
/* Waits at most the case's time, moving the device on where it needs it. */
clv_status kit_wait(kit *k, clv_plugin_timeline *tl, uint64_t value);

/* --- random values -------------------------------------------------------- */

double kit_random_real(kit *k); /* -1..1 */
uint32_t kit_random_below(kit *k, uint32_t n);
