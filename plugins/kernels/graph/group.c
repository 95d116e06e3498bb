#include "graph/group.h"
#include "ops/gemm_wgmma.h"
#include "ops/gemv_tensor.h"
#include "ops/tiles.h"

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

/* Whether the checked product can be one of the fused. */
static bool may_join(const gpu_fusion *f, const gpu_fused *fused,
                     const gpu_node *p)
{
    const gpu_node *first = &fused->members[0].product;
    return p->caps.answer == CLV_ANSWER_YES && is_single(f, &p->out) &&
           is_constant(&p->in[2]) &&
           (!fused->n || gpu_has(&p->in[2]) == gpu_has(&first->in[2]));
}

/* Whether the product can be fused with the first, which may be itself. */
static bool takes(const gpu_node *product, const gpu_node *first)
{
    return gpu_is_gemv(first) ? gpu_gemv_fused_takes(product, first)
                              : gpu_wgmma_fused_takes(product, first);
}

/* Products of x from node `from` on. False: one of them can be in no group.
 * done: those that are covered. */
static bool gather(const gpu_fusion *f, uint32_t from, uint32_t x,
                   gpu_fused *fused, uint32_t *done)
{
    bool all = true;
    for (uint32_t i = from; i < f->graph->n_nodes; i++) {
        const clv_node *n = clv_graph_node(f->graph, i);
        if (n->op != CLV_OP_MATMUL || n->inputs[0] != x)
            continue;
        if (f->covered[i]) {
            ++*done;
            continue;
        }
        if (fused->n == GPU_FUSED_MAX)
            return false;
        gpu_fused_member *member = &fused->members[fused->n];
        gpu_check_node(f->target, f->graph, i, &member->product);
        if (!may_join(f, fused, &member->product) ||
            !takes(&member->product, &member->product)) {
            all = false;
            continue;
        }
        if (!takes(&member->product, &fused->members[0].product)) {
            fused->n_others++;
            continue;
        }
        member->out = member->product.out;
        fused->covered[fused->n_covered++] = i;
        fused->n++;
    }
    fused->n_outs = fused->n;
    return all;
}

/* The checked node of that op that alone reads t, whose size its output has. */
static bool find_reader(const gpu_fusion *f, const gpu_tensor *t, uint32_t op,
                        gpu_node *reader)
{
    const gpu_use *use = &f->uses[t->index];
    if (use->reads != 1 || clv_graph_node(f->graph, use->first_read)->op != op)
        return false;
    gpu_check_node(f->target, f->graph, use->first_read, reader);
    return reader->caps.answer == CLV_ANSWER_YES &&
           is_single(f, &reader->out) && clv_same_shape(&reader->out.d, &t->d);
}

/* Gate and up that only a GLU reads, of which it comes to be. */
static void add_glu(const gpu_fusion *f, gpu_fused *fused)
{
    gpu_node glu, same;
    gpu_fused_member *m = fused->members;
    if (fused->n != 2 || !find_reader(f, &m[0].out, CLV_OP_GLU, &glu) ||
        !find_reader(f, &m[1].out, CLV_OP_GLU, &same) ||
        glu.index != same.index)
        return;
    if (glu.in[0].index != m[0].out.index) {
        gpu_fused_member gate = m[1];
        m[1] = m[0];
        m[0] = gate;
    }
    fused->has_glu = true;
    fused->activation = glu.node.attr.glu.activation;
    m[0].out = glu.out;
    fused->n_outs = 1;
    fused->covered[fused->n_covered++] = glu.index;
}

/* ------------------------------------------------------------------------ */
/* Turned queries and keys                                                   */

static bool is_same_rope(const gpu_node *a, const gpu_node *b)
{
    const clv_op_attr *p = &a->node.attr, *q = &b->node.attr;
    return a->in[1].index == b->in[1].index &&
           a->in[2].index == b->in[2].index &&
           p->rope.head_dim == q->rope.head_dim &&
           p->rope.mode == q->rope.mode && p->rope.scale == q->rope.scale;
}

/* Whether the kernel finds both channels of a pair in a group's tiles. */
static bool fits_tiles(const gpu_fused *fused, const gpu_node *rope)
{
    const int64_t head = rope->node.attr.rope.head_dim;
    if (rope->node.attr.rope.mode != CLV_ROPE_HALVES)
        return head % 2 == 0;
    if (head % 32 || rope->in[2].d.dims[0] * 2 != head)
        return false;
    for (uint32_t i = 0; i < fused->n; i++)
        if (fused->members[i].product.in[1].d.dims[0] % head)
            return false;
    return true;
}

/* The ROPE behind products joins them, if all that have one have the same. */
static void add_ropes(const gpu_fusion *f, gpu_fused *fused)
{
    gpu_node ropes[GPU_FUSED_MAX];
    const gpu_node *any = NULL;
    bool rotated[GPU_FUSED_MAX];
    if (gpu_is_disabled(f->target, "fuse_rope"))
        return;
    for (uint32_t i = 0; i < fused->n; i++) {
        rotated[i] =
            find_reader(f, &fused->members[i].out, CLV_OP_ROPE, &ropes[i]);
        if (!rotated[i])
            continue;
        if (ropes[i].in[1].d.usage != CLV_USAGE_INPUT ||
            !is_constant(&ropes[i].in[2]) || !fits_tiles(fused, &ropes[i]) ||
            (any && !is_same_rope(any, &ropes[i])))
            return;
        any = &ropes[i];
    }
    for (uint32_t i = 0; i < fused->n; i++) {
        gpu_fused_member *m = &fused->members[i];
        if (!rotated[i])
            continue;
        m->rotated = true;
        m->rope = ropes[i];
        m->out = ropes[i].out;
        fused->rope = &m->rope;
        fused->covered[fused->n_covered++] = ropes[i].index;
    }
}

/* ------------------------------------------------------------------------ */

/* A SET_ROWS behind a member joins the fused; elementwise ops would join the
 * product if it was made alone: false. */
static bool end_by_rows(const gpu_fusion *f, uint32_t leader, gpu_fused *fused)
{
    for (uint32_t i = 0; i < fused->n && !fused->has_glu; i++) {
        gpu_fused_member *m = &fused->members[i];
        gpu_node last = m->rotated ? m->rope : m->product;
        gpu_chain chain;
        last.index = leader; /* that is when it is written */
        gpu_fusion_find(f, &last, &chain);
        if (chain.n_links)
            return false;
        if (!chain.sets)
            continue;
        m->sets = chain;
        fused->covered[fused->n_covered++] = chain.nodes[0];
    }
    return true;
}

static bool find_behind_norm(const gpu_fusion *f, const gpu_node *node,
                             gpu_fused *fused)
{
    const gpu_tensor *y = &node->out;
    uint32_t done = 0;
    if (!is_single(f, y) || !is_constant(&node->in[1]) ||
        gpu_is_disabled(f->target, "fuse_rms_norm") ||
        !gather(f, node->index + 1, y->index, fused, &done) ||
        fused->n + fused->n_others + done != f->uses[y->index].reads)
        return false;
    if (!gpu_is_gemv(&fused->members[0].product) &&
        node->in[1].d.dtype != CLV_DTYPE_F32) /* its kernel takes no other */
        return false;
    fused->norm = *node;
    fused->has_norm = true;
    fused->x = node->in[0];
    fused->covered[fused->n_covered++] = node->index;
    return true;
}

/* One of the groups that begin at the node. */
static bool find(const gpu_fusion *f, const gpu_node *node, gpu_fused *fused)
{
    memset(fused, 0, sizeof *fused);
    if (f->off || f->target->slices)
        return false;
    if (node->node.op == CLV_OP_RMS_NORM) {
        if (!find_behind_norm(f, node, fused))
            return false;
    } else if (node->node.op == CLV_OP_MATMUL) {
        const clv_tensor_desc *x = &node->in[0].d;
        if (x->usage != CLV_USAGE_INPUT && !is_single(f, &node->in[0]))
            return false;
        uint32_t done = 0;
        gather(f, node->index, node->in[0].index, fused, &done);
        fused->n_others = 0;
        fused->x = node->in[0];
        if (fused->n < 2 || fused->members[0].product.index != node->index)
            return false;
    } else {
        return false;
    }
    add_glu(f, fused);
    if (!fused->has_glu && gpu_is_gemv(&fused->members[0].product))
        add_ropes(f, fused);
    return end_by_rows(f, node->index, fused);
}

/* ------------------------------------------------------------------------ */
/* Sums                                                                     */

/* The checked node of that op right behind `before`, if it reads what that one
 * makes. */
static bool find_next(const gpu_fusion *f, const gpu_node *before, uint32_t op,
                      gpu_node *next)
{
    const uint32_t i = before->index + 1;
    const clv_node *n =
        i < f->graph->n_nodes ? clv_graph_node(f->graph, i) : NULL;
    if (!n || n->op != op || f->covered[i] ||
        (n->inputs[0] != before->out.index &&
         (op != CLV_OP_ADD || n->inputs[1] != before->out.index)))
        return false;
    gpu_check_node(f->target, f->graph, i, next);
    return next->caps.answer == CLV_ANSWER_YES;
}

/* Whether nobody but one node reads the transient. */
static bool is_read_once(const gpu_fusion *f, const gpu_tensor *t)
{
    return is_single(f, t) && f->uses[t->index].reads == 1;
}

/* What the node adds up, and those right behind it that add to that. */
static void gather_sum(const gpu_fusion *f, gpu_node *last, gpu_sum *sum)
{
    gpu_node next;
    sum->terms[sum->n++] = last->in[1];
    while (sum->n < GPU_MAX_TERMS && is_read_once(f, &last->out) &&
           find_next(f, last, CLV_OP_ADD, &next) &&
           clv_same_shape(&next.in[0].d, &next.in[1].d)) {
        sum->terms[sum->n++] =
            next.in[next.in[0].index == last->out.index ? 1 : 0];
        *last = next;
    }
}

bool gpu_fused_find_sum(const gpu_fusion *f, const gpu_node *node,
                        gpu_fused *fused, gpu_sum *sum)
{
    gpu_node last = *node, norm;
    memset(sum, 0, sizeof *sum);
    if (f->off || node->node.op != CLV_OP_ADD ||
        !clv_same_shape(&node->in[0].d, &node->in[1].d) ||
        gpu_is_disabled(f->target, "fuse_add_norm"))
        return false;
    gather_sum(f, &last, sum);
    if (f->uses[last.out.index].writes != 1 ||
        !find_next(f, &last, CLV_OP_RMS_NORM, &norm) ||
        !find(f, &norm, fused) || fused->n_others)
        return false;
    fused->x = node->in[0];
    for (uint32_t i = node->index; i <= last.index; i++)
        fused->covered[fused->n_covered++] = i;
    sum->out = last.out;
    if (is_read_once(f, &last.out))
        sum->out.index = CLV_NO_TENSOR;
    return true;
}

/* ------------------------------------------------------------------------ */

static void set_covered(gpu_fusion *f, const gpu_fused *fused, bool covered)
{
    for (uint32_t i = 0; i < fused->n_covered; i++)
        f->covered[fused->covered[i]] = covered;
}

/* With one group of a norm all of its products must be in some, as what the
 * norm makes is not kept: whether those of the others are another. */
static bool has_second(gpu_fusion *f, const gpu_node *node,
                       const gpu_fused *fused)
{
    gpu_fused *second = clv_new(f->host, sizeof *second);
    if (!second)
        return false;
    set_covered(f, fused, true);
    const bool found = find(f, node, second) && !second->n_others;
    set_covered(f, fused, false);
    clv_free(f->host, second);
    return found;
}

bool gpu_fused_find(gpu_fusion *f, const gpu_node *node, gpu_fused *fused)
{
    return find(f, node, fused) &&
           (!fused->n_others || has_second(f, node, fused));
}
