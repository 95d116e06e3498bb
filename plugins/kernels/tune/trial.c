#include "tune/trial.h"
#include "entry.h"
#include "tune/context.h"
#include "tune/cases.h"

#include <string.h>

#define MAX_TRIES 4 /* variants that one case may go through */

typedef struct trial {
    gpu_context ctx;
    const clv_host_api *host;
    const gpu_target *target;
    char *disabled;
    size_t size;
} trial;

/* ------------------------------------------------------------------------ */
/* Running a case                                                           */

/* The variant of the largest tiles: numbers of variants begin with those. */
static uint32_t widest(const gpu_variants *variants)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < variants->n; i++)
        if (variants->id[i] > most)
            most = variants->id[i];
    return most;
}

static clv_status compile(trial *t, const gpu_case *c,
                          const clv_binding *weights, uint32_t n,
                          clv_plugin_program **out)
{
    clv_compile compile = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    compile.graph = &c->graph;
    compile.weights = weights;
    compile.n_weights = n;
    gpu_variants variants = {.n = 0};
    char choice[GPU_KEY_SIZE + 16] = ""; /* none, and none to be made */
    if (c->wide)
        gpu_list_variants(t->target, &c->graph, 0, &variants);
    if (variants.n)
        snprintf(choice, sizeof choice, "%s=%u", variants.key,
                 (unsigned)widest(&variants));
    compile.options = choice;
    return t->ctx.api->program_compile(t->ctx.dev, &compile, out);
}

/* Brings a weight of the case into the device's own layout. */
static clv_status convert(trial *t, const clv_tensor_desc *w,
                          clv_plugin_buffer *from, uint64_t size,
                          clv_plugin_buffer *to)
{
    clv_tensor_desc tensors[2] = {*w, *w};
    clv_node node = CLV_INIT(clv_node, CLV_STRUCT_NODE);
    clv_subgraph graph = CLV_INIT(clv_subgraph, CLV_STRUCT_SUBGRAPH);
    clv_compile compile = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    clv_command command = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    const clv_binding bindings[2] = {
        {.tensor = 0, .buffer = from, .size = size},
        {.tensor = 1, .buffer = to, .size = size}};
    for (uint32_t i = 0; i < 2; i++) {
        tensors[i].usage = i ? CLV_USAGE_OUTPUT : CLV_USAGE_INPUT;
        tensors[i].layout = i ? CLV_LAYOUT_PRIVATE : CLV_LAYOUT_LINEAR;
        tensors[i].rank = 2;
        tensors[i].dims[1] = w->dims[w->rank - 1];
        tensors[i].dims[0] = w->rank > 2 ? w->dims[0] * w->dims[1] : w->dims[0];
    }
    node.op = CLV_OP_CONVERT;
    node.revision = 1;
    node.n_inputs = node.n_outputs = 1;
    node.outputs[0] = 1;
    graph.tensors = tensors;
    graph.tensor_stride = sizeof *tensors;
    graph.nodes = &node;
    graph.node_stride = sizeof node;
    graph.n_tensors = 2;
    graph.n_nodes = 1;
    compile.graph = &graph;
    compile.options = "";
    command.kind = CLV_COMMAND_RUN;
    command.bindings = bindings;
    command.n_bindings = 2;
    clv_status status =
        t->ctx.api->program_compile(t->ctx.dev, &compile, &command.program);
    if (!status)
        status = gpu_context_run(&t->ctx, &command);
    t->ctx.api->program_destroy(command.program);
    return status;
}

/* The memory of a tensor of the case, as its layout is. */
static clv_status place(trial *t, const gpu_case *c, uint32_t i,
                        clv_plugin_buffer **out)
{
    clv_plugin_buffer *linear = NULL;
    if (c->tensors[i].layout != CLV_LAYOUT_PRIVATE)
        return gpu_context_alloc(&t->ctx, c->data[i], c->size[i], out);
    CLV_TRY(gpu_context_alloc(&t->ctx, c->data[i], c->size[i], &linear));
    clv_status status = gpu_context_alloc(&t->ctx, NULL, c->size[i], out);
    if (!status)
        status = convert(t, &c->tensors[i], linear, c->size[i], *out);
    t->ctx.api->buffer_free(linear);
    return status;
}

/* The case's output, as the device has it. */
static clv_status run(trial *t, const gpu_case *c, float *out)
{
    clv_plugin_buffer *bufs[GPU_CASE_TENSORS] = {NULL};
    clv_binding weights[GPU_CASE_TENSORS], others[GPU_CASE_TENSORS];
    clv_command command = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    uint32_t n_weights = 0;
    clv_status status = CLV_OK;
    command.kind = CLV_COMMAND_RUN;
    command.bindings = others;
    for (uint32_t i = 0; i < c->graph.n_tensors && !status; i++) {
        status = place(t, c, i, &bufs[i]);
        clv_binding b = {.tensor = i, .buffer = bufs[i], .size = c->size[i]};
        if (c->tensors[i].usage == CLV_USAGE_WEIGHT)
            weights[n_weights++] = b;
        else
            others[command.n_bindings++] = b;
    }
    if (!status)
        status = compile(t, c, weights, n_weights, &command.program);
    if (!status)
        status = gpu_context_run(&t->ctx, &command);
    if (!status)
        status = gpu_context_fetch(&t->ctx, bufs[c->out], out, c->size[c->out]);
    t->ctx.api->program_destroy(command.program);
    for (uint32_t i = 0; i < c->graph.n_tensors; i++)
        t->ctx.api->buffer_free(bufs[i]);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Judging it                                                               */

static clv_status disable_one(trial *t, const gpu_case *c, const char *name,
                              const char *why)
{
    const size_t used = strlen(t->disabled);
    if (used + strlen(name) + 2 > t->size)
        return clv_fail(t->host, CLV_ERR_LIMIT,
                        "kernels '%s' %s in %s, as so many others do that "
                        "their names take more than %zu bytes; update the "
                        "driver, or leave the device out of core.devices",
                        name, why, c->name, t->size);
    snprintf(t->disabled + used, t->size - used, "%s%s", used ? "," : "", name);
    clv_log(t->host, CLV_LOG_WARN,
            "kernels '%s' %s in %s and are not used on this device", name, why,
            c->name);
    return CLV_OK;
}

/* Leaves out the variants that the case is computed by. *added: there are any.
 */
static clv_status disable(trial *t, const gpu_case *c, const char *why,
                          bool *added)
{
    gpu_code *code;
    clv_status status = CLV_OK;
    *added = false;
    CLV_TRY(gpu_lower(t->host, t->target, &c->graph, &code));
    for (uint32_t i = 0; i < code->n_kernels && !status; i++) {
        const char *name = code->kernels[i].variant;
        if (c->variant && strcmp(c->variant, name) != 0)
            continue;
        status = disable_one(t, c, name, why);
        *added = true;
    }
    gpu_code_free(t->host, code);
    return status;
}

/* Layouts that the device does not prefer are never granted, so not tried. */
static bool is_taken(const trial *t, const gpu_case *c, double *bound)
{
    for (uint32_t i = 0; i < c->graph.n_tensors; i++)
        if (c->tensors[i].layout == CLV_LAYOUT_WEIGHTS &&
            t->target->states == GPU_STATES_ROWS)
            return false;
    if ((c->series && !t->target->series) ||
        (c->variant && gpu_is_disabled(t->target, c->variant)))
        return false;
    clv_op_caps caps[GPU_CASE_NODES];
    for (uint32_t i = 0; i < GPU_CASE_NODES; i++)
        caps[i] = (clv_op_caps)CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    gpu_caps(t->target, &c->graph, caps, sizeof *caps);
    *bound = 0;
    for (uint32_t i = 0; i < c->graph.n_nodes; i++) {
        if (caps[i].answer != CLV_ANSWER_YES)
            return false;
        const double one = gpu_result_bound(caps[i].error_class);
        *bound = one > *bound ? one : *bound;
    }
    return true;
}

static clv_status try_as_it_is(trial *t, const gpu_case *c)
{
    double bound;
    bool goes_on = true;
    float *out = clv_new(t->host, c->size[c->out]);
    clv_status status = out ? CLV_OK : CLV_ERR_NO_MEMORY;
    for (int i = 0;
         i < MAX_TRIES && !status && goes_on && is_taken(t, c, &bound); i++) {
        status = run(t, c, out);
        if (status == CLV_ERR_NO_MEMORY || status == CLV_ERR_DEVICE_LOST)
            break;
        bool right =
            !status && gpu_result_error(out, c->want, c->n_want) <= bound;
        const char *why = status ? "do not run" : "compute wrongly";
        status = CLV_OK;
        goes_on = false;
        if (!right)
            status = disable(t, c, why, &goes_on);
    }
    clv_free(t->host, out);
    return status;
}

/* Whether its one node prefers the weight in the device's own layout. */
static bool prefers_private(const trial *t, const gpu_case *c)
{
    clv_op_caps caps = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    if (c->graph.n_nodes > 1)
        return false;
    gpu_caps(t->target, &c->graph, &caps, sizeof caps);
    return caps.answer == CLV_ANSWER_YES &&
           caps.layouts[1] == CLV_LAYOUT_PRIVATE;
}

/* With its weight in all layouts that it may have. */
static clv_status try_case(trial *t, gpu_case *c)
{
    clv_status status = try_as_it_is(t, c);
    if (!status && prefers_private(t, c)) {
        c->tensors[1].layout = CLV_LAYOUT_PRIVATE;
        status = try_as_it_is(t, c);
    }
    return status;
}

static clv_status try_all(const gpu_tuner *tuner, char *disabled, size_t size)
{
    const clv_host_api *host = tuner->host;
    trial t = {.host = host,
               .target = tuner->target,
               .disabled = disabled,
               .size = size};
    clv_status status = CLV_OK;
    if (!gpu_context_open(&t.ctx, host, tuner->api, tuner->dev))
        return CLV_OK;
    for (uint32_t i = 0; i < gpu_n_cases() && !status; i++) {
        gpu_case *c = clv_new(host, sizeof *c);
        if (!c)
            return CLV_ERR_NO_MEMORY;
        status = gpu_case_make(host, i, t.target->plain_matrix, c);
        if (!status) { /* who waits for it sees that it goes on */
            clv_log(host, CLV_LOG_DEBUG, "kernels are tried: %s", c->name);
            status = try_case(&t, c);
        }
        gpu_case_free(host, c);
        clv_free(host, c);
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* Whether to try, and what was found before                                */

static const char *option(const gpu_tuner *t, const char *key)
{
    const char *value = t->host->option(t->host->host, key);
    return value ? value : "";
}

/* Names of small letters and digits, separated by ','. */
static bool is_list(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_,", text[i]) ||
            !text[i])
            return false;
    return true;
}

/* False: there is no result. */
static bool load_result(const gpu_entry *entry, char *disabled, size_t size)
{
    uint64_t n;
    char *text = gpu_entry_get(entry, &n);
    const bool good = text && n < size && is_list(text, (size_t)n);
    if (good)
        memcpy(disabled, text, (size_t)n + 1);
    clv_free(entry->host, text);
    return good;
}

clv_status gpu_try(const gpu_tuner *tuner, char *disabled, size_t size)
{
    const clv_host_api *host = tuner->host;
    const char *unwanted = option(tuner, "disabled");
    const char *wanted = option(tuner, "trial");
    char settings[800];
    const gpu_entry entry = {host, "trial", tuner->identity, settings};
    if (!is_list(unwanted, strlen(unwanted)) || strlen(unwanted) >= size)
        return clv_fail(host, CLV_ERR_INVALID,
                        "%s: %s.disabled = '%.60s': it must be names of "
                        "kernels separated by ','",
                        tuner->device, tuner->api->name, unwanted);
    snprintf(disabled, size, "%s", unwanted);
    /* Software is tried by its makers on this very machine. */
    if (!strcmp(wanted, "off") ||
        (tuner->software && strcmp(wanted, "on") != 0))
        return CLV_OK;
    snprintf(settings, sizeof settings, "%s\n%s\n%s\n%u %u %u %d %u", unwanted,
             option(tuner, "matrix"), option(tuner, "kv"),
             (unsigned)tuner->target->slices, (unsigned)tuner->target->weights,
             (unsigned)tuner->target->wgmma_bytes, (int)tuner->target->series,
             (unsigned)tuner->target->repeats);
    if (!load_result(&entry, disabled, size)) {
        CLV_TRY(try_all(tuner, disabled, size));
        gpu_entry_put(&entry, disabled, strlen(disabled));
    }
    /* Each time: the trial's own messages may have gone to another process. */
    if (strcmp(disabled, unwanted) != 0)
        clv_log(host, CLV_LOG_WARN,
                "%s: kernels not used: %s; a newer driver may do, %s.disabled "
                "takes their names without trial",
                tuner->device, disabled, tuner->api->name);
    return CLV_OK;
}
