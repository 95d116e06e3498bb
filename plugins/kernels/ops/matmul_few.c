#include "matmul_few.h"
#include "coop_few.h"
#include "matmul_matrix.h"
#include "matrix.h"
#include "lower/variant.h"

/* Columns of x that the kernel for few rows makes. */
static int64_t columns_of(const gpu_node *node)
{
    int64_t columns = 1;
    while (columns < gpu_max_rows(&node->in[0]))
        columns *= 2;
    return columns;
}

/* Channels of x that the kernel for few rows has in local memory at a time:
 * whole batches, as many as there are and fit; 0: none do. streams: rows of tiles
 * that a group reads. */
static int64_t chunk_of(const gpu_node *node, int64_t warps, int64_t streams,
                        int64_t unroll)
{
    const int64_t batch = warps / streams * unroll * 32;
    const int64_t columns = columns_of(node);
    const int64_t sums = warps * ((columns > 4 ? 2 : 1) * 512 + 4 * columns);
    const int64_t rest = (int64_t)node->target->local_bytes - sums -
                         gpu_plain_bytes(node->target, warps * 32);
    const int64_t in = (node->in[1].d.dims[1] + batch - 1) / batch * batch;
    int64_t fit = (rest / (32 * columns) - 4) * 8; /* 2 rows of units a column */
    if (fit > 8192 / columns)
        fit = 8192 / columns; /* so that groups share a compute unit */
    fit = fit < 0 ? 0 : fit / batch * batch;
    return in < fit ? in : fit;
}

/* Without tuning: few enough warps that all groups are under way at once, many
 * loads where there are few groups. A unit is taken to hold 1024 items. */
static uint32_t preferred_way(const gpu_node *node, int64_t groups,
                              int64_t streams)
{
    const int64_t units = node->target->units;
    const uint32_t warps = groups > 4 * units && groups <= 8 * units ? 4 : 8;
    const bool is_short = node->in[1].d.dims[1] <= 8192; /* x fits at once */
    uint32_t unroll = groups <= 2 * units && is_short ? 8 : 4;
    while (unroll > 1 && !chunk_of(node, warps, streams, unroll))
        unroll /= 2;
    return warps << 4 | unroll;
}

static int64_t groups_of_one(const gpu_node *node)
{
    return (node->in[1].d.dims[0] + 15) / 16;
}

/* The kernel for few rows: tiles that a warp has under way, warps of a group. */
void gpu_few_ways(const gpu_node *node, gpu_ways *out)
{
    const uint32_t most = node->target->max_group / 32;
    out->preferred = preferred_way(node, groups_of_one(node), 1);
    for (uint32_t warps = 2; warps <= 16 && warps <= most; warps *= 2)
        for (uint32_t unroll = 2; unroll <= 8; unroll *= 2)
            if (chunk_of(node, warps, 1, unroll) > 0)
                gpu_way_add(out, warps << 4 | unroll);
}

/* ------------------------------------------------------------------------ */
/* One product                                                               */

static clv_status lower_glsl(gpu_lowering *lowering, const gpu_node *node,
                             uint32_t way, uint32_t tiles)
{
    const gpu_coop_few few = gpu_coop_few_of(way);
    const int64_t out = node->in[1].d.dims[0];
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    clv_status status =
        gpu_matrix_text(&text, node->target, gpu_template_matmul_coop_vector);
    if (!status) {
        gpu_call_init(&call, "matmul_matrix_vector", text.data, node->index,
                      few.warps * 32);
        gpu_call_rows(&call, "x", &node->in[0], false);
        gpu_add_tiles(&call, node, "w", tiles);
        if (gpu_has(&node->in[2]))
            gpu_call_post(&call, GPU_POST_ADD, &node->in[2]);
        gpu_call_rows(&call, "dst", &node->out, true);
        gpu_tile_defines(&call, node);
        gpu_call_define(&call, "COLUMNS", columns_of(node));
        gpu_coop_few_define(&call, node, few);
        call.groups[0] = gpu_ceil(gpu_constant(out), 16 * few.tiles);
        status = gpu_build(&lowering->builder, &call, false);
    }
    gpu_text_free(&text);
    return status;
}

static const char *const w_names[] = {"w", "w1", "w2"};
static const char *const dst_names[] = {"dst", "dst1", "dst2"};
static const char *const bias_names[] = {"bias", "bias1", "bias2"};

/* Of a lone product, whose bias and what follows are posts. */
static const char lone[] =
    "#define FIND_MEMBER\n"
    "#define ADD_BIAS(y, m, o) (y)\n"
    "#define STORE(m, y, c, o) args.dst.WriteScalar(y, 0, c, 0, 0, o);\n";

static void add_numbers(gpu_call *call, const gpu_node *node, uint32_t way,
                        const gpu_team *team)
{
    const int64_t warps = way >> 4, unroll = way & 15;
    const bool glu = team && team->has_glu;
    gpu_tile_defines(call, node);
    gpu_call_define(call, "COLUMNS", columns_of(node));
    gpu_call_define(call, "CHUNK", chunk_of(node, warps, 1 + glu, unroll));
    gpu_call_define(call, "UNROLL", unroll);
    gpu_call_define(call, "WARPS", warps);
    gpu_call_define(call, "ITEMS", warps * 32);
    gpu_call_define(call, "GLU", glu);
    gpu_call_define(call, "GELU",
                    glu && team->activation == CLV_ACT_GELU_TANH);
    gpu_call_define(call, "NORM", team && team->has_norm);
}

static clv_status lower_lone(gpu_lowering *lowering, const gpu_node *node,
                             uint32_t way, uint32_t tiles)
{
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    gpu_puts(&text, lone);
    clv_status status = gpu_matrix_text(&text, node->target,
                                        gpu_template_matmul_matrix_vector);
    if (!status) {
        gpu_call_init(&call, "matmul_matrix_vector", text.data, node->index,
                      (way >> 4) * 32);
        gpu_call_rows(&call, "x", &node->in[0], false);
        gpu_add_tiles(&call, node, "w", tiles);
        if (gpu_has(&node->in[2]))
            gpu_call_post(&call, GPU_POST_ADD, &node->in[2]);
        gpu_call_rows(&call, "dst", &node->out, true);
        add_numbers(&call, node, way, NULL);
        call.groups[0] = gpu_constant(groups_of_one(node));
        status = gpu_build(&lowering->builder, &call, false);
    }
    gpu_text_free(&text);
    return status;
}

clv_status gpu_few_lower(gpu_lowering *lowering, const gpu_node *node,
                         uint32_t way, uint32_t tiles)
{
    return gpu_is_glsl(node->target) ? lower_glsl(lowering, node, way, tiles)
                                     : lower_lone(lowering, node, way, tiles);
}

/* ------------------------------------------------------------------------ */
/* Several products                                                          */

bool gpu_few_takes(const gpu_node *product)
{
    return gpu_matrix_suits(product) && gpu_is_few(product) &&
           !gpu_is_glsl(product->target) &&
           !gpu_is_disabled(product->target, "matmul_team");
}

/* Which product the group's row of tiles is of. */
static void put_find_member(gpu_text *text, const gpu_team *team)
{
    if (team->has_glu) {
        gpu_puts(text, "#define FIND_MEMBER \\\n"
                       "    if (warp >= TURNS) \\\n"
                       "        from = w1 + args.w1.Row(0, tile, 0, 0);\n");
        return;
    }
    gpu_puts(text, "#define FIND_MEMBER ");
    for (uint32_t i = 1; i < team->n; i++)
        gpu_printf(text,
                   "\\\n    if (member == %u && tile >= args.%s.Width()) { \\\n"
                   "        tile -= args.%s.Width(); \\\n"
                   "        member = %u; \\\n"
                   "        n_out = args.%s.Channels(); \\\n"
                   "        from = %s + args.%s.Row(0, tile, 0, 0); }",
                   (unsigned)(i - 1), w_names[i - 1], w_names[i - 1],
                   (unsigned)i, dst_names[i], w_names[i], w_names[i]);
    gpu_puts(text, "\n");
}

static void put_stores(gpu_text *text, const gpu_team *team)
{
    const bool biased = gpu_has(&team->products[0].in[2]);
    gpu_puts(text, "#define ADD_BIAS(y, m, o) ((y)");
    for (uint32_t i = 0; i < team->n && biased; i++)
        gpu_printf(text, " + ((m) == %u ? args.%s.ReadScalar(0, 0, 0, 0, o) "
                         ": 0.0f)", (unsigned)i, bias_names[i]);
    gpu_puts(text, ")\n#define STORE(m, y, c, o)");
    for (uint32_t i = 0; i < team->n_outs; i++)
        gpu_printf(text, " \\\n    if ((m) == %u) args.%s.WriteScalar(y, 0, c, "
                         "0, 0, o);", (unsigned)i, dst_names[i]);
    gpu_puts(text, "\n");
    if (team->has_norm)
        gpu_puts(text, "#define GAIN(k) args.gain.ReadScalar(0, 0, 0, 0, k)\n"
                       "#define EPS bits_f32(args.eps)\n");
}

static void add_operands(gpu_call *call, const gpu_team *team,
                         const uint32_t *tiles)
{
    gpu_call_rows(call, "x", &team->x, false);
    if (team->has_norm) {
        gpu_call_rows(call, "gain", &team->norm.in[1], false);
        gpu_call_param(call, "eps", gpu_float(team->norm.node.attr.norm.eps));
    }
    for (uint32_t i = 0; i < team->n; i++) {
        const gpu_node *p = &team->products[i];
        gpu_add_tiles(call, p, w_names[i], tiles[i]);
        if (gpu_has(&p->in[2]))
            gpu_call_rows(call, bias_names[i], &p->in[2], false);
    }
    for (uint32_t i = 0; i < team->n_outs; i++) {
        gpu_operand *dst =
            gpu_call_rows(call, dst_names[i], &team->outs[i], true);
        if (i == team->setter)
            gpu_call_set_rows(call, dst, &team->sets);
    }
}

static int64_t groups_of(const gpu_team *team)
{
    int64_t groups = 0;
    for (uint32_t i = 0; i < team->n_outs; i++)
        groups += groups_of_one(&team->products[i]);
    return groups;
}

clv_status gpu_few_lower_team(gpu_lowering *lowering, const gpu_team *team)
{
    const gpu_node *first = &team->products[0];
    gpu_text text = {.host = lowering->builder.host};
    uint32_t tiles[GPU_TEAM_MAX];
    clv_status status = CLV_OK;
    gpu_call call;
    const uint32_t way =
        preferred_way(first, groups_of(team), 1 + team->has_glu);
    for (uint32_t i = 0; i < team->n && !status; i++)
        status = gpu_lower_tiles(lowering, &team->products[i], &tiles[i]);
    put_find_member(&text, team);
    put_stores(&text, team);
    if (!status)
        status = gpu_matrix_text(&text, first->target,
                                 gpu_template_matmul_matrix_vector);
    if (!status) {
        gpu_call_init(&call, "matmul_matrix_vector", text.data, first->index,
                      (way >> 4) * 32);
        call.name = "matmul_team";
        add_operands(&call, team, tiles);
        add_numbers(&call, first, way, team);
        call.groups[0] = gpu_constant(groups_of(team));
        status = gpu_build(&lowering->builder, &call, false);
    }
    gpu_text_free(&text);
    return status;
}
