/* Slots that may be called from any thread, from several at once. */
#include "lifecycle.h"

#include <stdlib.h>

enum { THREADS = 4 };
#define ENOUGH_NS 2000000000u /* for one thread: plugins may be slow */

typedef struct caller {
    kit_plugin *p;
    kit_graph g;
    bool has_graph;
    kit_program prog;
    clv_op_caps caps[KIT_MAX_NODES]; /* of the first answer */
    uint32_t index, rounds;
} caller;

static void check_same_caps(kit *k, caller *c)
{
    clv_op_caps caps[KIT_MAX_NODES];
    kit_caps(&c->g, caps);
    for (uint32_t i = 0; i < c->g.n_nodes; i++)
        KIT_CHECK(k,
                  caps[i].answer == c->caps[i].answer &&
                      caps[i].error_class == c->caps[i].error_class,
                  "op_caps answers %u for a node, and %u when other threads "
                  "call too",
                  (unsigned)c->caps[i].answer, (unsigned)caps[i].answer);
}

static void compile_and_drop(kit *k, caller *c)
{
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&c->prog, &graph);
    clv_plugin_program *program = NULL;
    clv_program_info about =
        CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    KIT_OK(k, c->p->api.program_compile(c->p->dev, &info, &program),
           "program_compile from several threads");
    KIT_OK(k, c->p->api.program_info(program, &about), "program_info");
    c->p->api.program_destroy(program);
}

/* What is tagged [any]. */
static void call_main(kit *k, void *ctx)
{
    caller *c = ctx;
    kit_plugin *p = c->p;
    const bool room = !p->info.max_programs || p->info.max_programs > THREADS;
    const uint64_t end = kit_now() + ENOUGH_NS;
    for (uint32_t i = 0; i < c->rounds && (!i || kit_now() < end); i++) {
        uint32_t count = 0;
        KIT_OK(k, p->api.mem_types(p->dev, &count, NULL, 0), "mem_types");
        KIT_CHECK(k, count == p->n_mem_types, "mem_types counts %u, then %u",
                  (unsigned)p->n_mem_types, (unsigned)count);
        clv_plugin_timeline *tl = kit_timeline(p, i);
        KIT_OK(k, p->api.timeline_signal(tl, i + 1), "timeline_signal");
        KIT_OK(k, p->api.timeline_wait(tl, i + 1, 0, 0), "timeline_wait");
        KIT_CHECK(k, kit_query(p, tl).value == i + 1, "timeline_query");
        p->api.timeline_destroy(tl);
        uint32_t type = i % p->n_mem_types, value = c->index << 16 | i;
        clv_plugin_buffer *buf = kit_buffer(p, type, 64);
        if (p->mem_types[type].flags & CLV_MEM_HOST_VISIBLE) {
            uint32_t back = 0;
            kit_bytes_put(p, type, buf, 0, &value, sizeof value);
            kit_bytes_get(p, type, buf, 0, &back, sizeof back);
            KIT_CHECK(k, back == value, "a buffer has another thread's bytes");
        }
        p->api.buffer_free(buf);
        if (!c->has_graph)
            continue;
        check_same_caps(k, c);
        if (room)
            compile_and_drop(k, c);
    }
}

static void run_threads(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    caller *callers = calloc(THREADS, sizeof *callers);
    kit_thread threads[THREADS];
    char reason[KIT_TEXT_SIZE];
    (void)arg;
    KIT_CHECK(k, callers, "no memory for the case");
    for (uint32_t i = 0; i < THREADS; i++) {
        caller *c = &callers[i];
        uint32_t output;
        c->p = p;
        c->index = i;
        c->rounds = 100;
        c->has_graph = kit_any_graph(k, p, &c->g, 0, &output, reason);
        if (c->has_graph) {
            kit_caps(&c->g, c->caps);
            kit_program_make(&c->g, 0, true, &c->prog);
        }
    }
    for (uint32_t i = 0; i < THREADS; i++)
        kit_thread_start(k, &threads[i], call_main, &callers[i]);
    if (p->info.queue_depth != 1) /* and work meanwhile */
        for (int i = 0; i < 50; i++)
            kit_do(p, NULL, 0, "an empty submit");
    for (uint32_t i = 0; i < THREADS; i++)
        kit_thread_join(&threads[i], "a thread that calls [any] slots");
    for (uint32_t i = 0; i < THREADS; i++)
        if (callers[i].has_graph) {
            kit_program_free(&callers[i].prog);
            kit_graph_free(&callers[i].g);
        }
    free(callers);
}

void lifecycle_list_threads(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, 0, run_threads, NULL, "threads");
}
