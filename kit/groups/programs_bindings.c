/* Weights and bindings that are missing, wrong, or there twice. */
#include "programs.h"

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

void programs_list_bindings(kit_list *l)
{
    kit_add(l, KIT_PER_DEVICE, 0, run_weights, NULL, "weights");
    kit_add(l, KIT_PER_DEVICE, 0, run_bindings, NULL, "bindings");
}
