/* Weights and bindings that are missing, wrong, or there twice. */
#include "programs.h"

#include <stdlib.h>
#include <string.h>

static void refuse_compile(programs_bench *b, clv_compile *info,
                           const char *what)
{
    clv_plugin_program *program = NULL;
    kit_expect(b->k, b->p->api.program_compile(b->p->dev, info, &program),
               CLV_ERR_INVALID, "program_compile with %s", what);
    KIT_CHECK(b->k, !program, "a program_compile that failed gives a program");
}

/* Off every element's alignment: refused, or taken and then no harm. */
static void check_odd_weight(programs_bench *b, clv_compile info,
                             clv_binding *weights)
{
    const clv_plugin_api *api = &b->p->api;
    clv_plugin_program *program = NULL;
    clv_plugin_buffer *odd =
        kit_buffer(b->p, b->prog.mem_type, weights[0].size + 64);
    weights[0].buffer = odd;
    weights[0].offset = 1;
    clv_status status = api->program_compile(b->p->dev, &info, &program);
    if (status)
        kit_expect(b->k, status, CLV_ERR_INVALID,
                   "program_compile with a weight at offset 1 of its buffer");
    api->program_destroy(program);
    api->buffer_free(odd);
}

static void run_weights(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, KIT_ANY_WEIGHT, &b))
        return;
    b.p->api.program_destroy(b.prog.handle); /* room for another */
    b.prog.handle = NULL;
    clv_subgraph graph;
    clv_compile good = kit_program_compile_info(&b.prog, &graph), info = good;
    clv_binding w[KIT_MAX_TENSORS + 1];
    memcpy(w, good.weights, good.n_weights * sizeof *w);
    const clv_binding first = w[0];
    info.weights = w;
#define REFUSE(what, ...)                                                      \
    do {                                                                       \
        __VA_ARGS__;                                                           \
        refuse_compile(&b, &info, what);                                       \
        info = good;                                                           \
        info.weights = w;                                                      \
        w[0] = first;                                                          \
    } while (0)
    REFUSE("a weight missing", info.n_weights--, w[0] = w[info.n_weights]);
    REFUSE("weights counted in an array that is NULL", info.weights = NULL);
    REFUSE("a binding for a tensor that the graph has not",
           w[info.n_weights] = first, w[info.n_weights].tensor = 1000,
           info.n_weights++);
    REFUSE("a weight bound twice", w[info.n_weights++] = first);
    REFUSE("a weight without a buffer", w[0].buffer = NULL);
    REFUSE("a weight one byte short", w[0].size--);
    REFUSE("a weight beyond its buffer's end", w[0].offset += 1ull << 40);
    REFUSE("a weight whose range overflows", w[0].offset = UINT64_MAX);
    REFUSE("no graph", info.graph = NULL);
#undef REFUSE
    check_odd_weight(&b, info, w);
    b.prog.handle = programs_compile(&b, &good, "after refusals");
    programs_run(&b, b.prog.handle, "a program compiled after refusals");
    programs_close(&b);
}

static void refuse_run(programs_bench *b, const clv_binding *bindings,
                       uint32_t n, const char *what)
{
    const kit_tensor *out = &b->g.tensors[b->output];
    clv_command command = kit_program_command(&b->prog);
    command.bindings = bindings;
    command.n_bindings = n;
    kit_expect(b->k, programs_submit(b->p, &command), CLV_ERR_INVALID,
               "submit of a program with %s", what);
    kit_program_download(&b->prog);
    for (uint64_t i = 0; i < out->size; i++)
        KIT_CHECK(b->k, out->data[i] == 0x3c,
                  "a submit with %s was refused and wrote its output", what);
}

static void run_bindings(kit *k, const void *arg)
{
    programs_bench b;
    (void)arg;
    if (!programs_open(k, 0, &b))
        return;
    clv_command good = kit_program_command(&b.prog);
    uint32_t n = good.n_bindings, last = n - 1;
    clv_binding all[KIT_MAX_TENSORS + 1];
    memcpy(all, good.bindings, n * sizeof *all);
    for (uint32_t i = 0; i < n; i++) /* the output last */
        if (all[i].tensor == b.output) {
            clv_binding out = all[i];
            all[i] = all[last];
            all[last] = out;
        }
    const clv_binding out = all[last];
    const kit_tensor *image = &b.g.tensors[b.output];
    memset(image->data, 0x3c, image->size);
    kit_program_upload(&b.prog);
#define REFUSE(what, count, ...)                                               \
    do {                                                                       \
        __VA_ARGS__;                                                           \
        refuse_run(&b, all, count, what);                                      \
        all[last] = out;                                                       \
    } while (0)
    REFUSE("its output not bound", n - 1, (void)0);
    REFUSE("nothing bound", 0, (void)0);
    REFUSE("an output without a buffer", n, all[last].buffer = NULL);
    REFUSE("an output one byte short", n, all[last].size--);
    REFUSE("an output beyond its buffer's end", n,
           all[last].offset += 1ull << 40);
    REFUSE("a binding whose range overflows", n, all[last].offset = UINT64_MAX);
    REFUSE("a binding for a tensor that it has not", n + 1, all[n] = out,
           all[n].tensor = 1000);
    REFUSE("its output bound twice", n + 1, all[n] = out);
#undef REFUSE
    clv_command none = good;
    none.program = NULL;
    kit_expect(k, programs_submit(b.p, &none), CLV_ERR_INVALID,
               "submit of a RUN command without a program");
    none = good;
    none.bindings = NULL;
    kit_expect(k, programs_submit(b.p, &none), CLV_ERR_INVALID,
               "submit with bindings counted in an array that is NULL");
    programs_run(&b, b.prog.handle, "a program after refusals");
    programs_close(&b);
}

enum { N_BUFS = 4, ROOMS = 3, FILLS = 8 };

/* Several runs of a program at once, behind other work, each with its output
 * elsewhere: in a buffer of its own, and at other places of it. */
typedef struct flights {
    programs_bench b;
    clv_command fill; /* the other work */
    clv_plugin_buffer *bufs[N_BUFS];
    uint64_t size, room; /* of an output; a buffer has several rooms */
} flights;

static void launch(flights *f, clv_plugin_timeline *done)
{
    kit_plugin *p = f->b.p;
    clv_command fills[FILLS];
    clv_timeline_point end = kit_point(done, 1);
    for (uint32_t i = 0; i < FILLS; i++)
        fills[i] = f->fill;
    KIT_OK(p->k, kit_try_submit(p, fills, FILLS, NULL, &end, 0), "submit");
    for (uint32_t i = 0; i < N_BUFS * ROOMS; i++) {
        clv_command run = kit_program_command(&f->b.prog);
        clv_binding all[KIT_MAX_TENSORS];
        memcpy(all, run.bindings, run.n_bindings * sizeof *all);
        for (uint32_t j = 0; j < run.n_bindings; j++)
            if (all[j].tensor == f->b.output) {
                all[j].buffer = f->bufs[i / ROOMS];
                all[j].offset = i % ROOMS * f->room;
            }
        run.bindings = all;
        end.value = i + 2;
        KIT_OK(p->k, kit_try_submit(p, &run, 1, NULL, &end, 0),
               "submit of run %u, with others in flight", (unsigned)i);
    }
    kit_await(p, done, N_BUFS * ROOMS + 1, "runs of one program");
}

static void check_flights(flights *f, const uint8_t *want)
{
    kit_plugin *p = f->b.p;
    const uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *visible = kit_buffer(p, type, f->room);
    uint8_t *got = malloc(f->size);
    KIT_CHECK(p->k, got, "no memory for the case");
    for (uint32_t i = 0; i < N_BUFS * ROOMS; i++) {
        clv_command copy = kit_copy(visible, 0, f->bufs[i / ROOMS],
                                    i % ROOMS * f->room, f->room);
        kit_do(p, &copy, 1, "a copy of an output");
        kit_bytes_get(p, type, visible, 0, got, f->size);
        KIT_CHECK(p->k, !memcmp(got, want, f->size),
                  "of %d runs of a program in flight at once, %u has another "
                  "result",
                  N_BUFS * ROOMS, (unsigned)i);
    }
    free(got);
    p->api.buffer_free(visible);
}

static void run_in_flight(kit *k, const void *arg)
{
    flights f;
    (void)arg;
    kit_plugin *p = kit_under_test(k);
    if (p->info.queue_depth && p->info.queue_depth <= N_BUFS * ROOMS) {
        kit_skip(k, "the queue holds fewer than %d submits",
                 N_BUFS * ROOMS + 1);
        return;
    }
    if (!programs_open(k, 0, &f.b))
        return;
    f.size = f.b.g.tensors[f.b.output].size;
    f.room = (f.size + 4095) / 4096 * 4096;
    memset(f.b.g.tensors[f.b.output].data, 0x3c, f.size);
    kit_program_upload(&f.b.prog);
    clv_command once = kit_program_command(&f.b.prog);
    KIT_OK(k, programs_submit(p, &once), "submit");
    kit_program_download(&f.b.prog);
    uint8_t *want = programs_output(&f.b);
    f.fill = kit_long_fill(p);
    for (uint32_t i = 0; i < N_BUFS; i++) {
        f.bufs[i] = kit_buffer(p, f.b.prog.mem_type, ROOMS * f.room);
        clv_command clear = kit_fill(f.bufs[i], 0, ROOMS * f.room, 0x3c3c3c3c);
        kit_do(p, &clear, 1, "a fill");
    }
    clv_plugin_timeline *done = kit_timeline(p, 0);
    launch(&f, done);
    check_flights(&f, want);
    p->api.timeline_destroy(done);
    for (uint32_t i = 0; i < N_BUFS; i++)
        p->api.buffer_free(f.bufs[i]);
    p->api.buffer_free(f.fill.dst);
    free(want);
    programs_close(&f.b);
}

void programs_list_bindings(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, 0, run_weights, NULL, "weights");
    kit_add(l, KIT_PER_DEVICE, 0, run_bindings, NULL, "bindings");
    kit_add(l, KIT_PER_DEVICE, KIT_NEEDS_HOST_VISIBLE, run_in_flight, NULL,
            "in_flight");
}
