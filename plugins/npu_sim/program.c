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
    npu_give_memory(dev, dev->settings->memory_size != 0, prog->taken);
    clv_free(dev->base.host, prog->paths);
    clv_free(dev->base.host, prog->phases);
    clv_free(dev->base.host, prog->graph);
    clv_program_destroy(prog);
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
    info.n_kernels = prog->graph->n_nodes;
    clv_write(out, &info, sizeof info);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* A static device compiles for one length of its list. */
static clv_status check_length(const clv_plugin_program *prog, uint32_t index)
{
    const npu_settings *s = prog->dev->settings;
    clv_symbol_range n = npu_sequence(prog->graph, &prog->graph->nodes[index]);
    if (!s->is_static)
        return CLV_OK;
    if (n.min != n.max)
        return clv_fail(prog->dev->base.host, CLV_ERR_UNSUPPORTED,
                        "npu_sim: device '%s': node %" PRIu32 " is for %" PRId64
                        " to %" PRId64 " rows, programs here have one "
                        "length (static = on); compile a bucket for each",
                        s->name, index, n.min, n.max);
    for (uint32_t i = 0; i < s->n_lengths; i++)
        if (s->lengths[i] == n.max)
            return CLV_OK;
    return clv_fail(prog->dev->base.host, CLV_ERR_UNSUPPORTED,
                    "npu_sim: device '%s': node %" PRIu32 " is for %" PRId64
                    " rows, which is not among its lengths; pad, or add it to "
                    "lengths",
                    s->name, index, n.max);
}

static clv_status take_nodes(clv_plugin_program *prog,
                             const clv_compile *compile)
{
    const clv_plugin_device *dev = prog->dev;
    const clv_subgraph *g = prog->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_node *node = &g->nodes[i];
        clv_op_caps caps;
        npu_answer(dev->settings, g, i, &caps);
        if (caps.answer == CLV_ANSWER_NO)
            return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED,
                            "npu_sim: device '%s': node %" PRIu32
                            " is not taken: %s",
                            dev->settings->name, i, caps.reason);
        CLV_TRY(check_length(prog, i));
        if (node->op == CLV_OP_MATMUL)
            prog->paths[i] =
                npu_matmul_path(dev->settings, npu_input(g, node, 1),
                                npu_sequence(g, node).max);
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(i + 1) / (float)(g->n_nodes + 1)))
            return clv_fail(dev->base.host, CLV_ERR_CANCELLED,
                            "npu_sim: the compilation was cancelled");
    }
    return CLV_OK;
}

/* Bytes of the weights, and elements of all else at their largest. */
typedef struct extent {
    double weights, elements, others;
} extent;

static extent measure(const clv_subgraph *g)
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
        return clv_fail(prog->dev->base.host, CLV_ERR_LIMIT,
                        "npu_sim: device '%s': a program of %.0f bytes of "
                        "weights and tensors exceeds the address window of "
                        "%" PRIu64 "; compile fewer nodes",
                        s->name, size, s->window);
    prog->memory_size = sizeof *prog + (uint64_t)size;
    if (!s->is_static)
        return CLV_OK;
    /* A static graph keeps memory of its own for what it computes. */
    clv_status status = npu_take_memory(prog->dev, s->memory_size != 0,
                                        (uint64_t)e->others, "a static graph");
    prog->taken = status ? 0 : (uint64_t)e->others;
    return status;
}

static bool is_fixed(const clv_subgraph *g)
{
    for (uint32_t i = 0; i < g->n_symbols; i++)
        if (g->symbols[i].min != g->symbols[i].max)
            return false;
    return true;
}

static clv_status time_nodes(clv_plugin_program *prog)
{
    const clv_subgraph *g = prog->graph;
    if (!is_fixed(g))
        return CLV_OK;
    prog->phases =
        clv_new(prog->dev->base.host, g->n_nodes * sizeof *prog->phases);
    if (!prog->phases)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        npu_node_cost(prog->dev->settings, g, i, prog->paths[i], NULL,
                      &prog->phases[i]);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

/* Whether the device has compiled such a graph before; notes it. */
static bool seen_before(clv_plugin_device *dev, const clv_subgraph *g)
{
    uint64_t hash = clv_hash_graph(CLV_HASH_START, g);
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
    double checked = prog->graph->n_nodes / (prog->graph->n_nodes + 1.0);
    for (uint64_t now; (now = npu_real_ns() - begin) < prog->compile_ns;) {
        double done = (double)now / (double)prog->compile_ns;
        uint64_t left = prog->compile_ns - now;
        struct timespec t = {.tv_nsec =
                                 (long)(left < SLICE_NS ? left : SLICE_NS)};
        if (compile->progress &&
            compile->progress(compile->progress_ctx,
                              (float)(checked + (1 - checked) * done)))
            return clv_fail(prog->dev->base.host, CLV_ERR_CANCELLED,
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
    bool known = seen_before(dev, prog->graph) || quickly;
    double ns = s->compile_node_ns * prog->graph->n_nodes +
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
    const clv_host_api *host = prog->dev->base.host;
    CLV_TRY(clv_graph_copy(host, compile->graph, &prog->graph));
    const clv_subgraph *g = prog->graph;
    prog->paths = clv_new(host, g->n_nodes * sizeof *prog->paths);
    if (!prog->paths)
        return CLV_ERR_NO_MEMORY;
    CLV_TRY(take_nodes(prog, compile));
    CLV_TRY(clv_program_init(&prog->base, host, compile));
    extent e = measure(g);
    CLV_TRY(check_window(prog, &e));
    CLV_TRY(time_nodes(prog));
    return spend_time(prog, compile, &e, quickly);
}

clv_status npu_program_make(clv_plugin_device *dev, const clv_compile *from,
                            bool quickly, clv_plugin_program **out)
{
    const clv_host_api *host = dev->base.host;
    const uint32_t limit = dev->settings->max_programs;
    clv_compile compile;
    clv_read(&compile, sizeof compile, from);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_chain(host, &compile));
    if (!compile.graph || compile.flags)
        return clv_fail(host, CLV_ERR_INVALID,
                        "npu_sim: a compilation without a graph, or with flags "
                        "that are not known");
    clv_plugin_program *prog = clv_new(host, sizeof *prog);
    if (!prog)
        return CLV_ERR_NO_MEMORY;
    prog->base.host = host;
    prog->dev = dev;
    prog->maker = npu_maker(dev, compile.options);
    npu_lock(dev->inst);
    uint32_t resident = dev->n_programs++;
    npu_unlock(dev->inst);
    clv_status status = CLV_OK;
    if (limit && resident >= limit)
        status = clv_fail(host, CLV_ERR_LIMIT,
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
