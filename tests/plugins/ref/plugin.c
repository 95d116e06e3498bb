/*
 * A plugin for tests of the executor: two devices, each with a worker thread, a
 * queue and real timelines, running a few ops by the plainest loops. Options
 * decide which ops a device takes, when it fails and how slow it is.
 */
#include <cleave/plugin.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_DEVICES 2
#define MAX_JOBS 4
#define MAX_POINTS 8
#define MAX_RECORDS 256

struct clv_plugin_instance {
    const clv_host_api *host;
};

struct clv_plugin_timeline {
    clv_plugin_device *dev;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint64_t value;
    clv_status status;
    char message[128];
    _Atomic uint64_t *flag; /* a cache line of its own */
};

struct clv_plugin_buffer {
    clv_plugin_device *dev;
    uint8_t *data;
    uint64_t size;
    bool imported;
    void (*release)(void *ctx);
    void *release_ctx;
};

struct clv_plugin_program {
    clv_plugin_device *dev;
    clv_tensor_desc *tensors;
    clv_node *nodes;
    uint8_t **weights; /* [n_tensors], NULL: bound at submit */
    uint8_t **hidden;  /* [n_tensors] own memory of transients, or NULL */
    uint32_t n_tensors, n_nodes;
};

typedef struct job {
    clv_plugin_program *program;
    uint8_t **data; /* [n_tensors] */
    int64_t symbols[CLV_MAX_SYMBOLS];
    clv_timeline_point waits[MAX_POINTS], signals[MAX_POINTS];
    uint32_t n_waits, n_signals;
    uint64_t correlation;
    bool fails;
} job;

struct clv_plugin_device {
    clv_plugin_instance *inst;
    uint32_t index;
    bool takes[CLV_OP_COUNT];
    int fail_after, delay_us, n_submits;
    uint32_t pointer_align;
    bool in_place;
    bool hides; /* keeps transients to itself, as if fused away */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    job jobs[MAX_JOBS];
    uint32_t n_jobs; /* the first one is running */
    bool stop;
    clv_trace_record records[MAX_RECORDS];
    uint32_t n_records;
};

static const char *const op_names[CLV_OP_COUNT] = {
    [CLV_OP_GET_ROWS] = "get_rows", [CLV_OP_SET_ROWS] = "set_rows",
    [CLV_OP_MATMUL] = "matmul",     [CLV_OP_ADD] = "add",
    [CLV_OP_MUL] = "mul",           [CLV_OP_SILU] = "silu",
    [CLV_OP_GLU] = "glu",           [CLV_OP_SOFTMAX] = "softmax",
};

static const char *option(const clv_plugin_instance *inst, const char *name,
                          uint32_t device)
{
    char key[32];
    snprintf(key, sizeof key, "%s%u", name, device);
    const char *value = inst->host->option(inst->host->host, key);
    return value ? value : "";
}

static clv_status fail(const clv_plugin_instance *inst, clv_status status,
                       const char *text)
{
    return inst->host->set_error(inst->host->host, status, 0, text);
}

/* ------------------------------------------------------------------------ */
/* Instance and devices                                                      */

static clv_status create(const clv_host_api *host, clv_plugin_instance **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return CLV_ERR_NO_MEMORY;
    (*out)->host = host;
    return CLV_OK;
}

static clv_status quiesce(clv_plugin_instance *inst)
{
    (void)inst;
    return CLV_OK;
}

static void destroy(clv_plugin_instance *inst)
{
    free(inst);
}

static clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride)
{
    for (uint32_t i = 0; i < N_DEVICES && i < *count; i++) {
        clv_device_info *info = (void *)((char *)out + (size_t)i * stride);
        snprintf(info->id, sizeof info->id, "%u", i);
        snprintf(info->name, sizeof info->name, "reference %u", i);
        snprintf(info->driver, sizeof info->driver, "1");
        info->kind = CLV_DEVICE_OTHER;
        info->flags = CLV_DEVICE_FLAG_STORE;
        if (!strcmp(option(inst, "flag_wait", i), "on"))
            info->flags |= CLV_DEVICE_FLAG_WAIT;
        if (!strcmp(option(inst, "virtual", i), "on"))
            info->clock = CLV_CLOCK_VIRTUAL;
        info->n_mem_types = 1;
        info->queue_depth = MAX_JOBS;
        info->units = 1;
    }
    *count = N_DEVICES;
    return CLV_OK;
}

static void *work(void *arg);

static clv_status device_open(clv_plugin_instance *inst, uint32_t index,
                              clv_plugin_device **out)
{
    clv_plugin_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    dev->inst = inst;
    dev->index = index;
    const char *ops = option(inst, "ops", index);
    for (uint32_t i = 0; i < CLV_OP_COUNT; i++)
        dev->takes[i] = op_names[i] && (!strcmp(ops, "all") ||
                                        strstr(ops, op_names[i]));
    dev->fail_after = atoi(option(inst, "fail_after", index));
    dev->delay_us = atoi(option(inst, "delay_us", index));
    dev->pointer_align = (uint32_t)atoi(option(inst, "align", index));
    dev->in_place = !strcmp(option(inst, "in_place", index), "on");
    dev->hides = !strcmp(option(inst, "hide", index), "on");
    pthread_mutex_init(&dev->mutex, NULL);
    pthread_cond_init(&dev->cond, NULL);
    pthread_create(&dev->thread, NULL, work, dev);
    *out = dev;
    return CLV_OK;
}

static void device_close(clv_plugin_device *dev)
{
    if (!dev)
        return;
    pthread_mutex_lock(&dev->mutex);
    dev->stop = true;
    pthread_cond_broadcast(&dev->cond);
    pthread_mutex_unlock(&dev->mutex);
    pthread_join(dev->thread, NULL);
    pthread_cond_destroy(&dev->cond);
    pthread_mutex_destroy(&dev->mutex);
    free(dev);
}

static clv_status mem_types(clv_plugin_device *dev, uint32_t *count,
                            clv_mem_type *out, uint32_t stride)
{
    (void)stride;
    if (*count) {
        out->flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT | CLV_MEM_CACHED;
        if (strcmp(option(dev->inst, "import", dev->index), "off"))
            out->import_handles = CLV_HANDLE_HOST_POINTER;
        out->alignment = 4096;
        out->import_align = 4096;
    }
    *count = 1;
    return CLV_OK;
}

static clv_status op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_op_caps *out, uint32_t stride)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        clv_op_caps *caps = (void *)((char *)out + (size_t)i * stride);
        uint32_t op = graph->nodes[i].op;
        if (op < CLV_OP_COUNT && dev->takes[op]) {
            caps->answer = CLV_ANSWER_YES;
            caps->error_class = CLV_ERROR_F32;
            caps->pointer_align = dev->pointer_align;
            if (dev->in_place && (op == CLV_OP_ADD || op == CLV_OP_MUL))
                caps->alias_inputs = 3;
        } else {
            snprintf(caps->reason, sizeof caps->reason,
                     "op %u is not among ops%u", op, dev->index);
        }
    }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Buffers                                                                   */

static clv_status buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                               uint64_t size, clv_plugin_buffer **out)
{
    (void)mem_type;
    clv_plugin_buffer *buf = calloc(1, sizeof *buf);
    const clv_host_api *host = dev->inst->host;
    buf->dev = dev;
    buf->size = size;
    buf->data = host->alloc(host->host, size, 4096);
    *out = buf;
    return CLV_OK;
}

static clv_status buffer_import(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out)
{
    (void)mem_type;
    clv_plugin_buffer *buf = calloc(1, sizeof *buf);
    *buf = (clv_plugin_buffer){.dev = dev,
                               .data = (uint8_t *)import->pointer,
                               .size = import->size,
                               .imported = true,
                               .release = import->release,
                               .release_ctx = import->release_ctx};
    *out = buf;
    return CLV_OK;
}

static void buffer_free(clv_plugin_buffer *buf)
{
    if (!buf)
        return;
    const clv_host_api *host = buf->dev->inst->host;
    if (!buf->imported)
        host->free(host->host, buf->data);
    else if (buf->release)
        buf->release(buf->release_ctx);
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

/* ------------------------------------------------------------------------ */
/* Timelines                                                                 */

static clv_status timeline_create(clv_plugin_device *dev, uint64_t value,
                                  clv_plugin_timeline **out)
{
    clv_plugin_timeline *tl = calloc(1, sizeof *tl);
    tl->dev = dev;
    tl->value = value;
    tl->flag = aligned_alloc(64, 64);
    atomic_init(tl->flag, value);
    pthread_mutex_init(&tl->mutex, NULL);
    pthread_cond_init(&tl->cond, NULL);
    *out = tl;
    return CLV_OK;
}

static void timeline_destroy(clv_plugin_timeline *tl)
{
    if (!tl)
        return;
    pthread_cond_destroy(&tl->cond);
    pthread_mutex_destroy(&tl->mutex);
    free(tl->flag);
    free(tl);
}

static clv_status timeline_query(clv_plugin_timeline *tl,
                                 clv_timeline_info *out)
{
    pthread_mutex_lock(&tl->mutex);
    out->flag = (const uint64_t *)tl->flag;
    out->value = tl->value;
    out->status = tl->status;
    memcpy(out->message, tl->message, sizeof out->message);
    pthread_mutex_unlock(&tl->mutex);
    return CLV_OK;
}

static clv_status timeline_signal(clv_plugin_timeline *tl, uint64_t value)
{
    pthread_mutex_lock(&tl->mutex);
    if (!tl->status) {
        tl->value = value;
        atomic_store_explicit(tl->flag, value, memory_order_release);
        pthread_cond_broadcast(&tl->cond);
    }
    pthread_mutex_unlock(&tl->mutex);
    return CLV_OK;
}

static clv_status timeline_fail(clv_plugin_timeline *tl, clv_status status,
                                const char *message)
{
    pthread_mutex_lock(&tl->mutex);
    if (!tl->status) {
        tl->status = status;
        snprintf(tl->message, sizeof tl->message, "%s", message);
        atomic_fetch_or(tl->flag, CLV_FLAG_FAILED);
        pthread_cond_broadcast(&tl->cond);
    }
    pthread_mutex_unlock(&tl->mutex);
    return CLV_OK;
}

static clv_status timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                                uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)spin_ns;
    (void)timeout_ns;
    pthread_mutex_lock(&tl->mutex);
    while (!tl->status && tl->value < value)
        pthread_cond_wait(&tl->cond, &tl->mutex);
    clv_status status = tl->status;
    char message[sizeof tl->message];
    memcpy(message, tl->message, sizeof message);
    pthread_mutex_unlock(&tl->mutex);
    return status ? fail(tl->dev->inst, status, message) : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Kernels                                                                   */

typedef struct tensor {
    const clv_tensor_desc *desc;
    void *data;
    int64_t rows, columns; /* a vector is one row */
} tensor;

static float half(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float x = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25)
                       : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -x : x;
}

static float get(const tensor *t, int64_t i)
{
    return t->desc->dtype == CLV_DTYPE_F16 ? half(((uint16_t *)t->data)[i])
                                           : ((float *)t->data)[i];
}

static float silu(float x)
{
    return x / (1 + expf(-x));
}

static void run_matmul(const tensor *t, const tensor *out)
{
    float *y = out->data;
    for (int64_t i = 0; i < t[0].rows; i++) {
        for (int64_t o = 0; o < t[1].rows; o++) {
            double sum = t[2].data ? get(&t[2], o) : 0;
            for (int64_t c = 0; c < t[0].columns; c++)
                sum += (double)get(&t[0], i * t[0].columns + c) *
                       get(&t[1], o * t[0].columns + c);
            y[i * t[1].rows + o] = (float)sum;
        }
    }
}

static void run_softmax(const tensor *x, const tensor *out)
{
    float *y = out->data;
    for (int64_t i = 0; i < x->rows; i++) {
        double sum = 0;
        for (int64_t c = 0; c < x->columns; c++)
            sum += exp(get(x, i * x->columns + c));
        for (int64_t c = 0; c < x->columns; c++)
            y[i * x->columns + c] =
                (float)(exp(get(x, i * x->columns + c)) / sum);
    }
}

static void run_rows(const tensor *t, const tensor *out, bool set)
{
    const int32_t *ids = set ? t[2].data : t[1].data;
    int64_t n = set ? t[1].rows : out->rows, columns = t[0].columns;
    for (int64_t i = 0; i < n; i++) {
        bool inside = ids[i] >= 0 && ids[i] < t[0].rows;
        for (int64_t c = 0; c < columns; c++) {
            if (!set)
                ((float *)out->data)[i * columns + c] =
                    inside ? get(&t[0], ids[i] * columns + c) : NAN;
            else if (inside)
                ((float *)t[0].data)[ids[i] * columns + c] =
                    get(&t[1], i * columns + c);
        }
    }
}

static void run_elementwise(const clv_node *node, const tensor *t,
                            const tensor *out)
{
    float *y = out->data;
    int64_t n = out->rows * out->columns;
    int64_t period = node->op == CLV_OP_SILU ? n : t[1].rows * t[1].columns;
    for (int64_t i = 0; i < n; i++) {
        float a = get(&t[0], i);
        float b = node->op == CLV_OP_SILU ? 0 : get(&t[1], i % period);
        switch (node->op) {
        case CLV_OP_ADD:
            y[i] = a + b;
            break;
        case CLV_OP_MUL:
            y[i] = a * b;
            break;
        case CLV_OP_SILU:
            y[i] = silu(a);
            break;
        case CLV_OP_GLU:
            y[i] = silu(a) * b;
            break;
        }
    }
}

static tensor resolve(const job *j, uint32_t index)
{
    if (index == CLV_NO_TENSOR)
        return (tensor){0};
    const clv_tensor_desc *desc = &j->program->tensors[index];
    int64_t first =
        desc->symbols[0] ? j->symbols[desc->symbols[0] - 1] : desc->dims[0];
    return (tensor){desc, j->data[index], desc->rank == 2 ? first : 1,
                    desc->rank == 2 ? desc->dims[1] : first};
}

static void run_node(const job *j, const clv_node *node)
{
    tensor in[CLV_MAX_INPUTS] = {0}, out = {0};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = resolve(j, node->inputs[i]);
    if (node->n_outputs)
        out = resolve(j, node->outputs[0]);
    switch (node->op) {
    case CLV_OP_GET_ROWS:
    case CLV_OP_SET_ROWS:
        run_rows(in, &out, node->op == CLV_OP_SET_ROWS);
        break;
    case CLV_OP_MATMUL:
        run_matmul(in, &out);
        break;
    case CLV_OP_SOFTMAX:
        run_softmax(in, &out);
        break;
    default:
        run_elementwise(node, in, &out);
    }
}

/* ------------------------------------------------------------------------ */
/* Programs and work                                                         */

static clv_status program_compile(clv_plugin_device *dev,
                                  const clv_compile *compile,
                                  clv_plugin_program **out)
{
    const clv_subgraph *g = compile->graph;
    clv_plugin_program *prog = calloc(1, sizeof *prog);
    prog->dev = dev;
    prog->n_tensors = g->n_tensors;
    prog->n_nodes = g->n_nodes;
    prog->tensors = calloc(g->n_tensors, sizeof *prog->tensors);
    prog->nodes = calloc(g->n_nodes, sizeof *prog->nodes);
    prog->weights = calloc(g->n_tensors, sizeof *prog->weights);
    memcpy(prog->tensors, g->tensors, g->n_tensors * sizeof *prog->tensors);
    memcpy(prog->nodes, g->nodes, g->n_nodes * sizeof *prog->nodes);
    for (uint32_t i = 0; i < compile->n_weights; i++) {
        const clv_binding *b = &compile->weights[i];
        prog->weights[b->tensor] = b->buffer->data + b->offset;
        if (dev->pointer_align &&
            (uintptr_t)prog->weights[b->tensor] % dev->pointer_align)
            return fail(dev->inst, CLV_ERR_INTERNAL, "a misaligned weight");
    }
    prog->hidden = calloc(g->n_tensors, sizeof *prog->hidden);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const clv_tensor_desc *t = &g->tensors[i];
        size_t size = 4;
        for (uint32_t d = 0; d < t->rank; d++)
            size *= (size_t)t->dims[d];
        if (dev->hides && t->usage == CLV_USAGE_TRANSIENT)
            prog->hidden[i] = malloc(size);
    }
    *out = prog;
    return CLV_OK;
}

static clv_status program_info(clv_plugin_program *prog, clv_program_info *out)
{
    out->n_kernels = prog->n_nodes;
    return CLV_OK;
}

static void program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    for (uint32_t i = 0; i < prog->n_tensors; i++)
        free(prog->hidden[i]);
    free(prog->tensors);
    free(prog->nodes);
    free(prog->weights);
    free(prog->hidden);
    free(prog);
}

static clv_status submit(clv_plugin_device *dev, const clv_submit *s)
{
    const clv_command *c = s->commands;
    pthread_mutex_lock(&dev->mutex);
    if (dev->n_jobs == MAX_JOBS) {
        pthread_mutex_unlock(&dev->mutex);
        return fail(dev->inst, CLV_ERR_LIMIT, "the queue is full");
    }
    job *j = &dev->jobs[dev->n_jobs++];
    *j = (job){.program = c->program,
               .n_waits = s->n_waits,
               .n_signals = s->n_signals,
               .correlation = s->correlation,
               .fails = ++dev->n_submits == dev->fail_after};
    j->data = calloc(c->program->n_tensors, sizeof *j->data);
    for (uint32_t i = 0; i < c->program->n_tensors; i++)
        j->data[i] = c->program->weights[i];
    for (uint32_t i = 0; i < c->n_bindings; i++)
        j->data[c->bindings[i].tensor] =
            c->bindings[i].buffer->data + c->bindings[i].offset;
    for (uint32_t i = 0; i < c->program->n_tensors; i++)
        if (c->program->hidden[i])
            j->data[i] = c->program->hidden[i];
    for (uint32_t i = 0; i < c->n_symbols; i++)
        j->symbols[i] = c->symbols[i];
    memcpy(j->waits, s->waits, s->n_waits * sizeof *s->waits);
    memcpy(j->signals, s->signals, s->n_signals * sizeof *s->signals);
    pthread_cond_broadcast(&dev->cond);
    pthread_mutex_unlock(&dev->mutex);
    return CLV_OK;
}

/* False if what it waits for failed. */
static bool wait_flags(const job *j)
{
    for (uint32_t i = 0; i < j->n_waits; i++) {
        const uint64_t *flag = j->waits[i].flag;
        uint64_t value;
        while ((value = __atomic_load_n(flag, __ATOMIC_ACQUIRE)) <
               j->waits[i].value)
            usleep(20);
        if (value & CLV_FLAG_FAILED)
            return false;
    }
    return true;
}

static void record(clv_plugin_device *dev, const job *j, uint64_t begin)
{
    const clv_host_api *host = dev->inst->host;
    if (!j->correlation || dev->n_records == MAX_RECORDS)
        return;
    clv_trace_record *r = &dev->records[dev->n_records++];
    *r = (clv_trace_record){.correlation = j->correlation,
                            .begin = begin,
                            .end = host->now_ns(host->host),
                            .node = CLV_NO_TENSOR};
    snprintf(r->name, sizeof r->name, "run \"%u\"", dev->index);
}

static void run_job(clv_plugin_device *dev, const job *j)
{
    const clv_host_api *host = dev->inst->host;
    const char *problem = j->fails ? "it was told to fail" : NULL;
    uint64_t begin = host->now_ns(host->host);
    if (!wait_flags(j))
        problem = "another device failed";
    if (dev->delay_us)
        usleep((useconds_t)dev->delay_us);
    for (uint32_t i = 0; i < j->program->n_nodes && !problem; i++)
        run_node(j, &j->program->nodes[i]);
    pthread_mutex_lock(&dev->mutex);
    record(dev, j, begin);
    pthread_mutex_unlock(&dev->mutex);
    for (uint32_t i = 0; i < j->n_signals; i++) {
        if (problem)
            timeline_fail(j->signals[i].timeline, CLV_ERR_DEVICE_LOST, problem);
        else
            timeline_signal(j->signals[i].timeline, j->signals[i].value);
    }
    free(j->data);
}

static void *work(void *arg)
{
    clv_plugin_device *dev = arg;
    pthread_mutex_lock(&dev->mutex);
    while (!dev->stop || dev->n_jobs) {
        if (!dev->n_jobs) {
            pthread_cond_wait(&dev->cond, &dev->mutex);
            continue;
        }
        job j = dev->jobs[0];
        pthread_mutex_unlock(&dev->mutex);
        run_job(dev, &j);
        pthread_mutex_lock(&dev->mutex);
        dev->n_jobs--;
        memmove(dev->jobs, dev->jobs + 1, dev->n_jobs * sizeof *dev->jobs);
    }
    pthread_mutex_unlock(&dev->mutex);
    return NULL;
}

static clv_status trace_read(clv_plugin_device *dev, uint32_t *count,
                             clv_trace_record *out, uint32_t stride)
{
    pthread_mutex_lock(&dev->mutex);
    uint32_t n = *count < dev->n_records ? *count : dev->n_records;
    for (uint32_t i = 0; i < n; i++) {
        clv_trace_record *to = (void *)((char *)out + (size_t)i * stride);
        clv_header header = to->header;
        *to = dev->records[i];
        to->header = header;
    }
    dev->n_records -= n;
    memmove(dev->records, dev->records + n,
            dev->n_records * sizeof *dev->records);
    *count = n;
    pthread_mutex_unlock(&dev->mutex);
    return CLV_OK;
}

static clv_status calibrate(clv_plugin_device *dev, clv_calibration *out)
{
    out->device_tick = dev->inst->host->now_ns(dev->inst->host->host);
    out->host_ns = out->device_tick;
    out->tick_ns = 1;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

#define OPTION(key_, value)                                                    \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL}, .key = key_,  \
        .default_value = value, .help = "for tests",                           \
        .type = CLV_OPTION_STRING                                              \
    }
#define OPTIONS(i)                                                             \
    OPTION("ops" i, "all"), OPTION("fail_after" i, "0"),                       \
        OPTION("delay_us" i, "0"), OPTION("align" i, "0"),                     \
        OPTION("in_place" i, "off"), OPTION("flag_wait" i, "off"),             \
        OPTION("virtual" i, "off"), OPTION("import" i, "on"),                  \
        OPTION("hide" i, "off")

static const clv_option options[] = {OPTIONS("0"), OPTIONS("1")};

static const clv_plugin_api api = {
    .header = {sizeof(clv_plugin_api), CLV_STRUCT_PLUGIN_API, NULL},
    .name = "ref",
    .version = "1",
    .build_id = "1",
    .description = "reference devices for tests",
    .flags = CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS,
    .n_options = sizeof options / sizeof *options,
    .option_stride = sizeof *options,
    .options = options,
    .create = create,
    .quiesce = quiesce,
    .destroy = destroy,
    .enumerate = enumerate,
    .device_open = device_open,
    .device_close = device_close,
    .mem_types = mem_types,
    .op_caps = op_caps,
    .buffer_alloc = buffer_alloc,
    .buffer_import = buffer_import,
    .buffer_free = buffer_free,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .timeline_create = timeline_create,
    .timeline_destroy = timeline_destroy,
    .timeline_query = timeline_query,
    .timeline_signal = timeline_signal,
    .timeline_fail = timeline_fail,
    .timeline_wait = timeline_wait,
    .program_compile = program_compile,
    .program_info = program_info,
    .program_destroy = program_destroy,
    .submit = submit,
    .trace_read = trace_read,
    .calibrate = calibrate,
};

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    if (in->abi_min > CLV_ABI_VERSION || in->abi_max < CLV_ABI_VERSION_MIN)
        return CLV_ERR_VERSION;
    out->api = &api;
    out->abi_version = CLV_ABI_VERSION;
    out->abi_min = CLV_ABI_VERSION_MIN;
    out->abi_max = CLV_ABI_VERSION;
    return CLV_OK;
}
