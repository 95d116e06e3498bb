/* Which variant tuning chooses, on a device on which each variant's time and
 * result are known. */
#include "entry.h"
#include "graph.h"
#include "tune/context.h"
#include "tune/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------ */
/* The device                                                                */

struct clv_plugin_device {
    uint64_t ns[64]; /* of variants; 0: 1000 */
    float value[64]; /* that a variant writes, beside 1 */
    clv_status status[64];
    uint32_t compiled, timed, swept;
    uint64_t room; /* bytes of one buffer */
    bool refuses;  /* programs */
};

struct clv_plugin_buffer {
    clv_plugin_device *dev;
    uint64_t size;
    float data[];
};

struct clv_plugin_program {
    clv_plugin_device *dev;
    uint32_t id, out;
};

static clv_status mem_types(clv_plugin_device *dev, uint32_t *count,
                            clv_mem_type *out, uint32_t stride)
{
    (void)dev, (void)stride;
    out->flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_DEVICE_LOCAL;
    *count = 1;
    return CLV_OK;
}

static clv_status buffer_alloc(clv_plugin_device *dev, uint32_t type,
                               uint64_t size, clv_plugin_buffer **out)
{
    assert_int_equal(type, 0);
    if (size > dev->room)
        return CLV_ERR_NO_MEMORY;
    *out = calloc(1, sizeof **out + size + 4);
    assert_non_null(*out);
    (*out)->dev = dev;
    (*out)->size = size;
    return CLV_OK;
}

static void buffer_free(clv_plugin_buffer *buf)
{
    free(buf);
}

static clv_status buffer_map(clv_plugin_buffer *buf, uint32_t access,
                             void **out)
{
    (void)access;
    *out = buf->data;
    return CLV_OK;
}

static void buffer_unmap(clv_plugin_buffer *buf)
{
    (void)buf;
}

static clv_status program_compile(clv_plugin_device *dev, const clv_compile *c,
                                  clv_plugin_program **out)
{
    const char *id = c->options ? strchr(c->options, '=') : NULL;
    if (dev->refuses)
        return CLV_ERR_UNSUPPORTED;
    assert_non_null(id);
    assert_int_equal(c->graph->n_nodes, 1);
    const uint32_t i = (uint32_t)atoi(id + 1);
    dev->compiled++;
    if (dev->status[i])
        return dev->status[i];
    *out = calloc(1, sizeof **out);
    assert_non_null(*out);
    **out = (clv_plugin_program){dev, i, c->graph->nodes[0].outputs[0]};
    return CLV_OK;
}

static void program_destroy(clv_plugin_program *prog)
{
    free(prog);
}

static const clv_plugin_api api = {
    .name = "paper",
    .mem_types = mem_types,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .program_compile = program_compile,
    .program_destroy = program_destroy,
};

static clv_status run(clv_plugin_device *dev, clv_plugin_program *program,
                      const clv_binding *bindings, uint32_t n,
                      clv_plugin_buffer *sweep, uint64_t *ns)
{
    const uint32_t id = program->id;
    dev->timed++;
    dev->swept += sweep != NULL;
    *ns = dev->ns[id] ? dev->ns[id] : 1000;
    for (uint32_t i = 0; i < n; i++) {
        clv_plugin_buffer *buf = bindings[i].buffer;
        for (uint64_t k = 0;
             bindings[i].tensor == program->out && k < buf->size / 4; k++)
            buf->data[k] = 1 + dev->value[id];
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The host: one entry in the cache for each of a few keys                   */

static struct entry {
    char key[64], data[256];
    uint64_t size;
} cache[8];
static uint32_t warnings;

static struct entry *find(const char *key)
{
    uint32_t i = 0;
    while (i < 7 && cache[i].key[0] && strcmp(cache[i].key, key))
        i++;
    return &cache[i];
}

static clv_status cache_get(clv_host *host, const char *key, void **data,
                            uint64_t *size)
{
    const struct entry *e = find(key);
    (void)host;
    if (!e->key[0])
        return CLV_ERR_NOT_FOUND;
    *data = malloc(e->size + 1);
    assert_non_null(*data);
    memcpy(*data, e->data, e->size);
    *size = e->size;
    return CLV_OK;
}

static clv_status cache_put(clv_host *host, const char *key, const void *data,
                            uint64_t size)
{
    struct entry *e = find(key);
    (void)host;
    assert_true(size <= sizeof e->data && strlen(key) < sizeof e->key);
    strcpy(e->key, key);
    memcpy(e->data, data, size);
    e->size = size;
    return CLV_OK;
}

static void take_log(clv_host *host, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    (void)host, (void)file, (void)line, (void)text;
    warnings += level == CLV_LOG_WARN;
}

/* ------------------------------------------------------------------------ */
/* Tuning a product                                                          */

static const gpu_target target = {
    .max_group = 256,
    .max_group_size = {256, 256, 64},
    .local_bytes = 32768,
    .max_binding = 1 << 28,
    .units = 2,
};

typedef struct bench {
    graph g;
    clv_plugin_device dev;
    clv_plugin_buffer *weights;
    clv_compile compile;
    clv_binding binding;
    clv_host_api host;
    gpu_tuner tuner;
    gpu_variants variants;
} bench;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *mode; /* the option "tune" */

static const char *option(clv_host *host, const char *key)
{
    (void)host;
    return !strcmp(key, "tune") ? mode : !strcmp(key, "trial") ? "on" : NULL;
}

static void set_up(bench *b, int64_t rows, int64_t in, int64_t out)
{
    const uint32_t inputs[] = {0, 1, CLV_NO_TENSOR};
    memset(b, 0, sizeof *b);
    memset(cache, 0, sizeof cache);
    warnings = 0;
    graph_init(&b->g);
    graph_tensor(&b->g, CLV_DTYPE_F32, CLV_USAGE_INPUT, rows, in);
    graph_tensor(&b->g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, out, in);
    graph_tensor(&b->g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, rows, out);
    graph_node(&b->g, CLV_OP_MATMUL, 2, inputs);
    graph_symbol(&b->g, rows);
    b->dev.room = 1 << 28;
    assert_int_equal(
        buffer_alloc(&b->dev, 0, (uint64_t)(4 * in * out), &b->weights),
        CLV_OK);
    b->binding = (clv_binding){
        .tensor = 1, .buffer = b->weights, .size = (uint64_t)(4 * in * out)};
    b->compile = (clv_compile)CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    b->compile.graph = &b->g.sub;
    b->compile.weights = &b->binding;
    b->compile.n_weights = 1;
    b->host = test_host;
    b->host.cache_get = cache_get;
    b->host.cache_put = cache_put;
    b->host.log = take_log;
    b->host.option = option;
    mode = "exhaustive";
    b->tuner = (gpu_tuner){.host = &b->host,
                           .api = &api,
                           .dev = &b->dev,
                           .target = &target,
                           .device = "nothing",
                           .timed = true,
                           .lock = &lock,
                           .identity = "nobody",
                           .time = run};
    gpu_list_variants(&target, &b->g.sub, 0, &b->variants);
    assert_true(b->variants.n > 2);
}

static void tear_down(bench *b)
{
    buffer_free(b->weights);
}

/* The variant chosen; -1: none. */
static int tune(bench *b)
{
    char *choices = NULL;
    uint32_t id = 0;
    b->dev.compiled = b->dev.timed = b->dev.swept = 0;
    assert_int_equal(gpu_choose(&b->tuner, &b->compile, &choices), CLV_OK);
    bool found = gpu_choice_find(choices, &b->variants, &id);
    free(choices);
    return found ? (int)id : -1;
}

/* A variant that is not the preferred one. */
static uint32_t other(const bench *b, uint32_t skip)
{
    for (uint32_t i = 0; i < b->variants.n; i++)
        if (b->variants.id[i] != b->variants.preferred && !skip--)
            return b->variants.id[i];
    fail_msg("no such variant");
    return 0;
}

static void test_quickest(void **state)
{
    bench b;
    (void)state;
    set_up(&b, 40, 64, 48);
    const uint32_t quick = other(&b, 1);
    b.dev.ns[quick] = 500;
    assert_int_equal(tune(&b), quick);
    assert_int_equal(b.dev.compiled, b.variants.n);
    assert_int_equal(b.dev.swept, 0);
    b.dev.ns[quick] = 5000;
    assert_int_equal(tune(&b), quick); /* as it was found */
    assert_int_equal(b.dev.compiled, 0);
    mode = "fast";
    assert_int_equal(tune(&b), quick);
    assert_int_equal(b.dev.timed, 0);
    tear_down(&b);
}

/* What is cached is no answer; what is measured then is cached. */
static void is_measured_again(bench *b)
{
    mode = "fast";
    assert_int_equal(tune(b), -1);
    mode = "exhaustive";
    assert_int_equal(tune(b), b->variants.preferred);
    assert_true(b->dev.timed > 0);
}

static void test_entries(void **state)
{
    static const char *const wrong[] = {
        "", "matmul=1", "matmul-f32-o6-i6-n6=", "matmul-f32-o6-i6-n6=999",
        "matmul-f32-o6-i6-n6=6x"};
    bench b;
    (void)state;
    set_up(&b, 40, 64, 48);
    mode = "fast";
    assert_int_equal(tune(&b), -1);
    assert_string_equal(b.variants.key, "matmul-f32-o6-i6-n6");
    const gpu_entry entry = {&b.host, "tune", "nobody", b.variants.key};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gpu_entry_put(&entry, wrong[i], strlen(wrong[i]));
        is_measured_again(&b);
    }
    for (uint64_t i = 0; i < cache[0].size; i++) {
        cache[0].data[i] ^= 1;
        is_measured_again(&b);
    }
    cache[0].size--;
    is_measured_again(&b);
    cache[0].size = 3;
    is_measured_again(&b);
    tear_down(&b);
}

/* Wrong ones, and those that do not run, are left out. */
static void test_faults(void **state)
{
    bench b;
    (void)state;
    set_up(&b, 40, 64, 48);
    b.dev.ns[other(&b, 0)] = 10;
    b.dev.value[other(&b, 0)] = 1e-3f;
    b.dev.ns[other(&b, 1)] = 20;
    b.dev.status[other(&b, 1)] = CLV_ERR_INTERNAL;
    assert_int_equal(tune(&b), b.variants.preferred);
    assert_int_equal(warnings, 2);
    tear_down(&b);

    set_up(&b, 40, 64, 48);
    b.dev.room = 64;
    assert_int_equal(tune(&b), -1);
    assert_int_equal(b.dev.timed, 0);
    tear_down(&b);

    set_up(&b, 40, 64, 48);
    b.dev.status[b.variants.preferred] = CLV_ERR_DEVICE_LOST;
    char *choices;
    assert_int_equal(gpu_choose(&b.tuner, &b.compile, &choices),
                     CLV_ERR_DEVICE_LOST);
    assert_null(choices);
    tear_down(&b);
}

/* Large weights of few rows are read from memory, not from a cache. */
static void test_sweep(void **state)
{
    bench b;
    (void)state;
    set_up(&b, 1, 1024, 512);
    tune(&b);
    assert_true(b.dev.timed > 0);
    assert_int_equal(b.dev.swept, b.dev.timed);
    tear_down(&b);
}

/* ------------------------------------------------------------------------ */
/* Trials                                                                    */

static int64_t n_left; /* allocations before the one that fails */

static void *allocate_some(clv_host *host, uint64_t size, uint64_t alignment)
{
    return n_left-- ? test_host.alloc(host, size, alignment) : NULL;
}

static clv_status try_kernels(bench *b, int64_t allocations, char *disabled,
                              size_t size)
{
    memset(cache, 0, sizeof cache);
    n_left = allocations;
    return gpu_try(&b->tuner, disabled, size);
}

/* Of kernels that do not run none stays in use because memory ran out while it
 * was left out, or because its name found no place. */
static void test_trials_without_memory(void **state)
{
    char all[512], some[512];
    gpu_target at = target;
    bench b;
    (void)state;
    set_up(&b, 4, 64, 64);
    b.host.alloc = allocate_some;
    b.dev.refuses = true;
    b.tuner.target = &at;
    at.disabled = all;
    assert_int_equal(try_kernels(&b, INT64_MAX, all, sizeof all), CLV_OK);
    assert_non_null(strstr(all, "gemv"));
    const int64_t needed = INT64_MAX - n_left;
    at.disabled = some;
    assert_int_equal(try_kernels(&b, INT64_MAX, some, strlen(all)),
                     CLV_ERR_LIMIT);
    for (int64_t n = 0; n < needed; n += 1 + needed / 40)
        if (!try_kernels(&b, n, some, sizeof some))
            assert_string_equal(some, all);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quickest),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_trials_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
