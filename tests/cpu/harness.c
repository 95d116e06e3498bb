#include "harness.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define GUARD 128
#define GUARD_BYTE 0xa5

/* --- the host's table ---------------------------------------------------- */

static void host_log(clv_host *ctx, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    (void)ctx, (void)level, (void)file, (void)line, (void)text;
}

static clv_status host_set_error(clv_host *ctx, clv_status status,
                                 int64_t vendor, const char *text)
{
    host *h = (host *)ctx;
    (void)vendor;
    pthread_mutex_lock(&h->lock);
    snprintf(h->error, sizeof h->error, "%s", text);
    pthread_mutex_unlock(&h->lock);
    return status;
}

static void *host_alloc(clv_host *ctx, uint64_t size, uint64_t alignment)
{
    host *h = (host *)ctx;
    void *ptr = NULL;
    if (atomic_fetch_add(&h->calls, 1) + 1 == h->fail_at)
        return NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (size > SIZE_MAX / 2 || posix_memalign(&ptr, alignment, size))
        return NULL;
    memset(ptr, 0xcd, size < 4096 ? size : 4096);
    atomic_fetch_add(&h->live, 1);
    return ptr;
}

static void host_free(clv_host *ctx, void *ptr)
{
    host *h = (host *)ctx;
    assert_non_null(ptr);
    atomic_fetch_sub(&h->live, 1);
    free(ptr);
}

static void host_parallel_for(clv_host *ctx, uint32_t n,
                              void (*fn)(void *, uint32_t), void *arg)
{
    (void)ctx;
    for (uint32_t i = 0; i < n; i++)
        fn(arg, i);
}

static uint64_t host_now(clv_host *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *host_option(clv_host *ctx, const char *key)
{
    host *h = (host *)ctx;
    if (!strcmp(key, "threads"))
        return h->threads ? h->threads : "0";
    if (!strcmp(key, "features"))
        return h->features ? h->features : "auto";
    if (!strcmp(key, "poll"))
        return h->poll ? h->poll : "20";
    return !strcmp(key, "pin") ? "off" : NULL;
}

static clv_status host_cache_get(clv_host *ctx, const char *key, void **data,
                                 uint64_t *size)
{
    (void)ctx, (void)key, (void)data, (void)size;
    return CLV_ERR_NOT_FOUND;
}

static clv_status host_cache_put(clv_host *ctx, const char *key,
                                 const void *data, uint64_t size)
{
    (void)ctx, (void)key, (void)data, (void)size;
    return CLV_OK;
}

static void host_trace(clv_host *ctx, const char *name, uint64_t begin,
                       uint64_t end)
{
    (void)ctx, (void)name, (void)begin, (void)end;
}

static uint64_t host_pressure(clv_host *ctx, uint64_t wanted)
{
    (void)ctx, (void)wanted;
    return 0;
}

void host_init(host *h)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->api = (clv_host_api){
        .header = {sizeof h->api, CLV_STRUCT_HOST_API, NULL},
        .host = (clv_host *)h,
        .plugin_path = "",
        .plugin_dir = "",
        .cache_dir = "",
        .n_workers = 1,
        .abi_version = CLV_ABI_VERSION,
        .log = host_log,
        .set_error = host_set_error,
        .alloc = host_alloc,
        .free = host_free,
        .parallel_for = host_parallel_for,
        .now_ns = host_now,
        .option = host_option,
        .cache_get = host_cache_get,
        .cache_put = host_cache_put,
        .trace = host_trace,
        .memory_pressure = host_pressure,
    };
}

/* --- the plugin ---------------------------------------------------------- */

const clv_plugin_api *plugin_load(void **lib)
{
    char path[4096];
    const char *build = getenv("CLEAVE_TEST_BUILD");
    snprintf(path, sizeof path, "%s/plugins/cleave_cpu.so",
             build ? build : ".");
    *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*lib)
        fail_msg("%s", dlerror());
    clv_plugin_query_fn query;
    *(void **)&query = dlsym(*lib, CLV_PLUGIN_QUERY_SYMBOL);
    assert_non_null(query);
    clv_query_in in = {.header = {sizeof in, CLV_STRUCT_QUERY_IN, NULL},
                       .abi_min = CLV_ABI_VERSION_MIN,
                       .abi_max = CLV_ABI_VERSION};
    clv_query_out out = {.header = {sizeof out, CLV_STRUCT_QUERY_OUT, NULL}};
    assert_int_equal(query(&in, &out), CLV_OK);
    assert_non_null(out.api);
    return out.api;
}

void plugin_open(plugin *p, const char *threads, const char *features)
{
    memset(p, 0, sizeof *p);
    host_init(&p->host);
    p->host.threads = threads;
    p->host.features = features;
    p->api = plugin_load(&p->lib);
    if (p->api->create(&p->host.api, &p->inst) ||
        p->api->device_open(p->inst, 0, &p->dev))
        fail_msg("%s", p->host.error);
}

void plugin_close(plugin *p)
{
    p->api->device_close(p->dev);
    assert_int_equal(p->api->quiesce(p->inst), CLV_OK);
    p->api->destroy(p->inst);
    assert_int_equal(p->host.live, 0);
    dlclose(p->lib);
}

/* --- random numbers ------------------------------------------------------ */

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

double random_real(void)
{
    return (double)(random_bits() >> 11) * 0x1p-52 - 1;
}

uint32_t random_below(uint32_t n)
{
    return (uint32_t)(random_bits() >> 32) % n;
}

/* --- tensors ------------------------------------------------------------- */

static int64_t block_size(uint32_t dtype)
{
    return dtype == CLV_DTYPE_Q8_0   ? 34
           : dtype == CLV_DTYPE_Q4_0 ? 18
           : dtype == CLV_DTYPE_F32 || dtype == CLV_DTYPE_I32
               ? 4
               : dtype == CLV_DTYPE_I8 ? 1 : 2;
}

static int64_t block_length(uint32_t dtype)
{
    return dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0 ? 32 : 1;
}

/* Bits of a half between 2^(low - 15) and 2^(high - 14). */
static uint16_t random_half(uint32_t low, uint32_t high)
{
    uint32_t exponent = low + random_below(high - low + 1);
    return (uint16_t)(random_below(2) << 15 | exponent << 10 |
                      random_below(1024));
}

static void fill_block(uint32_t dtype, unsigned char *p)
{
    float f = (float)random_real();
    uint16_t half = random_half(10, 15);
    switch (dtype) {
    case CLV_DTYPE_F32:
        memcpy(p, &f, 4);
        break;
    case CLV_DTYPE_F16:
        memcpy(p, &half, 2);
        break;
    case CLV_DTYPE_BF16:
        memcpy(p, (char *)&f + 2, 2);
        break;
    case CLV_DTYPE_Q8_0:
    case CLV_DTYPE_Q4_0:
        half = random_half(6, 8);
        memcpy(p, &half, 2);
        for (int64_t i = 2; i < block_size(dtype); i++)
            p[i] = (unsigned char)random_below(256);
        if (dtype == CLV_DTYPE_Q8_0) /* -128 does not occur */
            for (int64_t i = 2; i < block_size(dtype); i++)
                p[i] = p[i] == 0x80 ? 0x81 : p[i];
        break;
    default:
        memset(p, 0, (size_t)block_size(dtype));
    }
}

uint32_t add_tensor(graph *g, uint32_t dtype, uint32_t usage, int64_t n,
                    int64_t c, int64_t pad)
{
    uint32_t index = g->n_tensors++;
    assert_true(index < MAX_TENSORS);
    clv_tensor_desc *d = &g->descs[index];
    tensor *t = &g->tensors[index];
    *d = (clv_tensor_desc){
        .header = {sizeof *d, CLV_STRUCT_TENSOR_DESC, NULL},
        .dtype = dtype,
        .usage = usage,
        .rank = n ? 2 : 1,
        .dims = {n ? n : c, n ? c : 0}};
    int64_t row = c / block_length(dtype) * block_size(dtype);
    if (pad) {
        d->strides[0] = row + pad;
        d->strides[1] = block_size(dtype);
    }
    t->rows = n ? n : 1;
    t->row = row;
    t->stride = row + pad;
    t->size = (uint64_t)(t->stride * (t->rows - 1) + row);
    t->block = malloc(t->size + 2 * GUARD);
    assert_non_null(t->block);
    memset(t->block, GUARD_BYTE, t->size + 2 * GUARD);
    t->data = t->block + GUARD;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < row; j += block_size(dtype))
            fill_block(dtype, t->data + i * t->stride + j);
    return index;
}

uint32_t add_view(graph *g, uint32_t base, int64_t row, int64_t n,
                  int64_t column, int64_t c)
{
    uint32_t index = g->n_tensors++;
    assert_true(index < MAX_TENSORS);
    clv_tensor_desc *d = &g->descs[index];
    *d = g->descs[base];
    int64_t size = block_size(d->dtype), length = block_length(d->dtype);
    if (!d->strides[0]) {
        d->strides[0] = d->dims[1] / length * size;
        d->strides[1] = size;
    }
    d->dims[0] = n;
    d->dims[1] = c;
    g->tensors[index] = (tensor){
        .data = g->tensors[base].data + row * d->strides[0] +
                column / length * size,
        .size = (uint64_t)((n - 1) * d->strides[0] + c / length * size)};
    return index;
}

static void check_guards(const graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const tensor *t = &g->tensors[i];
        if (!t->block)
            continue;
        for (int j = 0; j < GUARD; j++) {
            assert_int_equal(t->block[j], GUARD_BYTE);
            assert_int_equal(t->data[t->size + (uint64_t)j], GUARD_BYTE);
        }
        for (int64_t r = 0; r + 1 < t->rows; r++)
            for (int64_t j = t->row; j < t->stride; j++)
                assert_int_equal(t->data[r * t->stride + j], GUARD_BYTE);
    }
}

clv_node *add_node(graph *g, uint32_t op, const uint32_t *inputs, uint32_t n,
                   uint32_t output)
{
    assert_true(g->n_nodes < MAX_NODES);
    clv_node *node = &g->nodes[g->n_nodes++];
    *node = (clv_node){.header = {sizeof *node, CLV_STRUCT_NODE, NULL},
                       .op = op,
                       .revision = 1,
                       .n_inputs = n,
                       .n_outputs = output != CLV_NO_TENSOR,
                       .outputs = {output}};
    memcpy(node->inputs, inputs, n * sizeof *inputs);
    return node;
}

void graph_free(graph *g)
{
    for (uint32_t i = 0; i < g->n_tensors; i++)
        free(g->tensors[i].block);
    memset(g, 0, sizeof *g);
}

clv_subgraph graph_view(const graph *g)
{
    return (clv_subgraph){
        .header = {sizeof(clv_subgraph), CLV_STRUCT_SUBGRAPH, NULL},
        .tensors = g->descs,
        .nodes = g->nodes,
        .symbols = g->ranges,
        .n_tensors = g->n_tensors,
        .tensor_stride = sizeof *g->descs,
        .n_nodes = g->n_nodes,
        .node_stride = sizeof *g->nodes,
        .n_symbols = g->n_symbols};
}

clv_op_caps graph_caps(plugin *p, const graph *g, uint32_t node)
{
    clv_subgraph view = graph_view(g);
    clv_op_caps caps[MAX_NODES];
    memset(caps, 0, sizeof caps);
    for (uint32_t i = 0; i < MAX_NODES; i++)
        caps[i].header =
            (clv_header){sizeof *caps, CLV_STRUCT_OP_CAPS, NULL};
    assert_int_equal(p->api->op_caps(p->dev, &view, caps, sizeof *caps),
                     CLV_OK);
    return caps[node];
}

static clv_status import(plugin *p, const tensor *t, clv_plugin_buffer **out)
{
    clv_import in = {.header = {sizeof in, CLV_STRUCT_IMPORT, NULL},
                     .handle_type = CLV_HANDLE_HOST_POINTER,
                     .access = CLV_ACCESS_READ | CLV_ACCESS_WRITE,
                     .pointer = t->data,
                     .size = t->size};
    return p->api->buffer_import(p->dev, 0, &in, out);
}

typedef struct bound {
    clv_plugin_buffer *buffers[MAX_TENSORS];
    clv_binding weights[MAX_TENSORS], others[MAX_TENSORS];
    uint32_t n_weights, n_others;
} bound;

static clv_status bind_all(plugin *p, graph *g, bound *b)
{
    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        clv_status status = import(p, &g->tensors[i], &b->buffers[i]);
        if (status)
            return status;
        clv_binding binding = {.tensor = i,
                               .buffer = b->buffers[i],
                               .size = g->tensors[i].size};
        if (g->descs[i].usage == CLV_USAGE_WEIGHT)
            b->weights[b->n_weights++] = binding;
        else
            b->others[b->n_others++] = binding;
    }
    return CLV_OK;
}

static clv_status run_bound(plugin *p, graph *g, bound *b,
                            clv_plugin_timeline *tl)
{
    clv_subgraph view = graph_view(g);
    clv_compile compile = {
        .header = {sizeof compile, CLV_STRUCT_COMPILE, NULL},
        .graph = &view,
        .weights = b->weights,
        .n_weights = b->n_weights};
    clv_plugin_program *prog = NULL;
    clv_status status = p->api->program_compile(p->dev, &compile, &prog);
    if (status)
        return status;
    clv_command command = {
        .header = {sizeof command, CLV_STRUCT_COMMAND, NULL},
        .kind = CLV_COMMAND_RUN,
        .n_bindings = b->n_others,
        .n_symbols = g->n_symbols,
        .program = prog,
        .bindings = b->others,
        .symbols = g->values};
    clv_timeline_point done = {.timeline = tl, .value = 1};
    clv_submit submit = {.header = {sizeof submit, CLV_STRUCT_SUBMIT, NULL},
                         .commands = &command,
                         .n_commands = 1,
                         .command_stride = sizeof command,
                         .signals = &done,
                         .n_signals = 1};
    status = p->api->submit(p->dev, &submit);
    if (!status)
        status = p->api->timeline_wait(tl, 1, 0, UINT64_MAX);
    p->api->program_destroy(prog);
    return status;
}

clv_status graph_run(plugin *p, graph *g)
{
    bound b;
    clv_plugin_timeline *tl = NULL;
    clv_status status = bind_all(p, g, &b);
    if (!status)
        status = p->api->timeline_create(p->dev, 0, &tl);
    if (!status)
        status = run_bound(p, g, &b, tl);
    p->api->timeline_destroy(tl);
    for (uint32_t i = 0; i < g->n_tensors; i++)
        p->api->buffer_free(b.buffers[i]);
    check_guards(g);
    return status;
}

/* --- elements ------------------------------------------------------------ */

static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double x = exponent == 31 ? (mantissa ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                              : ldexp(mantissa, -24);
    return h & 0x8000 ? -x : x;
}

double get(const graph *g, uint32_t t, int64_t i, int64_t j)
{
    const clv_tensor_desc *d = &g->descs[t];
    int64_t length = block_length(d->dtype), size = block_size(d->dtype);
    int64_t c = d->rank == 2 ? d->dims[1] : d->dims[0];
    int64_t stride = d->strides[0] ? d->strides[0] : c / length * size;
    const unsigned char *p = g->tensors[t].data +
                             (d->rank == 2 ? i * stride : 0) +
                             j / length * size;
    float f = 0;
    uint16_t half;
    int32_t integer;
    memcpy(&half, p, sizeof half);
    switch (d->dtype) {
    case CLV_DTYPE_F32:
        memcpy(&f, p, sizeof f);
        return f;
    case CLV_DTYPE_F16:
        return half_value(half);
    case CLV_DTYPE_BF16:
        memcpy((char *)&f + 2, p, 2);
        return f;
    case CLV_DTYPE_I32:
        memcpy(&integer, p, sizeof integer);
        return integer;
    case CLV_DTYPE_Q8_0:
        return half_value(half) * (signed char)p[2 + j % 32];
    case CLV_DTYPE_Q4_0:
        return half_value(half) *
               ((j % 32 < 16 ? p[2 + j % 32] & 15 : p[2 + j % 16] >> 4) - 8);
    }
    fail();
    return 0;
}

static void store(graph *g, uint32_t t, int64_t i, int64_t j, const void *value)
{
    const clv_tensor_desc *d = &g->descs[t];
    int64_t c = d->rank == 2 ? d->dims[1] : 0;
    int64_t stride = d->strides[0] ? d->strides[0] : 4 * c;
    memcpy(g->tensors[t].data + i * stride + 4 * j, value, 4);
}

void set_f32(graph *g, uint32_t t, int64_t i, int64_t j, float value)
{
    store(g, t, i, j, &value);
}

void set_i32(graph *g, uint32_t t, int64_t i, int32_t value)
{
    store(g, t, 0, i, &value);
}

double error_bound(uint32_t error_class)
{
    static const double bounds[] = {
        [CLV_ERROR_UNSTATED] = 1e-3, [CLV_ERROR_EXACT] = 0,
        [CLV_ERROR_F32] = 1e-10,     [CLV_ERROR_F16] = 1e-6,
        [CLV_ERROR_Q8] = 1e-4,       [CLV_ERROR_Q8_TENSOR] = 1e-2};
    assert_true(error_class < sizeof bounds / sizeof *bounds);
    return bounds[error_class];
}
