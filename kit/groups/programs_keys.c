/* Keys of programs: what changes them, and what does not. */
#include "programs.h"

#include <stdlib.h>
#include <string.h>

/* A bench and its compile struct. */
typedef struct keyed {
    programs_bench b;
    clv_subgraph graph;
    clv_compile info;
} keyed;

static bool try_key(keyed *s, const clv_compile *info, uint8_t key[32])
{
    memset(key, 0, 32);
    return !s->b.p->api.program_key(s->b.p->dev, info, key);
}

static void check_key(keyed *s, const clv_compile *info, const uint8_t old[32],
                      bool same, const char *what)
{
    uint8_t key[32];
    KIT_OK(s->b.k, s->b.p->api.program_key(s->b.p->dev, info, key),
           "program_key with %s", what);
    KIT_CHECK(s->b.k, !memcmp(key, old, 32) == same,
              "program_key with %s gives %s key", what,
              same ? "another" : "the same");
}

static void run_key(kit *k, const void *arg)
{
    keyed s;
    uint8_t key[32], other[32];
    uint32_t flags = kit_under_test(k)->info.flags & CLV_DEVICE_STATIC_SHAPES
                         ? 0
                         : KIT_ANY_SYMBOL;
    (void)arg;
    if (!programs_open(k, flags, &s.b))
        return;
    s.info = kit_program_compile_info(&s.b.prog, &s.graph);
    kit_graph *g = &s.b.g;
    KIT_CHECK(k, try_key(&s, &s.info, key), "program_key fails");
    check_key(&s, &s.info, key, true, "the same arguments");

    /* The same graph elsewhere, further apart, with other weights' memory. */
    enum { TENSOR = sizeof(clv_tensor_desc) + 16, NODE = sizeof(clv_node) + 8 };
    uint8_t *tensors = malloc((size_t)g->n_tensors * TENSOR),
            *nodes = malloc((size_t)g->n_nodes * NODE);
    KIT_CHECK(k, tensors && nodes, "no memory for the case");
    memset(tensors, 0x6b, (size_t)g->n_tensors * TENSOR);
    memset(nodes, 0x6b, (size_t)g->n_nodes * NODE);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        memcpy(tensors + i * TENSOR, &g->descs[i], sizeof *g->descs);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        memcpy(nodes + i * NODE, &g->nodes[i], sizeof *g->nodes);
    clv_subgraph moved = s.graph;
    moved.tensors = (const void *)tensors;
    moved.tensor_stride = TENSOR;
    moved.nodes = (const void *)nodes;
    moved.node_stride = NODE;
    clv_compile info = s.info;
    info.graph = &moved;
    check_key(&s, &info, key, true,
              "the graph in other memory, elements "
              "further apart");
    free(tensors);
    free(nodes);

    clv_tensor_desc in = g->descs[0];
    g->descs[0].dims[0] += 8;
    g->descs[s.b.output].dims[0] += 8;
    if (try_key(&s, &s.info, other))
        KIT_CHECK(k, memcmp(key, other, 32),
                  "program_key does not change with the graph's shapes");
    g->descs[0] = in;
    g->descs[s.b.output].dims[0] -= 8;
    if (flags) {
        g->ranges[0].max--;
        check_key(&s, &s.info, key, false, "another bucket");
        g->ranges[0].max++;
    }
    s.info.options = "kit=1";
    if (try_key(&s, &s.info, other))
        KIT_CHECK(k, memcmp(key, other, 32),
                  "program_key does not change with clv_compile.options");
    s.info.options = NULL;
    check_key(&s, &s.info, key, true, "the first arguments again");
    programs_close(&s.b);
}

void programs_list_keys(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_SERIALIZE, run_key, NULL, "bytes.key");
}
