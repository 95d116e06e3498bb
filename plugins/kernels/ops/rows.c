/* Ops that move rows by their ids. */
#include "ops/rows.h"
#include "ops/tiles.h"
#include "code/formats.h"

#define GROUP_SLICES 32
#define GROUP_ROWS 4

static bool check_get_rows(gpu_node *node)
{
    const gpu_tensor *table = &node->in[0];
    if (gpu_extent(table) / (uint64_t)table->d.dims[0] >=
        (uint64_t)gpu_reach(node->target))
        return gpu_no(node, "a row of the table is past what kernels reach");
    if (!table->d.quant)
        node->caps.error_class = CLV_ERROR_EXACT;
    return gpu_fits_grid(node, GROUP_ROWS, GROUP_SLICES);
}

/* The scale of a row and of each group of channels, by strides of 0 where they
 * share one. */
static void add_scales(gpu_call *call, const gpu_node *node)
{
    const gpu_tensor *table = &node->in[0], *scales = &node->scales[0];
    gpu_operand *t = gpu_call_rows(call, "scales", scales, false);
    gpu_expr stride = gpu_constant(0);
    if (table->d.quant == CLV_QUANT_PER_CHANNEL)
        stride = gpu_constant(scales->dense ? 4 : scales->d.strides[0]);
    else if (table->d.quant == CLV_QUANT_PER_GROUP)
        gpu_stride(scales, 0, &stride);
    t->strides[CLV_L_W] = stride;
    gpu_call_param(call, "group",
                   gpu_constant(table->d.quant == CLV_QUANT_PER_GROUP
                                    ? table->d.quant_group
                                    : table->d.dims[1]));
}

/* The table as weights of a product, whose tiles it lies in. */
static gpu_node as_weights(const gpu_node *node)
{
    gpu_node product = *node;
    product.in[1] = node->in[0];
    return product;
}

static uint32_t private_rows(const gpu_node *node)
{
    const gpu_target *target = node->target;
    const gpu_tensor *table = &node->in[0];
    return !gpu_is_glsl(target) && gpu_has_tensor(target) &&
                   table->d.rank == 2 && gpu_has_tiles(target, &table->d) &&
                   gpu_extent(table) <= (uint64_t)gpu_reach(target) &&
                   !gpu_is_disabled(target, "get_rows_tiles")
               ? gpu_private_rows(target, &table->d)
               : 0;
}

static clv_status lower_from_tiles(gpu_lowering *lowering, const gpu_node *node)
{
    const gpu_node product = as_weights(node);
    const int64_t rows = node->in[0].d.dims[0];
    gpu_call call;
    gpu_call_init(&call, "get_rows_tiles", gpu_template_get_rows_tiles,
                  GROUP_SLICES);
    call.local[1] = GROUP_ROWS;
    gpu_use_tensor(&call, node->target, false);
    gpu_use_tiles(&call, node->target);
    gpu_tile_defines(&call, &product);
    gpu_call_define(&call, "ITEMS", GROUP_SLICES * GROUP_ROWS);
    gpu_add_tiles(&call, &product, "table", 0, rows);
    gpu_call_rows(&call, "ids", &node->in[1], false);
    const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
    call.groups[0] = gpu_ceil(dst->channels, 8 * GROUP_SLICES);
    call.groups[1] = gpu_ceil(dst->width, GROUP_ROWS);
    gpu_call_param(&call, "rows", gpu_constant(rows));
    return gpu_add_run(lowering, &call);
}

static clv_status lower_get_rows(gpu_lowering *lowering, const gpu_node *node)
{
    const gpu_tensor *table = &node->in[0];
    if (table->d.layout == CLV_LAYOUT_PRIVATE)
        return lower_from_tiles(lowering, node);
    const bool scaled = table->d.quant;
    const int64_t rows = table->d.dims[0]; /* at most */
    gpu_expr n, c, stride;
    gpu_rows_extent(table, &n, &c, &stride);
    int64_t step = stride.symbol
                       ? rows
                       : gpu_reach(lowering->target) / (stride.constant + 1);
    for (int64_t first = 0; first < rows; first += step) {
        gpu_call call;
        gpu_call_init(&call, scaled ? "get_rows_scaled" : "get_rows",
                      scaled ? gpu_template_get_rows_scaled
                             : gpu_template_get_rows,
                      GROUP_SLICES);
        call.local[1] = GROUP_ROWS;
        gpu_operand *t = gpu_call_rows(&call, "table", table, false);
        t->offset = (uint64_t)(first * stride.constant);
        gpu_call_rows(&call, "ids", &node->in[1], false);
        const gpu_operand *dst = gpu_call_rows(&call, "dst", &node->out, true);
        call.groups[0] =
            gpu_ceil(dst->channels, scaled ? GROUP_SLICES : 4 * GROUP_SLICES);
        call.groups[1] = gpu_ceil(dst->width, GROUP_ROWS);
        gpu_call_param(&call, "first", gpu_constant(first));
        gpu_call_param(&call, "count",
                       gpu_constant(rows - first < step ? rows - first : step));
        gpu_call_param(&call, "rows", n);
        if (scaled)
            add_scales(&call, node);
        CLV_TRY(gpu_add_run(lowering, &call));
    }
    return CLV_OK;
}

/* Granted if those who read the state prefer it, too. */
static bool check_set_rows(gpu_node *node)
{
    if (node->target->states != GPU_STATES_ROWS)
        gpu_prefer_layout(node, 0);
    return true;
}

static clv_status lower_set_rows(gpu_lowering *lowering, const gpu_node *node)
{
    const bool blocks = gpu_is_integers(node->in[0].d.dtype);
    const uint32_t group = gpu_row_group(
        lowering->target, node->in[1].d.dims[1] / (blocks ? 4 : 1));
    const int64_t each = (gpu_max_rows(&node->in[1]) - 1) / GPU_MAX_GROUPS + 1;
    gpu_call call;
    gpu_call_init(&call, "set_rows", gpu_template_set_rows, group);
    gpu_call_define(&call, "GROUP", group);
    gpu_call_define(&call, "BLOCKS", blocks);
    gpu_call_rows(&call, "dst", &node->in[0], true);
    const gpu_operand *src = gpu_call_rows(&call, "src", &node->in[1], false);
    call.groups[0] = gpu_ceil(src->width, each);
    gpu_call_rows(&call, "ids", &node->in[2], false);
    gpu_call_param(&call, "each", gpu_constant(each));
    return gpu_add_run(lowering, &call);
}

static clv_status add_map(gpu_lowering *lowering, const gpu_tensor *ids,
                          int64_t rows, uint32_t buffer)
{
    gpu_call call;
    gpu_call_init(&call, "row_map", gpu_template_row_map, GROUP_SLICES);
    const gpu_operand *from = gpu_call_rows(&call, "ids", ids, false);
    gpu_operand *to = gpu_call_rows(&call, "map", ids, true);
    to->memory = GPU_MEMORY_PRIVATE;
    to->index = buffer;
    gpu_call_param(&call, "rows", gpu_constant(rows));
    call.groups[0] = gpu_ceil(from->channels, GROUP_SLICES);
    return gpu_add_run(lowering, &call);
}

clv_status gpu_row_map(gpu_lowering *lowering, const gpu_tensor *ids,
                       const gpu_tensor *state, uint32_t *buffer)
{
    const int64_t rows = state->d.dims[0];
    for (uint32_t i = 0; i < lowering->n_maps; i++)
        if (lowering->maps[i].ids == ids->index &&
            lowering->maps[i].rows == rows) {
            *buffer = lowering->maps[i].buffer;
            return CLV_OK;
        }
    CLV_TRY(gpu_build_private(&lowering->builder, 4 * (uint64_t)ids->d.dims[0],
                              false, buffer));
    CLV_TRY(add_map(lowering, ids, rows, *buffer));
    if (lowering->n_maps < GPU_MAX_ROW_MAPS)
        lowering->maps[lowering->n_maps++] =
            (struct gpu_row_map){ids->index, *buffer, rows};
    return CLV_OK;
}

/* Of a table in parts each begins with an offset. */
static uint32_t get_rows_slices(const gpu_node *node)
{
    const gpu_tensor *table = &node->in[0];
    if (table->d.quant)
        return 0;
    if (table->d.layout == CLV_LAYOUT_PRIVATE)
        return GPU_SLICES_OUT;
    return GPU_SLICES_OUT |
           (gpu_extent(table) <= (uint64_t)gpu_reach(node->target));
}

static uint32_t set_rows_slices(const gpu_node *node)
{
    (void)node;
    return 2;
}

const gpu_op gpu_op_get_rows = {.op = CLV_OP_GET_ROWS,
                                .parts = 1,
                                .check = check_get_rows,
                                .lower = lower_get_rows,
                                .fuses = true,
                                .slices = get_rows_slices,
                                .private_rows = private_rows};
const gpu_op gpu_op_set_rows = {.op = CLV_OP_SET_ROWS,
                                .blocks = 1,
                                .check = check_set_rows,
                                .lower = lower_set_rows,
                                .slices = set_rows_slices};
