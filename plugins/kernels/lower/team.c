#include "lower/team.h"
#include "lower/variant.h"
#include "ops/matrix.h"

/* A transient that one node writes, as a whole. */
static bool is_single(const gpu_fusion *f, const gpu_tensor *t)
{
    return gpu_has(t) && t->d.usage == CLV_USAGE_TRANSIENT &&
           f->uses[t->index].writes == 1;
}

static bool is_constant(const gpu_tensor *t)
{
    return !gpu_has(t) || t->d.usage == CLV_USAGE_WEIGHT;
}

/* Whether the checked product can be one of the team. */
static bool may_join(const gpu_fusion *f, const gpu_team *team,
                     const gpu_node *p)
{
    const gpu_node *first = &team->products[0];
    return p->caps.answer == CLV_ANSWER_YES && is_single(f, &p->out) &&
           is_constant(&p->in[2]) &&
           (!team->n || (gpu_same_tiles(&p->in[1].d, &first->in[1].d) &&
                         gpu_has(&p->in[2]) == gpu_has(&first->in[2])));
}

/* Products of x from node `from` on. False: one of them cannot join. */
static bool gather(const gpu_fusion *f, uint32_t from, uint32_t x,
                   bool (*takes)(const gpu_node *), gpu_team *team)
{
    bool all = true;
    for (uint32_t i = from; i < f->graph->n_nodes; i++) {
        const clv_node *n = clv_graph_node(f->graph, i);
        if (n->op != CLV_OP_MATMUL || n->inputs[0] != x || f->covered[i])
            continue;
        gpu_node *p = &team->products[team->n];
        if (team->n == GPU_TEAM_MAX)
            return false;
        gpu_check_node(f->target, f->graph, i, p);
        if (!may_join(f, team, p) || !takes(p)) {
            all = false;
            continue;
        }
        team->outs[team->n_outs++] = p->out;
        team->covered[team->n_covered++] = i;
        team->n++;
    }
    return all;
}

/* Gate and up that only a GLU reads, of which it comes to be. */
static void add_glu(const gpu_fusion *f, gpu_team *team)
{
    gpu_node glu;
    const gpu_tensor *a = &team->outs[0], *b = &team->outs[1];
    if (team->n != 2 || f->uses[a->index].reads != 1 ||
        f->uses[b->index].reads != 1 ||
        f->uses[a->index].first_read != f->uses[b->index].first_read)
        return;
    const uint32_t at = f->uses[a->index].first_read;
    if (clv_graph_node(f->graph, at)->op != CLV_OP_GLU)
        return;
    gpu_check_node(f->target, f->graph, at, &glu);
    if (glu.caps.answer != CLV_ANSWER_YES || !is_single(f, &glu.out) ||
        !gpu_same_dims(&glu.out, a))
        return;
    if (glu.in[0].index != a->index) {
        gpu_node gate = team->products[1];
        team->products[1] = team->products[0];
        team->products[0] = gate;
    }
    team->has_glu = true;
    team->activation = glu.node.attr.glu.activation;
    team->outs[0] = glu.out;
    team->n_outs = 1;
    team->covered[team->n_covered++] = at;
}

/* Elementwise ops behind a product would join it if it was made alone; of the
 * SET_ROWS behind them one can join the team. */
static bool end_by_rows(const gpu_fusion *f, uint32_t leader, gpu_team *team)
{
    team->setter = team->n;
    for (uint32_t i = 0; i < team->n && !team->has_glu; i++) {
        gpu_node p = team->products[i];
        gpu_chain chain;
        p.index = leader; /* that is when it is written */
        gpu_fusion_find(f, &p, &chain);
        if (chain.n_links)
            return false;
        if (!chain.sets || team->setter < team->n)
            continue;
        team->setter = i;
        team->sets = chain;
        team->covered[team->n_covered++] = chain.nodes[0];
    }
    return true;
}

static bool find_behind_norm(const gpu_fusion *f, const gpu_node *node,
                             bool (*takes)(const gpu_node *), gpu_team *team)
{
    const gpu_tensor *y = &node->out;
    if (!is_single(f, y) || !is_constant(&node->in[1]) ||
        gpu_is_disabled(f->target, "rms_norm_matmul") ||
        !gather(f, node->index + 1, y->index, takes, team) ||
        team->n != f->uses[y->index].reads)
        return false;
    team->norm = *node;
    team->has_norm = true;
    team->x = node->in[0];
    team->covered[team->n_covered++] = node->index;
    return true;
}

bool gpu_team_find(const gpu_fusion *f, const gpu_node *node,
                   bool (*takes)(const gpu_node *product), gpu_team *team)
{
    memset(team, 0, sizeof *team);
    if (f->off || f->target->slices)
        return false;
    if (node->node.op == CLV_OP_RMS_NORM) {
        if (!find_behind_norm(f, node, takes, team))
            return false;
    } else if (node->node.op == CLV_OP_MATMUL) {
        const clv_tensor_desc *x = &node->in[0].d;
        if (x->usage != CLV_USAGE_INPUT && !is_single(f, &node->in[0]))
            return false;
        gather(f, node->index, node->in[0].index, takes, team);
        team->x = node->in[0];
        if (team->n < 2 || team->products[0].index != node->index)
            return false;
    } else {
        return false;
    }
    add_glu(f, team);
    return end_by_rows(f, node->index, team);
}
