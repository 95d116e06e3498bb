/* The host's memory runs out, at each allocation in turn. */
#include "../plugin/child.h"
#include "lifecycle.h"

#include <string.h>

#define MOST 400 /* allocations of one step that are tried */

typedef struct target {
    kit *k;
    kit_plugin p;
    kit_graph g;
    bool has_graph;
    kit_program prog; /* buffers, and the program where the step runs it */
    clv_plugin_timeline *tl;
    uint64_t value;
    void *made;
} target;

typedef struct step {
    const char *name;
    bool device;  /* one is open */
    bool graph;   /* and a graph is taken, its memory bound */
    bool program; /* and compiled */
    clv_status (*act)(target *t);
    void (*undo)(target *t);
} step;

static clv_status act_create(target *t)
{
    clv_plugin_instance *inst = NULL;
    clv_status status = t->p.api.create(&t->p.host.api, &inst);
    t->made = inst;
    return status;
}

static void undo_create(target *t)
{
    KIT_OK(t->k, t->p.api.quiesce(t->made), "quiesce");
    t->p.api.destroy(t->made);
}

static clv_status act_open(target *t)
{
    clv_plugin_device *dev = NULL;
    clv_status status = t->p.api.device_open(t->p.inst, 0, &dev);
    t->made = dev;
    return status;
}

static void undo_open(target *t)
{
    t->p.api.device_close(t->made);
}

static clv_status act_buffer(target *t)
{
    clv_plugin_buffer *buf = NULL;
    clv_status status = t->p.api.buffer_alloc(t->p.dev, 0, 1000, &buf);
    t->made = buf;
    return status;
}

static void undo_buffer(target *t)
{
    t->p.api.buffer_free(t->made);
}

static clv_status act_timeline(target *t)
{
    clv_plugin_timeline *tl = NULL;
    clv_status status = t->p.api.timeline_create(t->p.dev, 0, &tl);
    t->made = tl;
    return status;
}

static void undo_timeline(target *t)
{
    t->p.api.timeline_destroy(t->made);
}

static clv_status act_compile(target *t)
{
    clv_subgraph graph;
    clv_compile info = kit_program_compile_info(&t->prog, &graph);
    clv_plugin_program *program = NULL;
    clv_status status = t->p.api.program_compile(t->p.dev, &info, &program);
    t->made = program;
    return status;
}

static void undo_compile(target *t)
{
    t->p.api.program_destroy(t->made);
}

/* Later failures come by way of the timeline. */
static clv_status act_submit(target *t)
{
    clv_command command = kit_program_command(&t->prog);
    clv_timeline_point done = kit_point(t->tl, t->value + 1);
    clv_status status = kit_try_submit(&t->p, &command, 1, NULL, &done, 1);
    if (status)
        return status;
    status = kit_wait_for(&t->p, t->tl, t->value + 1, KIT_PATIENCE_NS);
    if (!status) {
        t->value++;
        return CLV_OK;
    }
    /* A failed timeline stays so; the next try has another. */
    KIT_CHECK(t->k, status != CLV_ERR_TIMEOUT,
              "a submit that runs out of memory never signals");
    t->p.host.fail_at = 0;
    char said[KIT_TEXT_SIZE]; /* by the wait; the caller looks at it */
    memcpy(said, t->k->error, sizeof said);
    t->p.api.timeline_destroy(t->tl);
    t->tl = kit_timeline(&t->p, 0);
    t->value = 0;
    memcpy(t->k->error, said, sizeof said);
    return status;
}

static void undo_nothing(target *t)
{
    (void)t;
}

static const step steps[] = {
    {"create", false, false, false, act_create, undo_create},
    {"device_open", false, false, false, act_open, undo_open},
    {"buffer_alloc", true, false, false, act_buffer, undo_buffer},
    {"timeline_create", true, false, false, act_timeline, undo_timeline},
    {"program_compile", true, true, false, act_compile, undo_compile},
    {"submit", true, true, true, act_submit, undo_nothing},
};

/* False: the step does not apply. */
static bool target_open(kit *k, target *t, const step *s)
{
    char reason[KIT_TEXT_SIZE];
    uint32_t output;
    memset(t, 0, sizeof *t);
    t->k = k;
    kit_plugin_load(k, &t->p);
    if (s->act == act_create)
        return true;
    kit_plugin_create(&t->p);
    if (!t->p.n_devices)
        return false;
    if (!s->device)
        return true;
    kit_plugin_open(&t->p, 0);
    t->tl = kit_timeline(&t->p, 0);
    if (!s->graph)
        return true;
    t->has_graph = kit_any_graph(k, &t->p, &t->g, 0, &output, reason);
    if (t->has_graph)
        kit_program_make(&t->g, 0, !s->program, &t->prog);
    return t->has_graph;
}

static void target_close(target *t)
{
    if (t->has_graph) {
        kit_program_free(&t->prog);
        kit_graph_free(&t->g);
    }
    t->p.api.timeline_destroy(t->tl);
    if (t->p.dev)
        kit_plugin_close(&t->p);
    if (t->p.inst)
        kit_plugin_destroy(&t->p); /* nothing may be left */
    else
        KIT_CHECK(t->k, !t->p.host.n_blocks,
                  "%u host allocations are left by a create that failed",
                  (unsigned)t->p.host.n_blocks);
    kit_plugin_unload(&t->p);
}

/* Fails the n-th allocation from now on; whether it came to that. */
static bool try_step(target *t, const step *s, uint64_t n, bool all_after)
{
    kit *k = t->k;
    kit_host *host = &t->p.host;
    kit_host_clear(host);
    host->fail_after = all_after;
    uint64_t first = atomic_load(&host->n_allocs);
    host->fail_at = first + n;
    clv_status status = s->act(t);
    host->fail_at = 0;
    host->fail_after = false;
    bool came = atomic_load(&host->n_allocs) >= first + n;
    if (status) {
        KIT_CHECK(k, came, "%s fails with %d: %s", s->name, (int)status,
                  host->error);
        kit_expect(k, status, CLV_ERR_NO_MEMORY,
                   "%s when host allocation %llu of it fails", s->name,
                   (unsigned long long)n);
        KIT_CHECK(k, !t->made, "%s failed and gives an object all the same",
                  s->name);
        status = s->act(t);
        KIT_OK(k, status, "%s once there is memory again", s->name);
    }
    KIT_CHECK(k, t->made || s->act == act_submit,
              "%s answers OK and gives nothing", s->name);
    s->undo(t);
    return came;
}

static void run(kit *k, const step *s, bool all_after)
{
    /* Steps that take seconds are tried as often as half of the time allows. */
    const uint64_t until = kit_now() + kit_timeout_ns(k) / 2;
    bool came = true;
    uint64_t n = 0;
    while (came && n < MOST && kit_now() < until) {
        target t;
        if (!target_open(k, &t, s)) {
            kit_skip(k, "no device, or none that takes a small graph");
            target_close(&t);
            return;
        }
        came = try_step(&t, s, ++n, all_after);
        target_close(&t);
    }
    kit_note(k,
             came ? "the first %llu host allocations" : "%llu host allocations",
             (unsigned long long)(came ? n : n - 1));
}

static void run_one(kit *k, const void *arg)
{
    run(k, arg, false);
}

static void run_after(kit *k, const void *arg)
{
    run(k, arg, true);
}

void lifecycle_list_memory(kit_list *l)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        kit_add(l, KIT_PER_PLUGIN, 0, run_one, &steps[i], "no_memory.%s.once",
                steps[i].name);
        kit_add(l, KIT_PER_PLUGIN, 0, run_after, &steps[i],
                "no_memory.%s.after", steps[i].name);
    }
}
