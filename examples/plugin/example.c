/*
 * A backend in one file, to copy: one device that multiplies matrices on a
 * thread of its own. docs/plugin-authors.md walks through it.
 */
#include <cleave/plugin_node.h>
#include <cleave/plugin_program.h>
#include <cleave/plugin_queue.h>

#include <stdlib.h>

struct clv_plugin_instance {
    const clv_host_api *host;
    uint32_t queue_depth;
};

struct clv_plugin_device {
    clv_device_base base; /* the host, and the queue */
};

/* An operand: rows that lie stride bytes apart. */
typedef struct matrix {
    uint32_t tensor, dtype, symbol; /* symbol: 1 + that of rows; 0: fixed */
    int64_t rows, columns;
    int64_t stride; /* bytes */
} matrix;

/* A MATMUL: y [n,O] = x [n,I] * transpose(w [O,I]). */
typedef struct product {
    matrix x, w, y;
} product;

struct clv_plugin_program {
    clv_program_base base; /* tensors, and where the weights lie */
    uint32_t n_products;
    product products[];
};

/* --- what the device takes ------------------------------------------------ */

static matrix make_matrix(uint32_t tensor, const clv_tensor_desc *t)
{
    int64_t strides[CLV_MAX_RANK];
    clv_strides(t, NULL, strides);
    return (matrix){tensor,     t->dtype,   t->symbols[0],
                    t->dims[0], t->dims[1], strides[0]};
}

/* Whether node i is a product that the device can compute; its reason says why
 * not. op_caps() and program_compile() both ask here, so that a yes binds. */
static int read_product(const clv_subgraph *graph, uint32_t i,
                        clv_checked_node *n, product *p)
{
    const uint32_t f32 = CLV_DTYPE_BIT(CLV_DTYPE_F32);
    if (!clv_check_node(graph, i, 0, n)) /* by the definition of its op */
        return 0;
    if (n->node.op != CLV_OP_MATMUL)
        return clv_node_no(n, "only matmul is computed here");
    if (clv_node_operand(n, 2))
        return clv_node_no(n, "no bias; add it in a node of its own");
    if (!clv_node_takes(n, 1,
                        f32 | CLV_DTYPE_BIT(CLV_DTYPE_F16) |
                            CLV_DTYPE_BIT(CLV_DTYPE_Q8_0)) ||
        !clv_node_rows(n))
        return 0;
    p->x = make_matrix(n->node.inputs[0], &n->in[0]);
    p->w = make_matrix(n->node.inputs[1], &n->in[1]);
    p->y = make_matrix(n->node.outputs[0], &n->out);
    return 1;
}

static clv_status op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_op_caps *out, uint32_t stride)
{
    CLV_TRY(clv_check_graph(dev->base.host, graph));
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        product p;
        clv_checked_node n;
        clv_op_caps caps = {.answer = CLV_ANSWER_YES,
                            .error_class = CLV_ERROR_F32,
                            .split_axes = CLV_SPLIT_ROWS | CLV_SPLIT_SEQUENCE |
                                          CLV_SPLIT_CHANNELS,
                            .split_granularity = {[2] = 32}};
        if (!read_product(graph, i, &n, &p)) {
            caps = (clv_op_caps){.answer = CLV_ANSWER_NO};
            memcpy(caps.reason, n.reason, sizeof caps.reason);
        }
        clv_write(clv_at(out, i, stride), &caps, sizeof caps);
    }
    return CLV_OK;
}

/* --- programs ------------------------------------------------------------- */

static clv_status program_compile(clv_plugin_device *dev, const clv_compile *c,
                                  clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    uint32_t n = c->graph ? c->graph->n_nodes : 0;
    clv_plugin_program *prog =
        clv_new(host, sizeof *prog + n * sizeof *prog->products);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    clv_status status = clv_program_init(&prog->base, host, c);
    for (uint32_t i = 0; i < n && !status; i++) {
        clv_checked_node node;
        if (!read_product(c->graph, i, &node, &prog->products[i]))
            status = clv_fail(host, CLV_ERR_UNSUPPORTED, "node %u: %s", i,
                              node.reason);
        else if (c->progress && c->progress(c->progress_ctx, i / (float)n))
            status = clv_fail(host, CLV_ERR_CANCELLED, "cancelled");
    }
    prog->n_products = n;
    if (status)
        clv_program_destroy(prog);
    else
        *out = prog;
    return status;
}

static clv_status program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info = {.n_kernels = prog->n_products};
    info.memory_size = sizeof *prog + prog->n_products * sizeof *prog->products;
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

/* --- work ----------------------------------------------------------------- */

static float weight(uint32_t dtype, const char *row, int64_t i)
{
    const char *block = row + i / 32 * 34; /* q8_0: f16 scale, 32 int8 */
    if (dtype == CLV_DTYPE_F32)
        return ((const float *)row)[i];
    if (dtype == CLV_DTYPE_F16)
        return clv_f16_to_f32(((const uint16_t *)row)[i]);
    return clv_f16_to_f32(*(const uint16_t *)block) *
           (signed char)block[2 + i % 32];
}

static void multiply(const product *p, const clv_command *c)
{
    int64_t n = p->x.symbol ? c->symbols[p->x.symbol - 1] : p->x.rows;
    const char *x = clv_program_data(c, p->x.tensor);
    const char *w = clv_program_data(c, p->w.tensor);
    char *y = clv_program_data(c, p->y.tensor);
    for (int64_t o = 0; o < p->w.rows; o++, w += p->w.stride)
        for (int64_t i = 0; i < n; i++) {
            const float *in = (const float *)(x + i * p->x.stride);
            double sum = 0;
            for (int64_t k = 0; k < p->w.columns; k++)
                sum += (double)weight(p->w.dtype, w, k) * in[k];
            ((float *)(y + i * p->y.stride))[o] = (float)sum;
        }
}

/* In submit: what is refused here never runs. */
static clv_status check(void *ctx, const clv_command *c)
{
    clv_plugin_device *dev = ctx;
    return c->kind == CLV_COMMAND_RUN ? clv_program_check(c)
                                      : clv_buffer_check(dev->base.host, c);
}

/* On the queue's thread. */
static clv_status run(void *ctx, const clv_submit *s, uint32_t i, char *message)
{
    const clv_command *c = &s->commands[i];
    (void)ctx, (void)message;
    if (c->kind != CLV_COMMAND_RUN)
        clv_buffer_move(c);
    else
        for (uint32_t p = 0; p < c->program->n_products; p++)
            multiply(&c->program->products[p], c);
    return CLV_OK;
}

/* --- instance and device -------------------------------------------------- */

static clv_status create(const clv_host_api *host, clv_plugin_instance **out)
{
    CLV_TRY(clv_check_chain(host, host));
    clv_plugin_instance *inst = clv_new(host, sizeof *inst);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    inst->queue_depth = (uint32_t)atoi(host->option(host->host, "queue_depth"));
    *out = inst;
    return CLV_OK;
}

static clv_status quiesce(clv_plugin_instance *inst)
{
    (void)inst;
    return CLV_OK; /* a device's thread ends when the device closes */
}

static void destroy(clv_plugin_instance *inst)
{
    if (inst)
        clv_free(inst->host, inst);
}

static clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride)
{
    (void)stride; /* of one device */
    const clv_device_info info = {.name = "Example",
                                  .driver = "1.0",
                                  .kind = CLV_DEVICE_OTHER,
                                  .flags = CLV_DEVICE_FLAG_STORE |
                                           CLV_DEVICE_FLAG_WAIT |
                                           CLV_DEVICE_SOFTWARE,
                                  .n_mem_types = 1,
                                  .queue_depth = inst->queue_depth,
                                  .units = 1};
    if (*count)
        clv_write(out, &info, sizeof info);
    *count = 1;
    return CLV_OK;
}

static clv_status device_open(clv_plugin_instance *inst, uint32_t index,
                              clv_plugin_device **out)
{
    if (index)
        return clv_fail(inst->host, CLV_ERR_NOT_FOUND, "there is one device");
    clv_plugin_device *dev = clv_new(inst->host, sizeof *dev);
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    static const clv_queue_fns fns = {check, run};
    clv_status status =
        clv_queue_create(inst->host, inst->queue_depth, &fns, dev, &dev->base);
    if (status)
        clv_free(inst->host, dev);
    else
        *out = dev;
    return status;
}

/* --- the table ------------------------------------------------------------ */

static const clv_option options[] = {
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "queue_depth",
     .type = CLV_OPTION_INT,
     .default_value = "64",
     .min = 1,
     .max = 65536,
     .help = "submits that may be in flight"}};

static const clv_plugin_api api = {
    .header = {sizeof api, CLV_STRUCT_PLUGIN_API, NULL},
    .name = "example",
    .version = "1.0",
    .build_id = "example-1",
    .description = "multiplies matrices on one thread",
    .flags = CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS,
    .n_options = 1,
    .option_stride = sizeof *options,
    .options = options,
    .create = create,
    .quiesce = quiesce,
    .destroy = destroy,
    .enumerate = enumerate,
    .device_open = device_open,
    .device_close = clv_device_close,
    .mem_types = clv_host_mem_types,
    .op_caps = op_caps,
    .buffer_alloc = clv_buffer_alloc,
    .buffer_import = clv_buffer_import,
    .buffer_free = clv_buffer_free,
    .buffer_map = clv_buffer_map,
    .buffer_unmap = clv_buffer_unmap,
    .timeline_create = clv_timeline_create,
    .timeline_destroy = clv_timeline_destroy,
    .timeline_query = clv_timeline_query,
    .timeline_signal = clv_timeline_signal,
    .timeline_fail = clv_timeline_fail,
    .timeline_wait = clv_timeline_wait,
    .program_compile = program_compile,
    .program_info = program_info,
    .program_destroy = clv_program_destroy,
    .submit = clv_queue_submit};

CLV_PLUGIN_MANIFEST("name = example\nabi = 1\ndevices = other\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
