/* Calls to kernels and dispatches. */
#include "maker.h"

int64_t gpu_expr_value(const gpu_expr *expr, const int64_t *symbols)
{
    int64_t value = expr->constant;
    if (expr->symbol)
        value += expr->factor * symbols[expr->symbol - 1];
    if (expr->divisor <= 1)
        return value;
    return value > 0 ? (value - 1) / expr->divisor + 1 : 0;
}

clv_status gpu_grow(const clv_host_api *host, void *array, uint32_t n,
                    uint32_t *max, size_t size)
{
    void *old, *data;
    memcpy(&old, array, sizeof old);
    if (n < *max)
        return CLV_OK;
    uint32_t more = *max ? 2 * *max : 8;
    data = clv_new(host, more * (uint64_t)size);
    if (!data)
        return CLV_ERR_NO_MEMORY;
    if (n)
        memcpy(data, old, n * size);
    clv_free(host, old);
    memcpy(array, &data, sizeof data);
    *max = more;
    return CLV_OK;
}

static char *copy_string(const clv_host_api *host, const char *string)
{
    size_t n = strlen(string) + 1;
    char *copy = clv_new(host, n);
    return copy ? memcpy(copy, string, n) : NULL;
}

static void free_kernel(const clv_host_api *host, gpu_kernel *kernel)
{
    clv_free(host, kernel->name);
    clv_free(host, kernel->variant);
    clv_free(host, kernel->source);
}

/* The kernel of the source in m, which it may take. */
static clv_status add_kernel(gpu_builder *b, gpu_maker *m, uint32_t *index)
{
    gpu_code *code = b->code;
    const gpu_call *call = m->call;
    for (*index = 0; *index < code->n_kernels; ++*index)
        if (!strcmp(code->kernels[*index].source, m->source.data) &&
            !strcmp(code->kernels[*index].variant, call->variant))
            return CLV_OK;
    CLV_TRY(gpu_grow(b->host, &code->kernels, code->n_kernels, &b->max_kernels,
                     sizeof *code->kernels));
    gpu_kernel *kernel = &code->kernels[*index];
    memset(kernel, 0, sizeof *kernel);
    kernel->name = copy_string(b->host, call->name);
    kernel->variant = copy_string(b->host, call->variant);
    if (!kernel->name || !kernel->variant) {
        free_kernel(b->host, kernel);
        return CLV_ERR_NO_MEMORY;
    }
    kernel->source = m->source.data;
    m->source.data = NULL;
    memcpy(kernel->local, call->local, sizeof kernel->local);
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const gpu_operand *t = &call->operands[i];
        for (uint32_t k = 0; k < gpu_times(m, i) * gpu_objects(t); k++) {
            kernel->written[kernel->n_args] = t->written;
            kernel->storage[kernel->n_args++] =
                t->sliced ? (uint8_t)t->storage : CLV_STORAGE_BUFFER;
        }
    }
    kernel->n_params = m->n_ints;
    code->n_kernels++;
    return CLV_OK;
}

static void fill_args(const gpu_maker *m, gpu_arg *args)
{
    for (uint32_t i = 0; i < m->call->n_operands; i++)
        for (uint32_t r = 0; r < gpu_times(m, i); r++) {
            const gpu_operand *t = &m->call[r].operands[i];
            for (uint32_t k = 0; k < gpu_objects(t); k++)
                *args++ = (gpu_arg){.memory = t->memory,
                                    .index = t->index + k,
                                    .offset = t->offset,
                                    .written = t->written};
        }
}

/* Of calls that are one kernel none is sent: each would be. */
static void fill_sent(const gpu_maker *m, gpu_dispatch *d)
{
    const gpu_call *call = m->call;
    d->exchanges = call->exchanges;
    for (uint32_t i = 0; i < call->n_operands && call->sent; i++) {
        const gpu_operand *t = &call->operands[i];
        if (!strcmp(t->name, call->sent) && m->n_calls == 1 && !t->sliced) {
            d->sent_bytes = (uint64_t)t->channels.constant * 4;
            d->sent++;
            return;
        }
        d->sent += gpu_objects(t);
    }
    d->sent = 0;
}

/* args: to be filled, the dispatch's from then on. */
static void fill_dispatch(const gpu_maker *m, uint32_t kernel, gpu_arg *args,
                          gpu_dispatch *d)
{
    const gpu_call *call = m->call;
    memset(d, 0, sizeof *d);
    d->kernel = kernel;
    d->node = call->node;
    d->args = args;
    fill_args(m, args);
    fill_sent(m, d);
    for (uint32_t i = 0; i < m->n_ints; i++)
        d->params[i] = m->ints[i].value;
    for (uint32_t i = 0; i < 3; i++)
        d->groups[i] =
            call->groups[i].divisor ? call->groups[i] : gpu_constant(1);
}

static clv_status add_dispatch(gpu_builder *b, const gpu_maker *m,
                               uint32_t kernel, bool setup)
{
    gpu_code *code = b->code;
    CLV_TRY(setup ? gpu_grow(b->host, &code->setup, code->n_setup,
                             &b->max_setup, sizeof *code->setup)
                  : gpu_grow(b->host, &code->dispatches, code->n_dispatches,
                             &b->max_dispatches, sizeof *code->dispatches));
    gpu_arg *args = clv_new(
        b->host, (code->kernels[kernel].n_args + UINT64_C(1)) * sizeof *args);
    if (!args)
        return CLV_ERR_NO_MEMORY;
    fill_dispatch(m, kernel, args,
                  setup ? &code->setup[code->n_setup++]
                        : &code->dispatches[code->n_dispatches++]);
    return CLV_OK;
}

void gpu_build_undo(gpu_builder *b, uint32_t n_dispatches, uint32_t n_setup)
{
    gpu_code *code = b->code;
    while (code->n_dispatches > n_dispatches)
        clv_free(b->host, code->dispatches[--code->n_dispatches].args);
    while (code->n_setup > n_setup)
        clv_free(b->host, code->setup[--code->n_setup].args);
}

uint32_t gpu_call_args(const gpu_call *call)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->n_operands; i++)
        n += gpu_objects(&call->operands[i]);
    return n;
}

clv_status gpu_move(const gpu_builder *b, gpu_call *call)
{
    for (uint32_t i = 0; i < call->n_operands; i++) {
        gpu_operand *t = &call->operands[i];
        if (t->memory != GPU_MEMORY_TENSOR || !b->moved || !b->moved[t->index])
            continue;
        const uint32_t tensor = t->index;
        t->memory = GPU_MEMORY_PRIVATE;
        t->index = b->moved[tensor] - 1;
        if (!b->maps || !b->maps[tensor].n_elements)
            continue;
        if (t->offset % 16 || !t->packed)
            return clv_fail(b->host, CLV_ERR_INTERNAL,
                            "kernel template %s: a part of a tensor that does "
                            "not begin with a slice",
                            call->name);
        t->sliced = true;
        t->map = b->maps[tensor];
        t->storage = b->code->privates[t->index].storage;
        t->first_slice = (int64_t)t->offset / 16;
        t->offset = 0;
    }
    return CLV_OK;
}

/* The kernel of a call whose text is not known yet. */
static clv_status make_kernel(gpu_builder *b, gpu_maker *m, uint32_t *kernel)
{
    if (gpu_call_args(m->call) > gpu_max_args(m->call))
        gpu_wrong(m, "more arguments than there can be");
    else
        gpu_put_source(m);
    if (m->wrong)
        return clv_fail(b->host, CLV_ERR_INTERNAL, "kernel template %s: %s%s",
                        m->call->name, m->wrong, m->unknown);
    if (m->source.failed)
        return CLV_ERR_NO_MEMORY;
    CLV_TRY(add_kernel(b, m, kernel));
    return gpu_known_add(b, m, *kernel);
}

clv_status gpu_build_calls(gpu_builder *b, const gpu_call *calls, uint32_t n,
                           bool setup)
{
    gpu_maker m = {.target = b->target,
                   .call = calls,
                   .n_calls = n,
                   .body.host = b->host,
                   .source.host = b->host};
    uint32_t kernel = 0;
    clv_status status = CLV_OK;
    gpu_find_varying(&m);
    if (!gpu_known_find(b, &m, &kernel))
        status = make_kernel(b, &m, &kernel);
    if (!status)
        status = add_dispatch(b, &m, kernel, setup);
    gpu_text_free(&m.body);
    gpu_text_free(&m.source);
    return status;
}

clv_status gpu_build(gpu_builder *b, const gpu_call *call, bool setup)
{
    gpu_call whole = *call;
    whole.node = b->node;
    if (!setup)
        CLV_TRY(gpu_build_kept(b));
    CLV_TRY(gpu_move(b, &whole));
    return gpu_build_calls(b, &whole, 1, setup);
}

clv_status gpu_build_private(gpu_builder *b, uint64_t size, bool weights,
                             uint32_t *index)
{
    gpu_code *code = b->code;
    CLV_TRY(gpu_grow(b->host, &code->privates, code->n_privates,
                     &b->max_privates, sizeof *code->privates));
    *index = code->n_privates++;
    code->privates[*index] = (gpu_private){.size = size, .weights = weights};
    return CLV_OK;
}

clv_status gpu_build_objects(gpu_builder *b, const clv_layout_map *map,
                             uint32_t storage, uint32_t dtype, bool weights,
                             uint32_t *index)
{
    const int64_t n = map->extent[CLV_PHYS_OBJECT];
    const uint64_t size =
        (uint64_t)(map->n_elements / n) * (dtype == CLV_DTYPE_F16 ? 2 : 4);
    clv_status status = CLV_OK;
    for (int64_t k = 0; k < n && !status; k++) {
        uint32_t at;
        status = gpu_build_private(b, size, weights, &at);
        if (status)
            return status;
        gpu_private *p = &b->code->privates[at];
        p->storage = storage;
        p->dtype = dtype;
        for (uint32_t i = 0; i < 3 && storage != CLV_STORAGE_BUFFER; i++)
            p->extent[i] = (uint32_t)map->extent[CLV_PHYS_X + i];
        *index = at - (uint32_t)k;
    }
    return status;
}

void gpu_code_free(const clv_host_api *host, gpu_code *code)
{
    if (!code)
        return;
    for (uint32_t i = 0; i < code->n_kernels; i++)
        free_kernel(host, &code->kernels[i]);
    for (uint32_t i = 0; i < code->n_dispatches; i++)
        clv_free(host, code->dispatches[i].args);
    for (uint32_t i = 0; i < code->n_setup; i++)
        clv_free(host, code->setup[i].args);
    clv_free(host, code->kernels);
    clv_free(host, code->setup);
    clv_free(host, code->dispatches);
    clv_free(host, code->privates);
    clv_free(host, code);
}
