#include "program.h"
#include "caps.h"
#include "memory.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define SLICE_NS 10000000u /* of a compilation in real time */

void npu_program_destroy(clv_plugin_program *prog)
{
    if (!prog)
        return;
    clv_plugin_device *dev = prog->dev;
    npu_give_memory(dev, prog->taken);
    npu_free(dev->host, prog->weights);
    npu_free(dev->host, prog->written);
    npu_free(dev->host, prog->paths);
    npu_free(dev->host, prog->phases);
    npu_graph_finish(dev->host, &prog->graph);
    npu_free(dev->host, prog);
    npu_lock(dev->inst);
    dev->n_programs--;
    npu_unlock(dev->inst);
}

clv_status npu_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    clv_program_info info;
    memset(&info, 0, sizeof info);
    info.memory_size = prog->memory_size;
    info.compile_ns = prog->compile_ns;
    info.n_kernels = prog->graph.n_nodes;
    npu_write(out, &info, sizeof info);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* A static device compiles for one length of its list. */
static clv_status check_length(const clv_plugin_program *prog, uint32_t index)
{
    const npu_settings *s = prog->dev->settings;
    clv_symbol_range n = npu_sequence(&prog->graph, &prog->graph.nodes[index]);
    if (!s->is_static)
        return CLV_OK;
    if (n.min != n.max)
        return npu_error(prog->dev->host, CLV_ERR_UNSUPPORTED,
                         "npu_sim: device '%s': node %" PRIu32
                         " is for %" PRId64 " to %" PRId64
                         " rows, programs here have one "
                         "length (static = on); compile a bucket for each",
                         s->name, index, n.min, n.max);
    for (uint32_t i = 0; i < s->n_lengths; i++)
        if (s->lengths[i] == n.max)
            return CLV_OK;
    return npu_error(prog->dev->host, CLV_ERR_UNSUPPORTED,
                     "npu_sim: device '%s': node %" PRIu32 " is for %" PRId64
                     " rows, which is not among its lengths; pad, or add it to "
                     "lengths",
                     s->name, index, n.max);
}

static clv_status take_nodes(clv_plugin_program *prog,
                             const clv_compile *compile)
{
    const clv_plugin_device *dev = prog->dev;
    const npu_graph *g = &prog->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        clv_op_caps caps;
        npu_answer(dev->settings, g, i, &caps);
        if (caps.answer == CLV_ANSWER_NO)
            return npu_error(dev->host, CLV_ERR_UNSUPPORTED,
                             "npu_sim: device '%s': node %" PRIu32
                             " is not taken: %s",
                             dev->settings->name, i, caps.reason);
        clv_status status = check_length(prog, i);
        if (status)
            return status;
        if (node->op == CLV_OP_MATMUL)
            prog->paths[i] =
                npu_matmul_path(dev->settings, npu_input(g, node, 1),
                                npu_sequence(g, node).max);
        prog->written[node->n_outputs ? node->outputs[0] : node->inputs[0]] =
            true;
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(i + 1) / (float)(g->n_nodes + 1)))
            return npu_error(dev->host, CLV_ERR_CANCELLED,
                             "npu_sim: the compilation was cancelled");
    }
    return CLV_OK;
}

static clv_status bind_weights(clv_plugin_program *prog,
                               const clv_compile *compile)
{
    const npu_graph *g = &prog->graph;
    const clv_host_api *host = prog->dev->host;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < compile->n_weights && !status; i++) {
        const clv_binding *b = &compile->weights[i];
        npu_view view;
        if (b->tensor >= g->n_tensors ||
            g->tensors[b->tensor].usage != CLV_USAGE_WEIGHT ||
            !npu_view_make(&g->tensors[b->tensor], NULL, &view))
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: tensor %" PRIu32 " is bound as a weight "
                             "but is none",
                             b->tensor);
        if (prog->weights[b->tensor])
            return npu_error(host, CLV_ERR_INVALID,
                             "npu_sim: weight tensor %" PRIu32 " is bound "
                             "twice",
                             b->tensor);
        status = npu_bind(prog->dev, b, npu_view_extent(&view),
                          npu_dtype_align(view.dtype), false,
                          &prog->weights[b->tensor]);
    }
    for (uint32_t i = 0; i < g->n_tensors && !status; i++)
        if (g->tensors[i].usage == CLV_USAGE_WEIGHT && !prog->weights[i])
            status =
                npu_error(host, CLV_ERR_INVALID,
                          "npu_sim: weight tensor %" PRIu32 " is not bound", i);
    return status;
}

/* Bytes of the weights, and elements of all else at their largest. */
typedef struct extent {
    double weights, elements, others;
} extent;

static extent measure(const npu_graph *g)
{
    extent e = {0};
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const clv_tensor_desc *t = &g->tensors[i];
        double n = 1;
        for (uint32_t d = 0; d < t->rank && d < CLV_MAX_RANK; d++)
            n *= (double)(t->dims[d] > 0 ? t->dims[d] : 0);
        if (t->usage == CLV_USAGE_WEIGHT) {
            e.weights += n * npu_dtype_size(t->dtype);
            continue;
        }
        e.elements += n;
        e.others += n * npu_dtype_size(t->dtype);
    }
    return e;
}

static clv_status check_window(clv_plugin_program *prog, const extent *e)
{
    const npu_settings *s = prog->dev->settings;
    double size = e->weights + e->others;
    if (s->window && size > (double)s->window)
        return npu_error(prog->dev->host, CLV_ERR_LIMIT,
                         "npu_sim: device '%s': a program of %.0f bytes of "
                         "weights and tensors exceeds the address window of "
                         "%" PRIu64 "; compile fewer nodes",
                         s->name, size, s->window);
    prog->memory_size = sizeof *prog + (uint64_t)size;
    if (!s->is_static)
        return CLV_OK;
    /* A static graph keeps memory of its own for what it computes. */
    clv_status status =
        npu_take_memory(prog->dev, (uint64_t)e->others, "a static graph");
    prog->taken = status ? 0 : (uint64_t)e->others;
    return status;
}

static bool is_fixed(const npu_graph *g)
{
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min != g->symbols[i].max)
            return false;
    return true;
}

static clv_status time_nodes(clv_plugin_program *prog)
{
    const npu_graph *g = &prog->graph;
    if (!is_fixed(g))
        return CLV_OK;
    prog->phases = npu_alloc(prog->dev->host, g->n_nodes, sizeof *prog->phases);
    if (!prog->phases)
        return npu_no_memory(prog->dev->host, "a program");
    for (uint32_t i = 0; i < g->n_nodes; i++)
        npu_node_cost(prog->dev->settings, g, i, prog->paths[i], NULL,
                      &prog->phases[i]);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Whether the device has compiled such a graph before; notes it. */
static bool seen_before(clv_plugin_device *dev, const npu_graph *g)
{
    uint64_t hash = npu_graph_hash(NPU_HASH_START, g);
    for (uint32_t i = 0; i < dev->n_graphs && i < NPU_MAX_GRAPHS; i++)
        if (dev->graphs[i] == hash)
            return true;
    dev->graphs[dev->n_graphs++ % NPU_MAX_GRAPHS] = hash;
    return false;
}

static clv_status sleep_for(clv_plugin_program *prog,
                            const clv_compile *compile)
{
    uint64_t begin = npu_real_ns();
    double checked = prog->graph.n_nodes / (prog->graph.n_nodes + 1.0);
    for (uint64_t now; (now = npu_real_ns() - begin) < prog->compile_ns;) {
        double done = (double)now / (double)prog->compile_ns;
        uint64_t left = prog->compile_ns - now;
        struct timespec t = {.tv_nsec =
                                 (long)(left < SLICE_NS ? left : SLICE_NS)};
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(checked + (1 - checked) * done)))
            return npu_error(prog->dev->host, CLV_ERR_CANCELLED,
                             "npu_sim: the compilation was cancelled");
        nanosleep(&t, NULL);
    }
    return CLV_OK;
}

static clv_status spend_time(clv_plugin_program *prog,
                             const clv_compile *compile, const extent *e,
                             bool quickly)
{
    clv_plugin_device *dev = prog->dev;
    const npu_settings *s = dev->settings;
    npu_lock(dev->inst);
    bool known = seen_before(dev, &prog->graph) || quickly;
    double ns = s->compile_node_ns * prog->graph.n_nodes +
                s->compile_byte_ns * e->weights;
    ns += known ? s->compile_repeat_ns
                : s->compile_base_ns + s->compile_element_ns * e->elements;
    prog->compile_ns = ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
    if (!dev->inst->config.is_real)
        npu_sim_spend(&dev->inst->sim, prog->compile_ns);
    npu_unlock(dev->inst);
    return dev->inst->config.is_real ? sleep_for(prog, compile) : CLV_OK;
}

static clv_status fill(clv_plugin_program *prog, const clv_compile *compile,
                       bool quickly)
{
    const clv_host_api *host = prog->dev->host;
    clv_status status = npu_graph_read(host, compile->graph, &prog->graph);
    if (status)
        return status;
    const npu_graph *g = &prog->graph;
    prog->weights = npu_alloc(host, g->n_tensors, sizeof *prog->weights);
    prog->written = npu_alloc(host, g->n_tensors, sizeof *prog->written);
    prog->paths = npu_alloc(host, g->n_nodes, sizeof *prog->paths);
    if (!prog->weights || !prog->written || !prog->paths)
        return npu_no_memory(host, "a program");
    status = take_nodes(prog, compile);
    if (!status)
        status = bind_weights(prog, compile);
    extent e = measure(g);
    if (!status)
        status = check_window(prog, &e);
    if (!status)
        status = time_nodes(prog);
    if (!status)
        status = spend_time(prog, compile, &e, quickly);
    return status;
}

clv_status npu_program_make(clv_plugin_device *dev, const clv_compile *from,
                            bool quickly, clv_plugin_program **out)
{
    const clv_host_api *host = dev->host;
    const uint32_t limit = dev->settings->max_programs;
    clv_compile compile;
    npu_read(&compile, sizeof compile, from);
    clv_status status = npu_check_device(dev);
    if (!status)
        status = npu_check_chain(host, &compile.header);
    if (status)
        return status;
    if (!compile.graph || compile.flags ||
        (compile.n_weights && !compile.weights))
        return npu_error(host, CLV_ERR_INVALID,
                         "npu_sim: a compilation without graph or weights, or "
                         "with flags that are not known");
    clv_plugin_program *prog = npu_alloc(host, 1, sizeof *prog);
    if (!prog)
        return npu_no_memory(host, "a program");
    prog->dev = dev;
    prog->maker = npu_maker(dev, compile.options);
    npu_lock(dev->inst);
    uint32_t resident = dev->n_programs++;
    npu_unlock(dev->inst);
    if (limit && resident >= limit)
        status = npu_error(host, CLV_ERR_LIMIT,
                           "npu_sim: device '%s': %" PRIu32 " programs are "
                           "resident, as many as max_programs; destroy one",
                           dev->settings->name, resident);
    if (!status)
        status = fill(prog, &compile, quickly);
    if (status)
        npu_program_destroy(prog);
    else
        *out = prog;
    return status;
}

clv_status npu_program_compile(clv_plugin_device *dev,
                               const clv_compile *compile,
                               clv_plugin_program **out)
{
    return npu_program_make(dev, compile, false, out);
}
