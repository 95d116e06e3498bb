/* Values of enums that are none: answered with a no, never with a crash. */
#include "abi_probe.h"

typedef struct strange {
    const char *name;
    void (*spoil)(kit_graph *g);
} strange;

static void spoil_op(kit_graph *g)
{
    g->nodes[0].op = 9999;
}

static void spoil_no_op(kit_graph *g)
{
    g->nodes[0].op = CLV_OP_NONE;
}

static void spoil_revision(kit_graph *g)
{
    g->nodes[0].revision = 7;
}

static void spoil_dtype(kit_graph *g)
{
    g->descs[0].dtype = 999;
}

static void spoil_layout(kit_graph *g)
{
    g->descs[0].layout = 99;
}

static void spoil_storage(kit_graph *g)
{
    g->descs[0].storage = 99;
}

static void spoil_quant(kit_graph *g)
{
    g->descs[0].quant = 99;
}

static void spoil_usage(kit_graph *g)
{
    g->descs[0].usage = 99;
}

static const strange stranges[] = {
    {"op", spoil_op},
    {"no-op", spoil_no_op},
    {"revision", spoil_revision},
    {"dtype", spoil_dtype},
    {"layout", spoil_layout},
    {"storage", spoil_storage},
    {"quant", spoil_quant},
    {"usage", spoil_usage},
};

static void meets_strange_value(kit *k, const void *arg)
{
    const strange *s = arg;
    kit_plugin *p = kit_under_test(k);
    kit_graph g;
    kit_program program;
    clv_op_caps caps;
    clv_plugin_program *made = NULL;
    if (!abi_taken_graph(k, &g))
        return;
    kit_program_make(&g, 0, true, &program);
    s->spoil(&g);
    kit_caps(&g, &caps);
    KIT_CHECK(k, caps.answer == CLV_ANSWER_NO,
              "op_caps: answer %u for an unknown value of %s", caps.answer,
              s->name);
    clv_subgraph graph = kit_subgraph(&g);
    clv_compile c = kit_program_compile_info(&program, &graph);
    kit_expect(k, p->api.program_compile(p->dev, &c, &made),
               CLV_ERR_UNSUPPORTED,
               "program_compile with an unknown value of "
               "%s",
               s->name);
    kit_program_free(&program);
    kit_graph_free(&g);
}

static void meets_strange_command(kit *k, const void *arg)
{
    clv_command command = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    (void)arg;
    command.kind = 999;
    kit_expect(k, kit_submit(k, &command, 1, NULL, 0, NULL, 0),
               CLV_ERR_UNSUPPORTED, "submit of a command of kind 999");
}

static void meets_strange_import(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_import in = CLV_INIT(clv_import, CLV_STRUCT_IMPORT);
    clv_plugin_buffer *buffer = NULL;
    uint32_t type = 0;
    static _Alignas(4096) uint8_t memory[4096];
    (void)arg;
    kit_mem_type(p, 0, CLV_HANDLE_HOST_POINTER, &type);
    in.handle_type = 1u << 20;
    in.access = CLV_ACCESS_READ;
    in.pointer = memory;
    in.size = sizeof memory;
    kit_expect(k, p->api.buffer_import(p->dev, type, &in, &buffer),
               CLV_ERR_UNSUPPORTED, "buffer_import of an unknown handle type");
}

void abi_list_values(kit_list *list)
{
    for (size_t i = 0; i < sizeof stranges / sizeof *stranges; i++)
        kit_add(list, KIT_PER_DEVICE, 0, meets_strange_value, &stranges[i],
                "unknown-value.%s", stranges[i].name);
    kit_add(list, KIT_PER_DEVICE, 0, meets_strange_command, NULL,
            "unknown-value.command");
    kit_add(list, KIT_PER_DEVICE, KIT_NEEDS_IMPORT, meets_strange_import, NULL,
            "unknown-value.handle");
}
