/*
 * cleave/plugin_program.h - bindings of programs for backend plugins
 *
 * Keeps what a program must know of its graph's tensors, and checks weights and
 * the bindings of runs against it; for buffers of plugin_memory.h. Not part of
 * the ABI: functions that a plugin compiles into itself, or does without.
 */
#ifndef CLEAVE_PLUGIN_PROGRAM_H_
#define CLEAVE_PLUGIN_PROGRAM_H_

#include <cleave/plugin_memory.h>
#include <cleave/plugin_node.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What struct clv_plugin_program begins with. */
typedef struct clv_program_base {
    const clv_host_api *host;
    uint32_t n_tensors, n_symbols;
    clv_tensor_desc *tensors; /* [n_tensors] copies */
    char **weights;           /* [n_tensors] NULL: bound at submit */
    uint8_t *binds;           /* [n_tensors] whether a run has to bind it */
    uint32_t *untouched;      /* as clv_program_info */
    uint32_t n_untouched;
    clv_symbol_range symbols[CLV_MAX_SYMBOLS];
} clv_program_base;

static inline const clv_program_base *
clv_program(const clv_plugin_program *prog)
{
    return (const clv_program_base *)(const void *)prog;
}

/* Finds the memory of one binding; data: [n_tensors], NULL where unbound. A
 * weight that is bound in a run is ignored. */
static inline clv_status clv_bind(const clv_program_base *base,
                                  const clv_binding *binding,
                                  const int64_t *symbols, int weights,
                                  char **data)
{
    const clv_tensor_desc *t = binding->tensor < base->n_tensors
                                   ? &base->tensors[binding->tensor]
                                   : NULL;
    if (t && t->usage == CLV_USAGE_WEIGHT && !weights)
        return CLV_OK;
    if (!t || data[binding->tensor] ||
        (t->usage == CLV_USAGE_WEIGHT) != weights)
        return clv_fail(base->host, CLV_ERR_INVALID,
                        "tensor %u of %u is bound twice, unknown, or %s weight",
                        (unsigned)binding->tensor, (unsigned)base->n_tensors,
                        weights ? "no" : "a");
    uint32_t access =
        t->usage == CLV_USAGE_WEIGHT || t->usage == CLV_USAGE_INPUT
            ? CLV_ACCESS_READ
            : CLV_ACCESS_READ | CLV_ACCESS_WRITE;
    uint64_t need = clv_tensor_size(t, symbols);
    char *bytes = clv_buffer_range(binding->buffer, binding->offset,
                                   binding->size, access);
    if (!bytes || binding->size < need)
        return clv_fail(
            base->host, CLV_ERR_INVALID,
            "tensor %u takes %llu bytes; its binding has %llu at "
            "%llu of a buffer of %llu, or memory that it may not "
            "write",
            (unsigned)binding->tensor, (unsigned long long)need,
            (unsigned long long)binding->size,
            (unsigned long long)binding->offset,
            (unsigned long long)(binding->buffer ? binding->buffer->size : 0));
    if ((uintptr_t)bytes % clv_align(t->dtype))
        return clv_fail(base->host, CLV_ERR_INVALID,
                        "tensor %u lies at %p, between its elements; align it "
                        "to %u bytes",
                        (unsigned)binding->tensor, (void *)bytes,
                        (unsigned)clv_align(t->dtype));
    data[binding->tensor] = bytes;
    return CLV_OK;
}

/* Binds them all; every tensor of that kind must get its memory, but those that
 * the program does not touch. Reading the descriptions of all tensors would
 * take a run 15 ns for each. */
static inline clv_status clv_bind_all(const clv_program_base *base,
                                      const clv_binding *bindings, uint32_t n,
                                      const int64_t *symbols, int weights,
                                      char **data)
{
    clv_status status = CLV_OK;
    if (n && !bindings)
        return clv_fail(base->host, CLV_ERR_INVALID,
                        "%u bindings in an array that is NULL", (unsigned)n);
    for (uint32_t i = 0; i < n && !status; i++)
        status = clv_bind(base, &bindings[i], symbols, weights, data);
    for (uint32_t t = 0; t < base->n_tensors && !status; t++)
        if (!data[t] && (weights ? base->tensors[t].usage == CLV_USAGE_WEIGHT
                                 : base->binds[t]))
            status = clv_fail(base->host, CLV_ERR_INVALID,
                              "tensor %u is not bound", (unsigned)t);
    return status;
}

static inline void clv_program_finish(clv_program_base *base)
{
    clv_free(base->host, base->tensors);
    clv_free(base->host, base->weights);
    clv_free(base->host, base->binds);
    clv_free(base->host, base->untouched);
}

/* For a program made by clv_new() that owns nothing else: a slot as it is. */
static inline void clv_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    clv_program_base *base = (clv_program_base *)(void *)prog;
    clv_program_finish(base);
    clv_free(base->host, base);
}

/* Copies the tensors and binds the weights. After a failure, too, base is to be
 * finished. */
static inline clv_status clv_program_init(clv_program_base *base,
                                          const clv_host_api *host,
                                          const clv_compile *compile)
{
    const clv_subgraph *graph = compile->graph;
    memset(base, 0, sizeof *base);
    base->host = host;
    if (!graph)
        return clv_fail(host, CLV_ERR_INVALID, "there is no graph to compile");
    CLV_TRY(clv_check_chain(host, compile));
    CLV_TRY(clv_check_graph(host, graph));
    if (!graph->n_tensors)
        return clv_fail(host, CLV_ERR_INVALID, "a graph without tensors");
    base->tensors = (clv_tensor_desc *)clv_new(
        host, graph->n_tensors * (uint64_t)sizeof *base->tensors);
    base->weights = (char **)clv_new(host, graph->n_tensors *
                                               (uint64_t)sizeof *base->weights);
    base->binds = (uint8_t *)clv_new(host, graph->n_tensors);
    if (!base->tensors || !base->weights || !base->binds)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < graph->n_symbols; i++)
        base->symbols[i] = graph->symbols[i];
    base->n_symbols = graph->n_symbols;
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        char reason[CLV_REASON_SIZE];
        if (!clv_read_tensor(graph, i, &base->tensors[i], reason))
            return clv_fail(host, CLV_ERR_UNSUPPORTED, "%s", reason);
        base->binds[i] = base->tensors[i].usage != CLV_USAGE_WEIGHT;
        base->n_tensors++;
    }
    return clv_bind_all(base, compile->weights, compile->n_weights, NULL, 1,
                        base->weights);
}

/* Once the program is known: lists the transients that it does not touch.
 * touched: [n_tensors] other than 0 where it reads or writes one. */
static inline clv_status clv_program_note_untouched(clv_program_base *base,
                                                    const uint8_t *touched)
{
    base->untouched = (uint32_t *)clv_new(
        base->host, base->n_tensors * (uint64_t)sizeof *base->untouched);
    if (!base->untouched)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t t = 0; t < base->n_tensors; t++)
        if (base->tensors[t].usage == CLV_USAGE_TRANSIENT && !touched[t]) {
            base->untouched[base->n_untouched++] = t;
            base->binds[t] = 0;
        }
    return CLV_OK;
}

/* Whether a RUN command keeps to what was compiled; for a queue's check. */
static inline clv_status clv_program_check(const clv_command *command)
{
    const clv_program_base *base = clv_program(command->program);
    if (command->n_symbols != base->n_symbols ||
        (base->n_symbols && !command->symbols))
        return clv_fail(base->host, CLV_ERR_INVALID, "%u values for %u symbols",
                        (unsigned)command->n_symbols,
                        (unsigned)base->n_symbols);
    for (uint32_t i = 0; i < base->n_symbols; i++)
        if (command->symbols[i] < base->symbols[i].min ||
            command->symbols[i] > base->symbols[i].max)
            return clv_fail(base->host, CLV_ERR_INVALID,
                            "symbol %u is %lld, compiled for %lld to %lld",
                            (unsigned)i, (long long)command->symbols[i],
                            (long long)base->symbols[i].min,
                            (long long)base->symbols[i].max);
    char **data =
        (char **)clv_new(base->host, base->n_tensors * (uint64_t)sizeof *data);
    if (!data)
        return CLV_ERR_NO_MEMORY;
    clv_status status =
        clv_bind_all(base, command->bindings, command->n_bindings,
                     command->symbols, 0, data);
    clv_free(base->host, data);
    return status;
}

/* Where all tensors lie in a run that was checked; data: [n_tensors]. */
static inline void clv_program_resolve(const clv_command *command, char **data)
{
    const clv_program_base *base = clv_program(command->program);
    memcpy(data, base->weights, base->n_tensors * sizeof *data);
    for (uint32_t i = 0; i < command->n_bindings; i++) {
        const clv_binding *b = &command->bindings[i];
        if (!base->weights[b->tensor])
            data[b->tensor] = b->buffer->data + b->offset;
    }
}

/* Where a tensor lies in a run that was checked. */
static inline char *clv_program_data(const clv_command *command,
                                     uint32_t tensor)
{
    char *weight = clv_program(command->program)->weights[tensor];
    for (uint32_t i = 0; i < command->n_bindings && !weight; i++)
        if (command->bindings[i].tensor == tensor)
            weight =
                command->bindings[i].buffer->data + command->bindings[i].offset;
    return weight;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_PROGRAM_H_ */
