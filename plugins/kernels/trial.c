#include "trial.h"
#include "trial_cases.h"

#include <math.h>
#include <string.h>

#define PATIENCE_NS 60000000000u
#define MAX_TRIES 4 /* variants that one case may go through */

typedef struct trial {
    const clv_host_api *host;
    const clv_plugin_api *api;
    clv_plugin_device *dev;
    const gpu_target *target;
    char *disabled;
    size_t size;
    uint32_t type; /* of memory that the host sees */
} trial;

/* ------------------------------------------------------------------------ */
/* Running a case                                                           */

static bool find_memory(trial *t)
{
    clv_mem_type types[16];
    uint32_t n = 16;
    for (uint32_t i = 0; i < n; i++)
        types[i] = (clv_mem_type)CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE);
    if (t->api->mem_types(t->dev, &n, types, sizeof *types))
        return false;
    for (t->type = 0; t->type < n && t->type < 16; t->type++)
        if (types[t->type].flags & CLV_MEM_HOST_VISIBLE)
            return true;
    return false;
}

static clv_status fill(trial *t, clv_plugin_buffer *buf, const void *data,
                       uint64_t size)
{
    void *to;
    clv_status status = t->api->buffer_map(buf, CLV_ACCESS_WRITE, &to);
    if (status)
        return status;
    if (data)
        memcpy(to, data, size);
    else
        memset(to, 0xff, size);
    if (t->api->buffer_flush)
        status = t->api->buffer_flush(buf, 0, size);
    t->api->buffer_unmap(buf);
    return status;
}

static clv_status fetch(trial *t, clv_plugin_buffer *buf, float *out,
                        uint64_t size)
{
    void *from;
    clv_status status = t->api->buffer_map(buf, CLV_ACCESS_READ, &from);
    if (status)
        return status;
    if (t->api->buffer_invalidate)
        status = t->api->buffer_invalidate(buf, 0, size);
    memcpy(out, from, size);
    t->api->buffer_unmap(buf);
    return status;
}

static clv_status submit(trial *t, clv_plugin_program *program,
                         const clv_binding *bindings, uint32_t n)
{
    clv_plugin_timeline *end = NULL;
    clv_status status = t->api->timeline_create(t->dev, 0, &end);
    if (status)
        return status;
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    c.kind = CLV_COMMAND_RUN;
    c.program = program;
    c.bindings = bindings;
    c.n_bindings = n;
    clv_timeline_point signal = {.timeline = end, .value = 1};
    clv_submit s = CLV_INIT(clv_submit, CLV_STRUCT_SUBMIT);
    s.commands = &c;
    s.n_commands = 1;
    s.command_stride = sizeof c;
    s.signals = &signal;
    s.n_signals = 1;
    status = t->api->submit(t->dev, &s);
    if (!status)
        status = t->api->timeline_wait(end, 1, 0, PATIENCE_NS);
    t->api->timeline_destroy(end);
    return status;
}

/* The case's output, as the device has it. */
static clv_status run(trial *t, const gpu_case *c, float *out)
{
    clv_plugin_buffer *bufs[GPU_CASE_TENSORS] = {NULL};
    clv_binding weights[GPU_CASE_TENSORS], others[GPU_CASE_TENSORS];
    clv_plugin_program *program = NULL;
    uint32_t n_weights = 0, n_others = 0;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < c->graph.n_tensors && !status; i++) {
        status = t->api->buffer_alloc(t->dev, t->type, c->size[i], &bufs[i]);
        if (!status)
            status = fill(t, bufs[i], c->data[i], c->size[i]);
        clv_binding b = {.tensor = i, .buffer = bufs[i], .size = c->size[i]};
        if (c->tensors[i].usage == CLV_USAGE_WEIGHT)
            weights[n_weights++] = b;
        else
            others[n_others++] = b;
    }
    clv_compile compile = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    compile.graph = &c->graph;
    compile.weights = weights;
    compile.n_weights = n_weights;
    if (!status)
        status = t->api->program_compile(t->dev, &compile, &program);
    if (!status)
        status = submit(t, program, others, n_others);
    if (!status)
        status = fetch(t, bufs[c->out], out, c->size[c->out]);
    t->api->program_destroy(program);
    for (uint32_t i = 0; i < c->graph.n_tensors; i++)
        t->api->buffer_free(bufs[i]);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Judging it                                                               */

static double bound_of(uint32_t error_class)
{
    static const double bounds[] = {1e-3, 1e-12, 1e-10, 1e-6, 1e-4, 1e-2};
    return error_class < sizeof bounds / sizeof *bounds ? bounds[error_class]
                                                        : 1e-3;
}

static double error_of(const float *y, const float *want, uint64_t n)
{
    double difference = 0, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        difference += ((double)y[i] - want[i]) * ((double)y[i] - want[i]);
        sum += (double)want[i] * want[i];
    }
    return isfinite(difference) && sum > 0 ? difference / sum : INFINITY;
}

/* Leaves out the variants that the case is computed by; false: there is no
 * other. */
static bool disable(trial *t, const gpu_case *c, const char *why)
{
    gpu_code *code;
    bool added = false;
    if (gpu_lower(t->host, t->target, &c->graph, &code))
        return false;
    for (uint32_t i = 0; i < code->n_kernels; i++) {
        const char *name = code->kernels[i].variant;
        size_t used = strlen(t->disabled);
        char line[256];
        if (used + strlen(name) + 2 > t->size)
            continue;
        snprintf(t->disabled + used, t->size - used, "%s%s", used ? "," : "",
                 name);
        snprintf(line, sizeof line, "kernels '%s' %s in %s and are not used on "
                 "this device", name, why, c->name);
        t->host->log(t->host->host, CLV_LOG_WARN, NULL, 0, line);
        added = true;
    }
    gpu_code_free(t->host, code);
    return added;
}

static bool is_taken(const trial *t, const gpu_case *c, double *bound)
{
    clv_op_caps caps = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    gpu_caps(t->target, &c->graph, &caps, sizeof caps);
    *bound = bound_of(caps.error_class);
    return caps.answer == CLV_ANSWER_YES;
}

static clv_status try_case(trial *t, const gpu_case *c)
{
    double bound;
    float *out = clv_new(t->host, c->size[c->out]);
    clv_status status = out ? CLV_OK : CLV_ERR_NO_MEMORY;
    for (int i = 0; i < MAX_TRIES && !status && is_taken(t, c, &bound); i++) {
        status = run(t, c, out);
        if (status == CLV_ERR_NO_MEMORY || status == CLV_ERR_DEVICE_LOST)
            break;
        bool right = !status && error_of(out, c->want, c->n_want) <= bound;
        const char *why = status ? "do not run" : "compute wrongly";
        status = CLV_OK;
        if (right || !disable(t, c, why))
            break;
    }
    clv_free(t->host, out);
    return status;
}

clv_status gpu_try(const clv_host_api *host, const clv_plugin_api *api,
                   clv_plugin_device *dev, const gpu_target *target,
                   char *disabled, size_t size)
{
    trial t = {host, api, dev, target, disabled, size, 0};
    clv_status status = CLV_OK;
    if (!find_memory(&t))
        return CLV_OK;
    for (uint32_t i = 0; i < gpu_n_cases() && !status; i++) {
        gpu_case *c = clv_new(host, sizeof *c);
        if (!c)
            return CLV_ERR_NO_MEMORY;
        status = gpu_case_make(host, i, c);
        if (!status)
            status = try_case(&t, c);
        gpu_case_free(host, c);
        clv_free(host, c);
    }
    return status;
}
