/*
 * A backend in C++, to copy: matrix products by the Eigen library on the host's
 * processors, with weights of every format that has a row in plugin_format.h.
 * docs/plugin-authors.md, "In C++", says what differs from C.
 */
#include <cleave/plugin_format.h>
#include <cleave/plugin_node.h>
#include <cleave/plugin_program.h>
#include <cleave/plugin_queue.h>

#include <Eigen/Core>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

struct clv_plugin_instance {
    const clv_host_api *host;
};

struct clv_plugin_device {
    clv_device_base base; /* first: the host, and the queue */
};

namespace
{

constexpr int64_t SLICE =
    64; /* output features decoded and multiplied at once */

/* An operand: rows that lie stride bytes apart. */
struct Matrix {
    uint32_t tensor, symbol; /* symbol: 1 + that of rows; 0: fixed */
    int64_t rows, columns, stride;

    Matrix() = default;
    Matrix(uint32_t index, const clv_tensor_desc &t)
        : tensor(index), symbol(t.symbols[0]), rows(t.dims[0]),
          columns(t.dims[1])
    {
        int64_t strides[CLV_MAX_RANK];
        clv_strides(&t, nullptr, strides);
        stride = strides[0];
    }
};

/* A MATMUL: y [n,O] = x [n,I] * transpose(w [O,I]) + bias [O]. */
struct Product {
    Matrix x, w, y;
    const clv_format *format; /* of w */
    uint32_t bias;            /* tensor, or CLV_NO_TENSOR */
};

} // namespace

struct clv_plugin_program {
    clv_program_base base; /* first: tensors, and where the weights lie */
    std::vector<Product> products;
};

namespace
{

/* --- what the device takes ------------------------------------------------ */

/* Whether node i is a product that the device can compute; its reason says why
 * not. op_caps() and program_compile() both ask here, so that a yes binds. */
bool read_product(const clv_subgraph *graph, uint32_t i, clv_checked_node &n,
                  Product &p)
{
    const uint32_t weights =
        clv_formats_of(CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK);
    const uint32_t f32 = CLV_DTYPE_BIT(CLV_DTYPE_F32);
    if (!clv_check_node(graph, i, 0, &n)) /* by the definition of its op */
        return false;
    if (n.node.op != CLV_OP_MATMUL)
        return clv_node_no(&n, "only matmul is computed here");
    if (!clv_node_takes(&n, 0, f32) || !clv_node_takes(&n, 1, weights) ||
        !clv_node_takes(&n, 2, f32) || !clv_node_rows(&n))
        return false;
    p.x = Matrix(n.node.inputs[0], n.in[0]);
    p.w = Matrix(n.node.inputs[1], n.in[1]);
    p.y = Matrix(n.node.outputs[0], n.out);
    p.format = clv_format_of(n.in[1].dtype);
    p.bias = clv_node_operand(&n, 2) ? n.node.inputs[2] : CLV_NO_TENSOR;
    return true;
}

clv_status op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                   clv_op_caps *out, uint32_t stride)
{
    CLV_TRY(clv_check_graph(dev->base.host, graph));
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        Product p;
        clv_checked_node n;
        clv_op_caps caps = {};
        if (read_product(graph, i, n, p)) {
            caps.answer = CLV_ANSWER_YES;
            caps.error_class = CLV_ERROR_F32;
            caps.split_axes = CLV_SPLIT_ROWS | CLV_SPLIT_SEQUENCE;
        } else {
            memcpy(caps.reason, n.reason, sizeof caps.reason);
        }
        clv_write(clv_at(out, i, stride), &caps, sizeof caps);
    }
    return CLV_OK;
}

/* --- programs ------------------------------------------------------------- */

/* An exception may not leave a slot: what allocates answers a status. */
clv_status read_products(const clv_host_api *host, const clv_subgraph *graph,
                         std::vector<Product> &products)
try {
    products.resize(graph->n_nodes);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        clv_checked_node node;
        if (!read_product(graph, i, node, products[i]))
            return clv_fail(host, CLV_ERR_UNSUPPORTED, "node %u: %s", i,
                            node.reason);
    }
    return CLV_OK;
} catch (const std::bad_alloc &) {
    return clv_fail(host, CLV_ERR_NO_MEMORY, "no memory for %u products",
                    graph->n_nodes);
}

void program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    prog->products.~vector();
    clv_program_destroy(prog); /* the base's, and the memory */
}

clv_status program_compile(clv_plugin_device *dev, const clv_compile *c,
                           clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    auto *prog = static_cast<clv_plugin_program *>(clv_new(host, sizeof **out));
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    new (&prog->products) std::vector<Product>;
    clv_status status = clv_program_init(&prog->base, host, c);
    if (!status)
        status = read_products(host, c->graph, prog->products);
    if (!status && c->progress && c->progress(c->progress_ctx, 1))
        status = clv_fail(host, CLV_ERR_CANCELLED, "cancelled");
    if (status)
        program_destroy(prog);
    else
        *out = prog;
    return status;
}

clv_status program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info = {};
    info.n_kernels = static_cast<uint32_t>(prog->products.size());
    info.memory_size = sizeof *prog + prog->products.size() * sizeof(Product);
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

/* --- work ----------------------------------------------------------------- */

using Rows =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowsAt = Eigen::Map<Rows, Eigen::Unaligned, Eigen::OuterStride<>>;

RowsAt rows_at(char *data, const Matrix &m, int64_t n)
{
    return RowsAt(reinterpret_cast<float *>(data), n, m.columns,
                  Eigen::OuterStride<>(m.stride / 4));
}

/* A product with its operands' memory. */
struct Work {
    const Product &p;
    int64_t n; /* rows of x and y */
    char *x, *w, *y;
    const float *bias;
    std::atomic<bool> no_memory;
};

void multiply_slice(Work &work, int64_t first)
{
    const Product &p = work.p;
    const int64_t count = std::min(SLICE, p.w.rows - first);
    Rows w(count, p.w.columns);
    for (int64_t o = 0; o < count; o++)
        p.format->decode(work.w + (first + o) * p.w.stride, w.row(o).data(),
                         p.w.columns);
    auto y = rows_at(work.y, p.y, work.n).middleCols(first, count);
    y.noalias() = rows_at(work.x, p.x, work.n) * w.transpose();
    if (work.bias)
        y.rowwise() +=
            Eigen::Map<const Eigen::RowVectorXf>(work.bias + first, count);
}

/* On a thread of the host. */
void slice(void *ctx, uint32_t i)
{
    auto &work = *static_cast<Work *>(ctx);
    try {
        multiply_slice(work, i * SLICE);
    } catch (const std::bad_alloc &) {
        work.no_memory = true;
    }
}

clv_status multiply(const clv_host_api *host, const Product &p,
                    const clv_command *c, char *message)
{
    Work work = {p,
                 p.x.symbol ? c->symbols[p.x.symbol - 1] : p.x.rows,
                 clv_program_data(c, p.x.tensor),
                 clv_program_data(c, p.w.tensor),
                 clv_program_data(c, p.y.tensor),
                 nullptr,
                 {false}};
    if (p.bias != CLV_NO_TENSOR)
        work.bias = reinterpret_cast<float *>(clv_program_data(c, p.bias));
    host->parallel_for(host->host,
                       static_cast<uint32_t>((p.w.rows + SLICE - 1) / SLICE),
                       slice, &work);
    if (!work.no_memory)
        return CLV_OK;
    snprintf(message, CLV_MESSAGE_SIZE, "no memory for a product of %lld rows",
             static_cast<long long>(work.n));
    return CLV_ERR_NO_MEMORY;
}

/* In submit: what is refused here never runs. */
clv_status check(void *ctx, const clv_command *c)
{
    auto *dev = static_cast<clv_plugin_device *>(ctx);
    return c->kind == CLV_COMMAND_RUN ? clv_program_check(c)
                                      : clv_buffer_check(dev->base.host, c);
}

/* On the queue's thread. */
clv_status run(void *ctx, const clv_submit *s, uint32_t i, char *message)
{
    auto *dev = static_cast<clv_plugin_device *>(ctx);
    const clv_command *c = &s->commands[i];
    if (c->kind != CLV_COMMAND_RUN) {
        clv_buffer_move(c);
        return CLV_OK;
    }
    for (const Product &p : c->program->products)
        CLV_TRY(multiply(dev->base.host, p, c, message));
    return CLV_OK;
}

/* --- instance and device -------------------------------------------------- */

clv_status create(const clv_host_api *host, clv_plugin_instance **out)
{
    CLV_TRY(clv_check_chain(host, host));
    auto *inst =
        static_cast<clv_plugin_instance *>(clv_new(host, sizeof **out));
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    inst->host = host;
    *out = inst;
    return CLV_OK;
}

clv_status quiesce(clv_plugin_instance *)
{
    return CLV_OK; /* a device's thread ends when the device closes */
}

void destroy(clv_plugin_instance *inst)
{
    if (inst)
        clv_free(inst->host, inst);
}

clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                     clv_device_info *out, uint32_t)
{
    clv_device_info info = {};
    snprintf(info.name, sizeof info.name, "Eigen %d.%d", EIGEN_MAJOR_VERSION,
             EIGEN_MINOR_VERSION);
    snprintf(info.driver, sizeof info.driver, "1.0");
    /* The host's processors: where another plugin drives them faster, plans use
     * that one instead. */
    memcpy(info.uuid, CLV_UUID_HOST, sizeof info.uuid);
    info.kind = CLV_DEVICE_CPU;
    info.flags =
        CLV_DEVICE_FLAG_STORE | CLV_DEVICE_FLAG_WAIT | CLV_DEVICE_SOFTWARE;
    info.n_mem_types = 1;
    info.units = inst->host->n_workers;
    if (*count)
        clv_write(out, &info, sizeof info);
    *count = 1;
    return CLV_OK;
}

clv_status device_open(clv_plugin_instance *inst, uint32_t index,
                       clv_plugin_device **out)
{
    static constexpr clv_queue_fns fns = {check, run};
    if (index)
        return clv_fail(inst->host, CLV_ERR_NOT_FOUND, "there is one device");
    auto *dev =
        static_cast<clv_plugin_device *>(clv_new(inst->host, sizeof **out));
    if (!dev)
        return CLV_ERR_NO_MEMORY;
    clv_status status = clv_queue_create(inst->host, 0, &fns, dev, &dev->base);
    if (status)
        clv_free(inst->host, dev);
    else
        *out = dev;
    return status;
}

/* --- the table ------------------------------------------------------------ */

/* constexpr: a table that is filled when the library is loaded has a
 * constructor, and the host refuses those. */
constexpr clv_plugin_api make_api()
{
    clv_plugin_api api = {};
    api.header = {sizeof api, CLV_STRUCT_PLUGIN_API, nullptr};
    api.name = "eigen";
    api.version = "1.0";
    api.build_id = "eigen-1";
    api.description = "multiplies matrices with Eigen";
    api.flags = CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS;
    api.create = create;
    api.quiesce = quiesce;
    api.destroy = destroy;
    api.enumerate = enumerate;
    api.device_open = device_open;
    api.device_close = clv_device_close;
    api.mem_types = clv_host_mem_types;
    api.op_caps = op_caps;
    api.buffer_alloc = clv_buffer_alloc;
    api.buffer_import = clv_buffer_import;
    api.buffer_free = clv_buffer_free;
    api.buffer_map = clv_buffer_map;
    api.buffer_unmap = clv_buffer_unmap;
    api.timeline_create = clv_timeline_create;
    api.timeline_destroy = clv_timeline_destroy;
    api.timeline_query = clv_timeline_query;
    api.timeline_signal = clv_timeline_signal;
    api.timeline_fail = clv_timeline_fail;
    api.timeline_wait = clv_timeline_wait;
    api.program_compile = program_compile;
    api.program_info = program_info;
    api.program_destroy = program_destroy;
    api.submit = clv_queue_submit;
    return api;
}

constexpr clv_plugin_api api = make_api();

} // namespace

CLV_PLUGIN_MANIFEST("name = eigen\nabi = 1\ndevices = cpu\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, CLV_ABI_VERSION_MIN, &api);
}
