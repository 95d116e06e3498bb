#include "graph/place.h"
#include "lower/objects.h"

static void count_rows(gpu_fusion *f, const clv_node *n, uint32_t mask)
{
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] != CLV_NO_TENSOR && !(mask >> i & 1))
            f->uses[n->inputs[i]].by_rows++;
}

static uint32_t mask_of(const gpu_node *node)
{
    return node->caps.answer == CLV_ANSWER_YES && node->op->slices
               ? node->op->slices(node)
               : 0;
}

/* By what reads it, and what a conversion takes. */
static bool pays(const gpu_fusion *f, const clv_tensor_desc *t,
                 const gpu_use *use)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        rows *= t->dims[i];
    return !use->by_rows || (use->reads - use->by_rows > use->by_rows &&
                             rows <= GPU_MAX_GROUPS &&
                             !gpu_is_disabled(f->target, "convert_layout"));
}

void gpu_place_look(gpu_fusion *f)
{
    for (uint32_t i = 0; i < f->graph->n_nodes; i++) {
        gpu_node node;
        gpu_check_node(f->target, f->graph, i, &node);
        count_rows(f, clv_graph_node(f->graph, i), mask_of(&node));
    }
    for (uint32_t i = 0; i < f->graph->n_tensors; i++) {
        const clv_tensor_desc *t = clv_graph_tensor(f->graph, i);
        f->slices[i] = t->usage == CLV_USAGE_TRANSIENT && t->rank > 1 &&
                       t->dtype == CLV_DTYPE_F32 && !t->symbols[t->rank - 1] &&
                       f->uses[i].writes == 1 && pays(f, t, &f->uses[i]);
    }
}

/* The layout, where it exceeds no limit. */
static bool make_map(const gpu_fusion *f, const gpu_tensor *t,
                     clv_layout_map *map)
{
    const uint32_t storage = f->target->slices - 1;
    const int64_t dims[CLV_LAYOUT_AXES] = {1, 1, gpu_max_rows(t), 1,
                                           t->d.dims[t->d.rank - 1]};
    return clv_layout_init(map, CLV_LAYOUT_SLICES4, storage, dims, 0) &&
           gpu_map_fits(f->target, map, storage, CLV_DTYPE_F32);
}

bool gpu_place_slices(const gpu_fusion *f, const gpu_node *node,
                      const gpu_tensor *t)
{
    clv_layout_map map;
    return !f->off && f->target->slices && gpu_has(t) && f->slices[t->index] &&
           node->op->slices && node->op->slices(node) & GPU_SLICES_OUT &&
           make_map(f, t, &map);
}

/* Whether what fits in `want` can lie in what is there. */
static bool has_space(const gpu_private *there, const gpu_private *want)
{
    return there->storage == want->storage && there->size >= want->size &&
           there->extent[0] >= want->extent[0] &&
           there->extent[1] >= want->extent[1] &&
           there->extent[2] >= want->extent[2];
}

/* Private memory that nobody needs any more when the node runs, or new one. */
static clv_status find_memory(gpu_fusion *f, gpu_builder *b,
                              const gpu_node *node, const gpu_private *want,
                              const clv_layout_map *map, uint32_t *index)
{
    clv_status status = CLV_OK;
    for (*index = 0; *index < f->n_busy; ++*index)
        if (f->busy[*index] && f->busy[*index] <= node->index &&
            has_space(&b->code->privates[*index], want))
            return CLV_OK;
    status = map ? gpu_build_objects(b, map, want->storage, CLV_DTYPE_F32,
                                     false, index)
                 : gpu_build_private(b, want->size, false, index);
    while (!status && f->n_busy <= *index) {
        status = gpu_grow(f->host, &f->busy, f->n_busy, &f->max_busy,
                          sizeof *f->busy);
        if (!status)
            f->busy[f->n_busy++] = 0; /* of others: never free */
    }
    return status;
}

clv_status gpu_place(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                     const gpu_tensor *t)
{
    clv_layout_map *map = &f->maps[t->index];
    gpu_private want = {.size = gpu_extent(t)};
    const bool sliced = gpu_place_slices(f, node, t);
    uint32_t index;
    memset(map, 0, sizeof *map);
    if (sliced) {
        make_map(f, t, map);
        want.size = 4 * (uint64_t)map->n_elements;
        want.storage = f->target->slices - 1;
        for (uint32_t i = 0; i < 3 && want.storage; i++)
            want.extent[i] = (uint32_t)map->extent[CLV_PHYS_X + i];
    }
    CLV_TRY(find_memory(f, b, node, &want, sliced ? map : NULL, &index));
    f->busy[index] = 1 + f->uses[t->index].last;
    f->moved[t->index] = 1 + index;
    return CLV_OK;
}

void gpu_place_undo(gpu_fusion *f, const gpu_tensor *t)
{
    f->moved[t->index] = 0;
    f->maps[t->index].n_elements = 0;
}

/* ------------------------------------------------------------------------ */
/* Copies of rows                                                            */

static clv_status make_copy(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                            const gpu_tensor *t)
{
    const gpu_private want = {.size = gpu_extent(t)};
    gpu_use *use = &f->uses[t->index];
    gpu_call call = {.n_operands = 0};
    uint32_t index;
    clv_status status = find_memory(f, b, node, &want, NULL, &index);
    if (status)
        return status;
    const gpu_operand src = *gpu_call_rows(&call, "src", t, false);
    gpu_operand dst = src;
    dst.memory = GPU_MEMORY_PRIVATE;
    dst.index = index;
    status = gpu_convert(b, &src, &dst, src.width, false);
    f->busy[index] = 1 + use->last;
    use->copy = 1 + index;
    return status;
}

clv_status gpu_place_rows(gpu_fusion *f, gpu_builder *b, const gpu_node *node,
                          gpu_replaced *swapped)
{
    const uint32_t mask = mask_of(node);
    clv_status status = CLV_OK;
    swapped->n = 0;
    for (uint32_t i = 0; i < CLV_OP_OPERANDS && !status; i++) {
        const gpu_tensor *t = &node->in[i];
        if (!gpu_has(t) || mask >> i & 1 || !f->maps[t->index].n_elements)
            continue;
        if (!f->uses[t->index].copy)
            status = make_copy(f, b, node, t);
        const uint32_t n = swapped->n++;
        swapped->tensor[n] = t->index;
        swapped->moved[n] = f->moved[t->index];
        swapped->elements[n] = f->maps[t->index].n_elements;
        f->moved[t->index] = f->uses[t->index].copy;
        f->maps[t->index].n_elements = 0;
    }
    return status;
}

void gpu_place_back(gpu_fusion *f, const gpu_replaced *swapped)
{
    for (uint32_t i = 0; i < swapped->n; i++) {
        f->moved[swapped->tensor[i]] = swapped->moved[i];
        f->maps[swapped->tensor[i]].n_elements = swapped->elements[i];
    }
}
