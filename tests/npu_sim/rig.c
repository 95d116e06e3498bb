#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static rig *self(clv_host *host)
{
    return (rig *)host;
}

static void host_log(clv_host *h, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    (void)h, (void)level, (void)file, (void)line, (void)text;
}

static clv_status host_error(clv_host *h, clv_status status, int64_t vendor,
                             const char *text)
{
    (void)vendor;
    snprintf(self(h)->error, sizeof self(h)->error, "%s", text);
    return status;
}

static void *host_alloc(clv_host *h, uint64_t size, uint64_t alignment)
{
    void *ptr = NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (posix_memalign(&ptr, alignment, size ? size : 1))
        return NULL;
    atomic_fetch_add(&self(h)->blocks, 1);
    return ptr;
}

static void host_free(clv_host *h, void *ptr)
{
    atomic_fetch_sub(&self(h)->blocks, 1);
    free(ptr);
}

static void host_for(clv_host *h, uint32_t n, void (*fn)(void *, uint32_t),
                     void *ctx)
{
    (void)h;
    for (uint32_t i = 0; i < n; i++)
        fn(ctx, i);
}

static uint64_t host_now(clv_host *h)
{
    struct timespec t;
    (void)h;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const clv_option *declared(const rig *r, const char *key)
{
    for (uint32_t i = 0; i < r->api->n_options; i++)
        if (!strcmp(r->api->options[i].key, key))
            return &r->api->options[i];
    return NULL;
}

static const char *host_option(clv_host *h, const char *key)
{
    const rig *r = self(h);
    const char *dot = strrchr(key, '.');
    size_t n = strlen(key);
    for (uint32_t i = 0; i < r->n_settings; i++)
        if (!strncmp(r->settings[i], key, n) && r->settings[i][n] == '=')
            return r->settings[i] + n + 1;
    const clv_option *o = declared(r, dot ? dot + 1 : key);
    return o ? o->default_value : NULL;
}

static const char *host_section(clv_host *h, uint32_t index)
{
    return index < self(h)->n_sections ? self(h)->sections[index] : NULL;
}

static clv_status host_cache_get(clv_host *h, const char *key, void **data,
                                 uint64_t *size)
{
    (void)h, (void)key, (void)data, (void)size;
    return CLV_ERR_NOT_FOUND;
}

static clv_status host_cache_put(clv_host *h, const char *key, const void *data,
                                 uint64_t size)
{
    (void)h, (void)key, (void)data, (void)size;
    return CLV_OK;
}

static void host_trace(clv_host *h, const char *name, uint64_t begin,
                       uint64_t end)
{
    (void)h, (void)name, (void)begin, (void)end;
}

static void take_setting(rig *r, const char *line, size_t n)
{
    char *setting = r->settings[r->n_settings++];
    assert_true(r->n_settings < RIG_SETTINGS && n < sizeof r->settings[0]);
    snprintf(setting, sizeof r->settings[0], "%.*s", (int)n, line);
    size_t dot = strcspn(setting, ".="), i = 0;
    if (setting[dot] != '.')
        return;
    while (i < r->n_sections &&
           (strncmp(r->sections[i], setting, dot) || r->sections[i][dot]))
        i++;
    assert_true(i < RIG_DEVICES && dot < sizeof r->sections[0]);
    if (i == r->n_sections)
        memcpy(r->sections[r->n_sections++], line, dot);
}

clv_status rig_create(rig *r, const char *settings)
{
    char path[1024];
    memset(r, 0, sizeof *r);
    snprintf(path, sizeof path, "%s/plugins/cleave_npu_sim.so",
             getenv("CLEAVE_TEST_BUILD"));
    r->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!r->lib)
        fail_msg("%s", dlerror());
    clv_plugin_query_fn query;
    *(void **)&query = dlsym(r->lib, CLV_PLUGIN_QUERY_SYMBOL);
    clv_query_in in = CLV_INIT(clv_query_in, CLV_STRUCT_QUERY_IN);
    clv_query_out out = CLV_INIT(clv_query_out, CLV_STRUCT_QUERY_OUT);
    in.abi_min = in.abi_max = 1;
    assert_int_equal(query(&in, &out), CLV_OK);
    r->api = out.api;
    for (size_t n; *settings; settings += n + (settings[n] == '\n')) {
        n = strcspn(settings, "\n");
        if (n)
            take_setting(r, settings, n);
    }
    r->host = (clv_host_api){
        .header = {sizeof r->host, CLV_STRUCT_HOST_API, NULL},
        .host = (clv_host *)r,
        .plugin_path = "",
        .plugin_dir = "",
        .cache_dir = "",
        .n_workers = 1,
        .abi_version = 1,
        .log = host_log,
        .set_error = host_error,
        .alloc = host_alloc,
        .free = host_free,
        .parallel_for = host_for,
        .now_ns = host_now,
        .option = host_option,
        .cache_get = host_cache_get,
        .cache_put = host_cache_put,
        .trace = host_trace,
        .device_section = host_section,
    };
    return r->api->create(&r->host, &r->inst);
}

void rig_open(rig *r, const char *settings)
{
    if (rig_create(r, settings))
        fail_msg("create: %s", r->error);
    clv_device_info infos[RIG_DEVICES];
    for (int i = 0; i < RIG_DEVICES; i++)
        infos[i] =
            (clv_device_info)CLV_INIT(clv_device_info, CLV_STRUCT_DEVICE_INFO);
    r->n_devices = RIG_DEVICES;
    assert_int_equal(
        r->api->enumerate(r->inst, &r->n_devices, infos, sizeof *infos),
        CLV_OK);
    for (uint32_t i = 0; i < r->n_devices; i++) {
        assert_string_equal(infos[i].id, r->sections[i]);
        assert_int_equal(r->api->device_open(r->inst, i, &r->devices[i]),
                         CLV_OK);
    }
}

void rig_close(rig *r)
{
    for (uint32_t i = 0; i < r->n_devices; i++)
        r->api->device_close(r->devices[i]);
    if (r->inst)
        assert_int_equal(r->api->quiesce(r->inst), CLV_OK);
    r->api->destroy(r->inst);
    assert_int_equal(r->blocks, 0);
    dlclose(r->lib);
}

static clv_calibration calibrate(rig *r, uint32_t device)
{
    clv_calibration c = CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    assert_int_equal(r->api->calibrate(r->devices[device], &c), CLV_OK);
    return c;
}

uint64_t rig_now(rig *r)
{
    return calibrate(r, 0).device_tick;
}

double rig_energy(rig *r, uint32_t device)
{
    return calibrate(r, device).energy_nj;
}

/* ------------------------------------------------------------------------ */

static clv_tensor_desc matrix(uint32_t dtype, uint32_t usage, int64_t rows,
                              int64_t columns)
{
    clv_tensor_desc d = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    d.dtype = dtype;
    d.usage = usage;
    d.rank = 2;
    d.dims[0] = rows;
    d.dims[1] = columns;
    return d;
}

static uint64_t size_of(const clv_tensor_desc *d)
{
    uint64_t n = (uint64_t)d->dims[0];
    n *= (uint64_t)(d->rank > 1 ? d->dims[1] : 1);
    uint64_t bytes = 0;
    assert_ok(clv_dtype_size(d->dtype, n, &bytes));
    return bytes;
}

static void make_buffer(product *p, uint32_t t)
{
    const clv_plugin_api *api = p->r->api;
    uint64_t size = size_of(&p->tensors[t]);
    assert_int_equal(
        api->buffer_alloc(p->r->devices[p->device], 0, size, &p->buffers[t]),
        CLV_OK);
    clv_status status =
        api->buffer_map(p->buffers[t], CLV_ACCESS_WRITE, &p->data[t]);
    if (status == CLV_ERR_UNSUPPORTED) /* the device's own memory */
        return;
    assert_int_equal(status, CLV_OK);
    memset(p->data[t], 0, size);
}

static void make_scales(product *p, uint32_t quant, uint32_t group)
{
    clv_tensor_desc *s = &p->tensors[3];
    *s = matrix(CLV_DTYPE_F32, CLV_USAGE_WEIGHT, p->o, 1);
    s->rank = 1;
    if (quant == CLV_QUANT_PER_TENSOR)
        s->dims[0] = 1;
    if (quant == CLV_QUANT_PER_GROUP) {
        s->rank = 2;
        s->dims[1] = p->i / group;
    }
    p->tensors[1].quant = quant;
    p->tensors[1].quant_group = quant == CLV_QUANT_PER_GROUP ? group : 0;
    p->tensors[1].quant_scales = 4;
    make_buffer(p, 3);
    float *scales = p->data[3];
    for (uint64_t k = 0; k < size_of(s) / sizeof *scales; k++)
        scales[k] = 1;
}

void product_make(product *p, rig *r, uint32_t device, int64_t n, int64_t i,
                  int64_t o, uint32_t dtype, uint32_t quant, uint32_t group)
{
    memset(p, 0, sizeof *p);
    *p = (product){.r = r, .device = device, .n = n, .i = i, .o = o};
    p->tensors[0] = matrix(CLV_DTYPE_F32, CLV_USAGE_INPUT, n, i);
    p->tensors[1] = matrix(dtype, CLV_USAGE_WEIGHT, o, i);
    p->tensors[2] = matrix(CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, o);
    for (uint32_t t = 0; t < 3; t++)
        make_buffer(p, t);
    if (quant)
        make_scales(p, quant, group);
    p->node = (clv_node)CLV_INIT(clv_node, CLV_STRUCT_NODE);
    p->node.op = CLV_OP_MATMUL;
    p->node.revision = 1;
    p->node.n_inputs = 2;
    p->node.n_outputs = 1;
    p->node.inputs[1] = 1;
    p->node.outputs[0] = 2;
    assert_int_equal(r->api->timeline_create(r->devices[device], 0, &p->done),
                     CLV_OK);
}

static clv_subgraph graph_of(const product *p)
{
    clv_subgraph g = CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    g.tensors = p->tensors;
    g.nodes = &p->node;
    g.symbols = &p->symbol;
    g.n_tensors = p->tensors[1].quant ? 4 : 3;
    g.tensor_stride = sizeof *p->tensors;
    g.n_nodes = 1;
    g.node_stride = sizeof p->node;
    g.n_symbols = p->symbol.max > 0;
    return g;
}

clv_compile product_compilation(product *p, clv_subgraph *graph,
                                clv_binding weights[2])
{
    clv_compile c = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    *graph = graph_of(p);
    weights[0] = (clv_binding){
        .tensor = 1, .buffer = p->buffers[1], .size = size_of(&p->tensors[1])};
    if (p->tensors[1].quant)
        weights[1] = (clv_binding){.tensor = 3,
                                   .buffer = p->buffers[3],
                                   .size = size_of(&p->tensors[3])};
    c.graph = graph;
    c.weights = weights;
    c.n_weights = p->tensors[1].quant ? 2 : 1;
    return c;
}

clv_status product_compile(product *p)
{
    clv_subgraph graph;
    clv_binding weights[2];
    clv_compile c = product_compilation(p, &graph, weights);
    return p->r->api->program_compile(p->r->devices[p->device], &c,
                                      &p->program);
}

clv_op_caps product_caps(product *p)
{
    clv_subgraph g = graph_of(p);
    clv_op_caps caps = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    assert_int_equal(
        p->r->api->op_caps(p->r->devices[p->device], &g, &caps, sizeof caps),
        CLV_OK);
    return caps;
}

clv_status product_submit(product *p, const clv_timeline_point *wait,
                          uint64_t correlation)
{
    const clv_binding bindings[2] = {
        {.tensor = 0, .buffer = p->buffers[0], .size = size_of(&p->tensors[0])},
        {.tensor = 2,
         .buffer = p->buffers[2],
         .size = size_of(&p->tensors[2])}};
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    clv_timeline_point signal = {.timeline = p->done, .value = p->value + 1};
    c.kind = CLV_COMMAND_RUN;
    c.program = p->program;
    c.bindings = bindings;
    c.n_bindings = 2;
    s.commands = &c;
    s.n_commands = 1;
    s.command_stride = sizeof c;
    s.waits = wait;
    s.n_waits = wait != NULL;
    s.signals = &signal;
    s.n_signals = 1;
    s.correlation = correlation;
    clv_status status = p->r->api->submit(p->r->devices[p->device], &s);
    p->value += !status;
    return status;
}

clv_status product_wait(product *p, uint64_t spin_ns, uint64_t timeout_ns)
{
    return p->r->api->timeline_wait(p->done, p->value, spin_ns, timeout_ns);
}

void product_run(product *p)
{
    if (!p->program && product_compile(p))
        fail_msg("compile: %s", p->r->error);
    if (product_submit(p, NULL, 0) || product_wait(p, 0, UINT64_MAX))
        fail_msg("run: %s", p->r->error);
}

void product_free(product *p)
{
    const clv_plugin_api *api = p->r->api;
    api->program_destroy(p->program);
    api->timeline_destroy(p->done);
    for (uint32_t t = 0; t < 4; t++)
        api->buffer_free(p->buffers[t]);
}
