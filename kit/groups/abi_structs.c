/* What the plugin reads: structs of a newer host, with more at their ends and
 * extensions, and values of enums that are none. */
#include "abi_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE 32 /* bytes that the plugin does not know */
#define GAP 24  /* between elements */
#define UNKNOWN 0x7ff0u

/* ------------------------------------------------------------------------ */
/* Larger structs                                                           */

/* A graph as a newer host writes it. */
typedef struct newer_graph {
    abi_array tensors, nodes, graph;
} newer_graph;

static const clv_subgraph *make_newer(kit *k, const kit_graph *g,
                                      newer_graph *out)
{
    const uint32_t tensor = sizeof *g->descs, node = sizeof *g->nodes;
    abi_array_copy(k, &out->tensors, "a call", g->n_tensors, g->descs, tensor,
                   MORE, tensor + MORE + GAP);
    abi_array_copy(k, &out->nodes, "a call", g->n_nodes, g->nodes, node, MORE,
                   node + MORE + GAP);
    clv_subgraph s = kit_subgraph(g);
    s.tensors = abi_array_at(&out->tensors, 0);
    s.tensor_stride = out->tensors.stride;
    s.nodes = abi_array_at(&out->nodes, 0);
    s.node_stride = out->nodes.stride;
    abi_array_copy(k, &out->graph, "a call", 1, &s, sizeof s, MORE,
                   sizeof s + MORE);
    return abi_array_at(&out->graph, 0);
}

/* It is only read: nothing of it may have changed. */
static void free_newer(newer_graph *n)
{
    abi_array_check(&n->tensors, n->tensors.n);
    abi_array_check(&n->nodes, n->nodes.n);
    abi_array_check(&n->graph, 1);
    abi_array_free(&n->tensors);
    abi_array_free(&n->nodes);
    abi_array_free(&n->graph);
}

static void init_caps(clv_op_caps *caps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        caps[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
}

static void caps_of_newer(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    kit_graph g;
    newer_graph newer;
    clv_op_caps plain[KIT_MAX_NODES], caps[KIT_MAX_NODES];
    (void)arg;
    abi_mixed_graph(k, &g);
    kit_caps(&g, plain);
    init_caps(caps, g.n_nodes);
    const clv_subgraph *s = make_newer(k, &g, &newer);
    KIT_OK(k, p->api.op_caps(p->dev, s, caps, sizeof *caps), "op_caps");
    for (uint32_t i = 0; i < g.n_nodes; i++)
        KIT_CHECK(k,
                  caps[i].answer == plain[i].answer &&
                      caps[i].error_class == plain[i].error_class,
                  "op_caps: node %u is answered %u, and %u when structs are "
                  "longer and further apart",
                  i, plain[i].answer, caps[i].answer);
    free_newer(&newer);
    kit_graph_free(&g);
}

/* Commands and the submit around them, all of them longer. */
static clv_status submit_newer(kit *k, const clv_command *commands, uint32_t n,
                               clv_plugin_timeline *tl)
{
    kit_plugin *p = kit_under_test(k);
    clv_timeline_point done = {.timeline = tl, .value = 1};
    clv_submit submit = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    abi_array array, outer;
    abi_array_copy(k, &array, "submit", n, commands, sizeof *commands, MORE,
                   sizeof *commands + MORE + GAP);
    submit.commands = abi_array_at(&array, 0);
    submit.n_commands = n;
    submit.command_stride = array.stride;
    submit.signals = &done;
    submit.n_signals = 1;
    abi_array_copy(k, &outer, "submit", 1, &submit, sizeof submit, MORE,
                   sizeof submit + MORE);
    clv_status status = p->api.submit(p->dev, abi_array_at(&outer, 0));
    abi_array_check(&array, n);
    abi_array_check(&outer, 1);
    abi_array_free(&array);
    abi_array_free(&outer);
    return status;
}

static void run_newer(kit *k, kit_program *program)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = NULL;
    clv_command commands[2] = {kit_program_command(program),
                               kit_program_command(program)};
    KIT_OK(k, p->api.timeline_create(p->dev, 0, &tl), "timeline_create");
    KIT_OK(k, submit_newer(k, commands, 2, tl), "submit of longer commands");
    KIT_OK(k, kit_wait(k, tl, 1), "timeline_wait");
    p->api.timeline_destroy(tl);
}

/* Compiled from longer structs and run by longer commands, it computes what it
 * does from plain ones. */
static void program_of_newer(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    kit_graph g;
    kit_program program;
    newer_graph newer;
    abi_array compile;
    (void)arg;
    if (!abi_taken_graph(k, &g))
        return;
    kit_run(&g, 0);
    kit_tensor *y = &g.tensors[2];
    uint8_t *want = malloc(y->size);
    KIT_CHECK(k, want, "the kit has no memory for a tensor");
    memcpy(want, y->data, y->size);
    memset(y->data, 0xff, y->size);
    kit_program_make(&g, 0, true, &program);
    clv_subgraph plain;
    clv_compile c = kit_program_compile_info(&program, &plain);
    c.graph = make_newer(k, &g, &newer);
    abi_array_copy(k, &compile, "program_compile", 1, &c, sizeof c, MORE,
                   sizeof c + MORE);
    KIT_OK(k,
           p->api.program_compile(p->dev, abi_array_at(&compile, 0),
                                  &program.handle),
           "program_compile of longer structs");
    abi_array_check(&compile, 1);
    abi_array_free(&compile);
    free_newer(&newer);
    run_newer(k, &program);
    kit_program_download(&program);
    KIT_CHECK(k, !memcmp(want, y->data, y->size),
              "a program compiled from longer structs gives another result");
    free(want);
    kit_program_free(&program);
    kit_graph_free(&g);
}

static void create_with_newer_host(kit *k, const void *arg)
{
    kit_plugin p;
    abi_array host;
    (void)arg;
    kit_plugin_load(k, &p);
    abi_array_copy(k, &host, "create", 1, &p.host.api, sizeof p.host.api, MORE,
                   sizeof p.host.api + MORE);
    KIT_OK(k, p.api.create(abi_array_at(&host, 0), &p.inst),
           "create with a longer host table");
    uint32_t count = 0;
    KIT_OK(k, p.api.enumerate(p.inst, &count, NULL, 0), "enumerate");
    kit_plugin_destroy(&p);
    abi_array_check(&host, 1);
    abi_array_free(&host);
    kit_plugin_unload(&p);
}

/* ------------------------------------------------------------------------ */
/* Extensions                                                               */

/* Where a struct of a call gets an extension. */
typedef enum place {
    IN_SUBGRAPH,
    IN_TENSOR,
    IN_NODE,
    IN_COMPILE,
    IN_SUBMIT,
    IN_COMMAND,
} place;

static const char *const place_names[] = {"subgraph", "tensor", "node",
                                          "compile",  "submit", "command"};

typedef struct extended {
    place at;
    bool required;
} extended;

static void ask_caps(kit *k, kit_graph *g, const clv_subgraph *s, bool required)
{
    kit_plugin *p = kit_under_test(k);
    clv_op_caps caps[KIT_MAX_NODES];
    init_caps(caps, g->n_nodes);
    clv_status status = p->api.op_caps(p->dev, s, caps, sizeof *caps);
    if (!required) {
        KIT_OK(k, status, "op_caps with an unknown extension");
        KIT_CHECK(k, caps[0].answer != CLV_ANSWER_NO,
                  "op_caps: no, for an unknown extension: skip it");
    } else if (status == CLV_OK) {
        KIT_CHECK(k, caps[0].answer == CLV_ANSWER_NO,
                  "op_caps: answer %u in spite of an unknown extension that is "
                  "required",
                  caps[0].answer);
    } else {
        kit_expect(k, status, CLV_ERR_UNSUPPORTED,
                   "op_caps with a required extension");
    }
}

static void try_compile(kit *k, kit_program *program, const clv_subgraph *s,
                        const void *chain, bool required)
{
    kit_plugin *p = kit_under_test(k);
    clv_subgraph plain;
    clv_compile c = kit_program_compile_info(program, &plain);
    c.graph = s;
    clv_plugin_program *made = NULL;
    c.header.next = chain;
    clv_status status = p->api.program_compile(p->dev, &c, &made);
    kit_expect(k, status, required ? CLV_ERR_UNSUPPORTED : CLV_OK,
               "program_compile with an unknown extension%s",
               required ? " that is required" : "");
    if (!required)
        p->api.program_destroy(made);
}

static void try_submit(kit *k, kit_program *program, place at,
                       const void *chain, bool required)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = NULL;
    clv_command command = kit_program_command(program);
    clv_submit submit = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    KIT_OK(k, p->api.timeline_create(p->dev, 0, &tl), "timeline_create");
    clv_timeline_point done = {.timeline = tl, .value = 1};
    submit.commands = &command;
    submit.n_commands = 1;
    submit.command_stride = sizeof command;
    submit.signals = &done;
    submit.n_signals = 1;
    *(at == IN_SUBMIT ? &submit.header.next : &command.header.next) = chain;
    kit_expect(k, p->api.submit(p->dev, &submit),
               required ? CLV_ERR_UNSUPPORTED : CLV_OK,
               "submit with an unknown extension%s",
               required ? " that is required" : "");
    if (!required)
        KIT_OK(k, kit_wait(k, tl, 1), "timeline_wait");
    p->api.timeline_destroy(tl);
}

static void meets_extension(kit *k, const void *arg)
{
    const extended *e = arg;
    clv_header last = {sizeof last, UNKNOWN + 1, NULL};
    clv_header first = {
        sizeof first, UNKNOWN | (e->required ? CLV_STRUCT_REQUIRED : 0), &last};
    kit_graph g;
    kit_program program;
    if (!abi_taken_graph(k, &g))
        return;
    kit_program_make(&g, 0, e->at < IN_SUBMIT, &program);
    if (e->at == IN_TENSOR)
        g.descs[0].header.next = &first;
    if (e->at == IN_NODE)
        g.nodes[0].header.next = &first;
    clv_subgraph s = kit_subgraph(&g);
    if (e->at == IN_SUBGRAPH)
        s.header.next = &first;
    if (e->at < IN_COMPILE)
        ask_caps(k, &g, &s, e->required);
    if (e->at < IN_SUBMIT)
        try_compile(k, &program, &s, e->at == IN_COMPILE ? &first : NULL,
                    e->required);
    else
        try_submit(k, &program, e->at, &first, e->required);
    kit_program_free(&program);
    kit_graph_free(&g);
}

static void create_with_extension(kit *k, const void *arg)
{
    const extended *e = arg;
    clv_header extension = {sizeof extension,
                            UNKNOWN | (e->required ? CLV_STRUCT_REQUIRED : 0),
                            NULL};
    kit_plugin p;
    kit_plugin_load(k, &p);
    p.host.api.header.next = &extension;
    kit_expect(k, p.api.create(&p.host.api, &p.inst),
               e->required ? CLV_ERR_UNSUPPORTED : CLV_OK,
               "create with a host table with an unknown extension%s",
               e->required ? " that is required" : "");
    if (!e->required)
        kit_plugin_destroy(&p);
    else
        KIT_CHECK(k, !p.host.n_blocks,
                  "create: refused, and %u host allocations are not freed",
                  p.host.n_blocks);
    kit_plugin_unload(&p);
}

/* ------------------------------------------------------------------------ */

void abi_list_structs(kit_list *list)
{
    static const extended extensions[] = {
        {IN_SUBGRAPH, false}, {IN_SUBGRAPH, true}, {IN_TENSOR, false},
        {IN_TENSOR, true},    {IN_NODE, false},    {IN_NODE, true},
        {IN_COMPILE, false},  {IN_COMPILE, true},  {IN_SUBMIT, false},
        {IN_SUBMIT, true},    {IN_COMMAND, false}, {IN_COMMAND, true},
    };
    kit_add(list, KIT_PER_PLUGIN, 0, create_with_newer_host, NULL,
            "reads.host.larger");
    for (uint32_t i = 0; i < 2; i++)
        kit_add(list, KIT_PER_PLUGIN, 0, create_with_extension, &extensions[i],
                "reads.host.%s-extension",
                extensions[i].required ? "required" : "unknown");
    kit_add(list, KIT_PER_DEVICE, 0, caps_of_newer, NULL,
            "reads.op_caps.larger");
    kit_add(list, KIT_PER_DEVICE, 0, program_of_newer, NULL,
            "reads.program.larger");
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        kit_add(list, KIT_PER_DEVICE, 0, meets_extension, &extensions[i],
                "reads.%s.%s-extension", place_names[extensions[i].at],
                extensions[i].required ? "required" : "unknown");
}
