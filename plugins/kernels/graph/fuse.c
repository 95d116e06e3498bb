#include "graph/fuse.h"
#include "graph/place.h"
#include "lower/variant.h"

static void count_node(gpu_fusion *f, uint32_t index)
{
    const clv_node *n = clv_graph_node(f->graph, index);
    if (!n) {
        f->off = true;
        return;
    }
    for (uint32_t i = 0; i < n->n_inputs + n->n_outputs; i++) {
        const bool read = i < n->n_inputs;
        uint32_t t = read ? n->inputs[i] : n->outputs[i - n->n_inputs];
        if (t == CLV_NO_TENSOR)
            continue;
        gpu_use *use = &f->uses[t];
        if (read && !use->reads++)
            use->first_read = index;
        if (!read && !use->writes++)
            use->first_write = index;
        use->last = index;
    }
}

/* Whether transients are read as they were written, not as parts. */
static bool has_parts(const gpu_fusion *f)
{
    for (uint32_t i = 0; i < f->graph->n_tensors; i++) {
        const clv_tensor_desc *t = clv_graph_tensor(f->graph, i);
        const gpu_use *use = &f->uses[i];
        if (!t)
            return true;
        if (t->usage == CLV_USAGE_TRANSIENT && (use->reads || use->writes) &&
            (!use->reads || !use->writes ||
             use->first_read <= use->first_write))
            return true;
    }
    return false;
}

clv_status gpu_fusion_init(gpu_fusion *f, const clv_host_api *host,
                           const gpu_target *target, const clv_subgraph *graph)
{
    *f = (gpu_fusion){.host = host, .target = target, .graph = graph};
    f->uses = clv_new(host, (graph->n_tensors + 1) * (uint64_t)sizeof *f->uses);
    f->moved =
        clv_new(host, (graph->n_tensors + 1) * (uint64_t)sizeof *f->moved);
    f->covered =
        clv_new(host, (graph->n_nodes + 1) * (uint64_t)sizeof *f->covered);
    f->slices =
        clv_new(host, (graph->n_tensors + 1) * (uint64_t)sizeof *f->slices);
    f->maps = clv_new(host, (graph->n_tensors + 1) * (uint64_t)sizeof *f->maps);
    if (!f->uses || !f->moved || !f->covered || !f->slices || !f->maps)
        return CLV_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < graph->n_nodes && !f->off; i++)
        count_node(f, i);
    f->off = f->off || has_parts(f);
    if (!f->off && target->slices)
        gpu_place_look(f);
    return CLV_OK;
}

void gpu_fusion_finish(gpu_fusion *f)
{
    clv_free(f->host, f->uses);
    clv_free(f->host, f->moved);
    clv_free(f->host, f->covered);
    clv_free(f->host, f->slices);
    clv_free(f->host, f->maps);
    clv_free(f->host, f->busy);
}

/* ------------------------------------------------------------------------ */

/* The node that reads tensor t, when it is the only one and t is written once,
 * or n_nodes. */
static uint32_t only_reader(const gpu_fusion *f, const gpu_tensor *t)
{
    const gpu_use *use = &f->uses[t->index];
    if (t->d.usage != CLV_USAGE_TRANSIENT || use->reads != 1 ||
        use->writes != 1)
        return f->graph->n_nodes;
    return use->first_read;
}

/* Whether the operand has its values when node `first` begins. */
static bool is_ready(const gpu_fusion *f, const gpu_tensor *operand,
                     uint32_t first, uint32_t reader)
{
    for (uint32_t i = first; i < reader; i++) {
        const clv_node *n = clv_graph_node(f->graph, i);
        for (uint32_t k = 0; k < n->n_outputs; k++)
            if (n->outputs[k] == operand->index)
                return false;
        if (n->op == CLV_OP_SET_ROWS && n->inputs[0] == operand->index)
            return false;
    }
    return true;
}

/* Whether the state can be written when node `first` runs instead of `reader`:
 * nobody reads states in between. */
static bool can_set(const gpu_fusion *f, const gpu_tensor *state,
                    uint32_t first, uint32_t reader)
{
    for (uint32_t i = first; i < reader; i++) {
        const clv_node *n = clv_graph_node(f->graph, i);
        const bool sets = n->op == CLV_OP_SET_ROWS;
        for (uint32_t k = sets; k < n->n_inputs; k++)
            if (n->inputs[k] != CLV_NO_TENSOR &&
                clv_graph_tensor(f->graph, n->inputs[k])->usage ==
                    CLV_USAGE_STATE)
                return false;
        if (sets && n->inputs[0] == state->index)
            return false;
    }
    return true;
}

/* A SET_ROWS that reads the chain's output ends it. */
static bool end_by_rows(const gpu_fusion *f, uint32_t first, uint32_t reader,
                        const gpu_node *next, gpu_chain *chain)
{
    if (next->node.op != CLV_OP_SET_ROWS ||
        next->in[1].index != chain->out.index || chain->out.d.rank != 2 ||
        next->in[2].d.usage != CLV_USAGE_INPUT || next->in[0].d.symbols[0] ||
        !clv_format_is(next->in[0].d.dtype, CLV_FORMAT_FLOAT) ||
        gpu_is_disabled(f->target, "fuse_set_rows") ||
        !can_set(f, &next->in[0], first, reader))
        return false;
    chain->sets = true;
    chain->state = next->in[0];
    chain->ids = next->in[2];
    chain->nodes[chain->n_nodes++] = reader;
    return true;
}

/* Appends the node that reads the chain's output, if it can. */
static bool extend(const gpu_fusion *f, uint32_t first, gpu_chain *chain)
{
    gpu_node next;
    uint32_t reader = only_reader(f, &chain->out);
    if (reader <= first || reader >= f->graph->n_nodes || chain->sets ||
        chain->n_links + 2 > GPU_MAX_LINKS)
        return false;
    gpu_check_node(f->target, f->graph, reader, &next);
    if (next.caps.answer == CLV_ANSWER_YES &&
        end_by_rows(f, first, reader, &next, chain))
        return true;
    if (next.caps.answer != CLV_ANSWER_YES ||
        gpu_is_disabled(f->target, "fuse_elements") ||
        next.out.index == CLV_NO_TENSOR ||
        next.out.d.usage != CLV_USAGE_TRANSIENT ||
        f->uses[next.out.index].writes != 1 ||
        !clv_same_shape(&next.out.d, &chain->out.d))
        return false;
    const uint32_t at = next.in[0].index == chain->out.index ? 0 : 1;
    const gpu_tensor *other = gpu_has(&next.in[1]) ? &next.in[!at] : NULL;
    if (other && !is_ready(f, other, first, reader))
        return false;
    if (!gpu_add_links(chain, &next, at))
        return false;
    chain->nodes[chain->n_nodes++] = reader;
    chain->out = next.out;
    return true;
}

void gpu_fusion_find(const gpu_fusion *f, const gpu_node *node,
                     gpu_chain *chain)
{
    memset(chain, 0, sizeof *chain);
    chain->out = node->out;
    if (f->off || !node->op->fuses || !gpu_has(&node->out))
        return;
    while (extend(f, node->index, chain))
        ;
}

bool gpu_fusion_norm(const gpu_fusion *f, const gpu_node *add, gpu_node *norm)
{
    if (f->off || add->node.op != CLV_OP_ADD ||
        !clv_same_shape(&add->in[0].d, &add->in[1].d) ||
        gpu_is_disabled(f->target, "fuse_add_norm"))
        return false;
    const gpu_use *use = &f->uses[add->out.index];
    if (!use->reads || use->writes != 1 || use->first_read <= add->index ||
        f->covered[use->first_read])
        return false;
    gpu_check_node(f->target, f->graph, use->first_read, norm);
    return norm->caps.answer == CLV_ANSWER_YES &&
           norm->node.op == CLV_OP_RMS_NORM &&
           norm->in[0].index == add->out.index &&
           norm->in[1].d.usage == CLV_USAGE_WEIGHT &&
           norm->out.d.usage == CLV_USAGE_TRANSIENT &&
           f->uses[norm->out.index].writes == 1;
}

void gpu_fusion_cover(gpu_fusion *f, const gpu_chain *chain)
{
    for (uint32_t i = 0; i < chain->n_nodes; i++)
        f->covered[chain->nodes[i]] = true;
}
