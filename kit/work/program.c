/*
 * Graphs in the device's memory: every tensor that is not a view has a buffer,
 * between sentinels. How bytes get there and back is in program_memory.c.
 */
#include "element.h"
#include "../plugin/child.h"
#include "work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 128
#define GUARD_BYTE 0xa5

/* ------------------------------------------------------------------------ */
/* Where                                                                    */

/* Tensors go where a model's weights would: the device's own memory, through
 * copies where the host cannot see it. */
static uint32_t choose_type(kit_program *p, uint32_t flags)
{
    kit_plugin *s = p->g->plugin;
    uint32_t type;
    if (flags & KIT_RUN_IMPORT) {
        if (!kit_mem_type(s, 0, CLV_HANDLE_HOST_POINTER, &type))
            kit_fail(p->g->k, "the case imports, but the device does not");
        return type;
    }
    bool sees =
        s->api.buffer_map && kit_mem_type(s, CLV_MEM_HOST_VISIBLE, 0, &type);
    if (sees && kit_mem_type(s, CLV_MEM_DEVICE_LOCAL, 0, &type))
        return type;
    if (sees) {
        kit_mem_type(s, CLV_MEM_HOST_VISIBLE, 0, &type);
        return type;
    }
    if (!kit_mem_type(s, 0, CLV_HANDLE_HOST_POINTER, &type))
        kit_fail(p->g->k, "the device has no memory that the host can map, and "
                          "imports none: nothing can be given to it");
    p->imports = true;
    return type;
}

static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Whether an operand lies in the tensor's memory, or the operand's scales do.
 */
static bool is_in(const kit_graph *g, uint32_t operand, uint32_t tensor)
{
    if (operand == CLV_NO_TENSOR)
        return false;
    uint32_t scales = g->descs[operand].quant_scales;
    return g->tensors[operand].base == tensor ||
           (scales && g->tensors[scales - 1].base == tensor);
}

/* Stated by the nodes that use the tensor; else its elements'. */
static uint64_t alignment_of(const kit_graph *g, const clv_op_caps *caps,
                             uint32_t tensor)
{
    uint64_t align = (uint64_t)kit_block_size(g->descs[tensor].dtype);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *n = &g->nodes[i];
        bool used = false;
        for (uint32_t j = 0; j < n->n_inputs; j++)
            used |= is_in(g, n->inputs[j], tensor);
        for (uint32_t j = 0; j < n->n_outputs; j++)
            used |= is_in(g, n->outputs[j], tensor);
        if (used && caps[i].pointer_align)
            align = common_multiple(align, caps[i].pointer_align);
    }
    return align;
}

/* Where the image begins in its buffer: past the guard; weights in the device's
 * own layout have a buffer of their own from its beginning on. */
static uint64_t lead_of(const clv_tensor_desc *d, uint64_t align,
                        uint32_t flags)
{
    if (d->layout == CLV_LAYOUT_PRIVATE && d->usage == CLV_USAGE_WEIGHT)
        return 0;
    if (!(flags & KIT_RUN_OFFSET))
        align = common_multiple(align, 64);
    uint64_t n = (GUARD + align - 1) / align;
    if (flags & KIT_RUN_OFFSET)
        n |= 1;
    return n * align;
}

/* ------------------------------------------------------------------------ */
/* Making                                                                   */

static void import_tensor(kit_program *p, uint32_t i)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    uint64_t align = s->mem_types[p->mem_type].import_align;
    align = align > 4096 ? align : 4096;
    p->sizes[i] = (p->sizes[i] + align - 1) / align * align;
    void *memory = NULL;
    if (posix_memalign(&memory, align, p->sizes[i]))
        kit_fail(k, "the kit has no memory for %" PRIu64 " bytes", p->sizes[i]);
    p->memory[i] = memory;
    clv_import in = CLV_INIT(clv_import, CLV_STRUCT_IMPORT);
    in.handle_type = CLV_HANDLE_HOST_POINTER;
    in.access = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    in.pointer = memory;
    in.size = p->sizes[i];
    KIT_CHECK(k, s->api.buffer_import,
              "memory type %u imports, and there is no buffer_import()",
              p->mem_type);
    KIT_OK(k, s->api.buffer_import(s->dev, p->mem_type, &in, &p->buffers[i]),
           "buffer_import(%" PRIu64 " bytes)", p->sizes[i]);
}

static void make_buffer(kit_program *p, uint32_t i, uint64_t align,
                        uint32_t flags)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    p->leads[i] = lead_of(&p->g->descs[i], align, flags);
    p->sizes[i] = (p->leads[i] + p->g->tensors[i].size + GUARD + 3) / 4 * 4;
    if (p->imports || flags & KIT_RUN_IMPORT)
        import_tensor(p, i);
    else
        KIT_OK(k,
               s->api.buffer_alloc(s->dev, p->mem_type, p->sizes[i],
                                   &p->buffers[i]),
               "buffer_alloc(type %u, %" PRIu64 ")", p->mem_type, p->sizes[i]);
    KIT_CHECK(k, p->buffers[i], "a buffer: answered CLV_OK and none");
    p->before[i] = malloc(p->sizes[i]);
    if (!p->before[i])
        kit_fail(k, "the kit has no memory for %" PRIu64 " bytes", p->sizes[i]);
    memset(p->before[i], GUARD_BYTE, p->sizes[i]);
}

static void bind(kit_program *p, uint32_t i)
{
    const kit_tensor *t = &p->g->tensors[i];
    clv_binding b = {.tensor = i,
                     .buffer = p->buffers[t->base],
                     .offset = p->leads[t->base] + t->offset,
                     .size = t->size};
    if (p->g->descs[i].usage == CLV_USAGE_WEIGHT)
        p->weights[p->n_weights++] = b;
    else
        p->bindings[p->n_all_bindings++] = b;
    p->n_bindings = p->n_all_bindings;
}

clv_compile kit_program_compile_info(kit_program *p, clv_subgraph *graph)
{
    clv_compile c = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    *graph = kit_subgraph(p->g);
    c.graph = graph;
    c.weights = p->weights;
    c.n_weights = p->n_weights;
    return c;
}

static bool is_listed(const clv_program_info *info, uint32_t tensor)
{
    for (uint32_t i = 0; i < info->n_untouched; i++)
        if (info->untouched[i] == tensor)
            return true;
    return false;
}

static void check_untouched(const kit_program *p, const clv_program_info *info)
{
    KIT_CHECK(p->g->k, !info->n_untouched || info->untouched,
              "program_info counts %u untouched tensors in an array that is "
              "NULL",
              (unsigned)info->n_untouched);
    for (uint32_t i = 0; i < info->n_untouched; i++) {
        const uint32_t t = info->untouched[i];
        KIT_CHECK(p->g->k,
                  t < p->g->n_tensors &&
                      p->g->descs[t].usage == CLV_USAGE_TRANSIENT &&
                      (!i || t > info->untouched[i - 1]),
                  "program_info lists tensor %u as untouched, which is no "
                  "transient, or not behind the one before it",
                  (unsigned)t);
    }
}

/* Runs do not bind what the program does not touch. */
static void leave_out_untouched(kit_program *p)
{
    clv_program_info info = CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    clv_binding all[KIT_MAX_TENSORS];
    uint32_t n = 0, last = p->n_all_bindings;
    KIT_OK(p->g->k, p->g->plugin->api.program_info(p->handle, &info),
           "program_info");
    check_untouched(p, &info);
    memcpy(all, p->bindings, last * sizeof *all);
    for (uint32_t i = 0; i < p->n_all_bindings; i++)
        p->bindings[is_listed(&info, all[i].tensor) ? --last : n++] = all[i];
    p->n_bindings = n;
}

/* From structs that are rubbish after the call. */
static void compile(kit_program *p)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    struct lent {
        kit_graph g;
        kit_program p;
    } *lent = malloc(sizeof *lent);
    if (!lent)
        kit_fail(k, "the kit has no memory for a graph");
    lent->g = *p->g;
    lent->p = *p;
    lent->p.g = &lent->g;
    clv_subgraph graph;
    clv_compile c = kit_program_compile_info(&lent->p, &graph);
    KIT_OK(k, s->api.program_compile(s->dev, &c, &p->handle),
           "program_compile");
    KIT_CHECK(k, p->handle, "program_compile: answered CLV_OK and no program");
    kit_forget(lent, sizeof *lent);
    free(lent);
    leave_out_untouched(p);
}

void kit_program_make(kit_graph *g, uint32_t flags, bool without_program,
                      kit_program *out)
{
    clv_op_caps caps[KIT_MAX_NODES];
    memset(out, 0, sizeof *out);
    out->g = g;
    out->mem_type = choose_type(out, flags);
    kit_caps(g, caps);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].base == i)
            make_buffer(out, i, alignment_of(g, caps, i), flags);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        bind(out, i);
    kit_program_upload(out);
    if (!without_program)
        compile(out);
}

void kit_program_free(kit_program *p)
{
    kit_plugin *s = p->g->plugin;
    s->api.program_destroy(p->handle);
    for (uint32_t i = 0; i < KIT_MAX_TENSORS; i++) {
        s->api.buffer_free(p->buffers[i]);
        free(p->memory[i]);
        free(p->before[i]);
    }
    memset(p, 0, sizeof *p);
}

/* ------------------------------------------------------------------------ */
/* Running                                                                  */

clv_command kit_program_command(const kit_program *p)
{
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    c.kind = CLV_COMMAND_RUN;
    c.program = p->handle;
    c.bindings = p->bindings;
    c.n_bindings = p->n_bindings;
    c.symbols = p->g->values;
    c.n_symbols = p->g->n_symbols;
    return c;
}

clv_status kit_submit(kit *k, const clv_command *commands, uint32_t n,
                      clv_plugin_timeline *wait, uint64_t wait_value,
                      clv_plugin_timeline *signal, uint64_t signal_value)
{
    clv_timeline_point before = kit_point(wait, wait_value),
                       after = kit_point(signal, signal_value);
    return kit_try_submit(kit_under_test(k), commands, n, wait ? &before : NULL,
                          signal ? &after : NULL, 0);
}

clv_status kit_wait(kit *k, clv_plugin_timeline *tl, uint64_t value)
{
    return kit_wait_for(kit_under_test(k), tl, value, kit_time_left(k));
}

static void run_once(kit_program *p)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    clv_plugin_timeline *tl = NULL;
    KIT_OK(k, s->api.timeline_create(s->dev, 0, &tl), "timeline_create");
    kit_program *lent = malloc(sizeof *lent);
    if (!lent)
        kit_fail(k, "the kit has no memory for a run");
    *lent = *p;
    int64_t values[CLV_MAX_SYMBOLS];
    memcpy(values, p->g->values, sizeof values);
    clv_command c = kit_program_command(lent);
    c.symbols = values;
    clv_timeline_point done = kit_point(tl, 1);
    KIT_OK(k, kit_try_submit(s, &c, 1, NULL, &done, 0), "submit");
    kit_forget(lent, sizeof *lent);
    kit_forget(values, sizeof values);
    kit_forget(&c, sizeof c);
    free(lent);
    KIT_OK(k, kit_wait_for(s, tl, 1, kit_time_left(k)), "timeline_wait");
    s->api.timeline_destroy(tl);
    kit_program_download(p);
}

static uint8_t *copy_of(kit *k, const kit_tensor *t)
{
    uint8_t *copy = malloc(t->size + 1);
    if (!copy)
        kit_fail(k, "the kit has no memory for %" PRIu64 " bytes", t->size);
    memcpy(copy, t->data, t->size);
    return copy;
}

/* From the same start to the same bytes; transients excepted. */
static void run_again(kit_program *p, uint8_t *const *start)
{
    kit_graph *g = p->g;
    uint8_t *first[KIT_MAX_TENSORS] = {0};
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].base != i)
            continue;
        first[i] = copy_of(g->k, &g->tensors[i]);
        memcpy(g->tensors[i].data, start[i], g->tensors[i].size);
    }
    kit_program_upload(p);
    run_once(p);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (first[i] && g->descs[i].usage != CLV_USAGE_TRANSIENT)
            KIT_CHECK(g->k,
                      !memcmp(first[i], g->tensors[i].data, g->tensors[i].size),
                      "tensor %u: the same program run twice on the same "
                      "values gives other bytes",
                      i);
        free(first[i]);
    }
}

void kit_run(kit_graph *g, uint32_t flags)
{
    kit_program *p = malloc(sizeof *p);
    uint8_t *start[KIT_MAX_TENSORS] = {0};
    if (!p)
        kit_fail(g->k, "the kit has no memory for a program");
    for (uint32_t i = 0; i < g->n_tensors && flags & KIT_RUN_TWICE; i++)
        if (g->tensors[i].base == i)
            start[i] = copy_of(g->k, &g->tensors[i]);
    kit_program_make(g, flags, false, p);
    run_once(p);
    if (flags & KIT_RUN_TWICE)
        run_again(p, start);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        free(start[i]);
    kit_program_free(p);
    free(p);
}
