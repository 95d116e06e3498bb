#include "gemv_tensor.h"
#include "gemv_tensor_glsl.h"
#include "gemm_tensor.h"
#include "tiles.h"
#include "lower/variant.h"

int64_t gpu_few_columns(const gpu_node *node)
{
    int64_t columns = 1;
    while (columns < gpu_max_rows(&node->in[0]))
        columns *= 2;
    return columns;
}

void gpu_few_define(gpu_call *call, const gpu_node *node, const gpu_team *team)
{
    const bool glu = team && team->has_glu;
    gpu_tile_defines(call, node);
    gpu_call_define(call, "COLUMNS", gpu_few_columns(node));
    gpu_call_define(call, "ACTIVATION",
                    !glu                                    ? 0
                    : team->activation == CLV_ACT_GELU_TANH ? 2
                                                            : 1);
    gpu_call_define(call, "NORM", team && team->has_norm);
    gpu_call_define(call, "ROPE",
                    !team || !team->rope        ? 0
                    : gpu_team_has_halves(team) ? 2
                                                : 1);
}

/* Rows of tiles that a group reads at a time: gate and up, or both halves of
 * pairs. */
static int64_t streams_of(const gpu_team *team)
{
    return team && (team->has_glu || gpu_team_has_halves(team)) ? 2 : 1;
}

/* How a product is computed, as numbers of a way. */
typedef struct few {
    int64_t warps;  /* of a group */
    int64_t unroll; /* tiles of each stream that a warp has under way */
    int64_t stay;   /* groups that a compute unit is given, which then take one
                       strip of tiles after the other; 0: a group a strip */
} few;

static uint32_t way_of(few f)
{
    return (uint32_t)(f.stay << 8 | f.warps << 3 | f.unroll);
}

static few few_of(uint32_t way)
{
    return (few){.warps = way >> 3 & 31, .unroll = way & 7, .stay = way >> 8};
}

/* Whether the group and its local memory fit. */
static bool fits(const gpu_node *node, few f, int64_t streams)
{
    const gpu_target *target = node->target;
    const int64_t columns = gpu_few_columns(node), items = f.warps * 32;
    return items <= target->max_group && items <= target->max_group_size[0] &&
           columns * (f.warps * (f.unroll * 128 + streams * 256 + 8) + 128) +
                   gpu_plain_bytes(target, items) <=
               (int64_t)target->local_bytes;
}

/* Without tuning: as many groups as compute units hold at once, which is
 * guessed. Teams have less under way, as they need more registers for the rest,
 * and their groups are too many to lose a place. */
static few prefer(const gpu_node *node, int64_t strips, const gpu_team *team)
{
    const int64_t units = node->target->units, streams = streams_of(team);
    few f = {
        .warps = 8, .unroll = team ? 2 : 4, .stay = strips > 4 * units ? 3 : 0};
    while (f.unroll > 1 && !fits(node, f, streams))
        f.unroll /= 2;
    while (f.warps > 1 && !fits(node, f, streams))
        f.warps /= 2;
    return f;
}

static int64_t strips_of_one(const gpu_node *node)
{
    return (node->in[1].d.dims[0] + 15) / 16;
}

void gpu_few_ways(const gpu_node *node, gpu_ways *out)
{
    const int64_t strips = strips_of_one(node), units = node->target->units;
    out->preferred = way_of(prefer(node, strips, NULL));
    for (few f = {.warps = 4}; f.warps <= 8; f.warps *= 2)
        for (f.unroll = 1; f.unroll <= 4; f.unroll *= 2)
            for (f.stay = 0; f.stay <= 4; f.stay += 2)
                if (fits(node, f, 1) && f.stay * units < strips)
                    gpu_way_add(out, way_of(f));
}

/* ------------------------------------------------------------------------ */
/* One product                                                               */

static const char *const w_names[] = {"w", "w1", "w2"};
static const char *const dst_names[] = {"dst", "dst1", "dst2"};
static const char *const bias_names[] = {"bias", "bias1", "bias2"};

static void add_numbers(gpu_call *call, const gpu_node *node, few f,
                        int64_t strips, const gpu_team *team)
{
    const int64_t most = f.stay * node->target->units;
    const int64_t groups = f.stay && most < strips ? most : strips;
    gpu_few_define(call, node, team);
    gpu_call_define(call, "UNROLL", f.unroll);
    gpu_call_define(call, "WARPS", f.warps);
    gpu_call_define(call, "ITEMS", f.warps * 32);
    gpu_call_define(call, "STREAMS", streams_of(team));
    gpu_call_define(call, "STRIPS", strips);
    gpu_call_define(call, "GROUPS", groups);
    call->local[0] = (uint32_t)f.warps * 32;
    call->groups[0] = gpu_constant(groups);
}

/* Of a lone product, whose bias and what follows are posts. */
static const char lone[] =
    "#define FIND_STRIP(at) tile = at;\n"
    "#define FIND_ROWS \\\n"
    "    row[0] = (__global const uint4 *)(w + args.w.Row(0, tile, 0, 0));\n"
    "#define ADD_BIAS(y, m, o) (y)\n"
    "#define STORE(m, y, c, o) \\\n"
    "    if ((o) < args.dst.Channels()) \\\n"
    "        args.dst.WriteScalar(y, 0, c, 0, 0, o);\n";

static clv_status lower_lone(gpu_lowering *lowering, const gpu_node *node,
                             few f, uint32_t tiles)
{
    gpu_text text = {.host = lowering->builder.host};
    gpu_call call;
    gpu_puts(&text, lone);
    clv_status status =
        gpu_matrix_text(&text, node->target, gpu_template_gemv_tensor_opencl);
    if (!status) {
        gpu_call_init(&call, "matmul_matrix_vector", text.data, node->index, 1);
        gpu_call_rows(&call, "x", &node->in[0], false);
        gpu_add_tiles(&call, node, "w", tiles);
        if (gpu_has(&node->in[2]))
            gpu_call_post(&call, GPU_POST_ADD, &node->in[2]);
        gpu_call_rows(&call, "dst", &node->out, true);
        add_numbers(&call, node, f, strips_of_one(node), NULL);
        status = gpu_build(&lowering->builder, &call, false);
    }
    gpu_text_free(&text);
    return status;
}

clv_status gpu_few_lower(gpu_lowering *lowering, const gpu_node *node,
                         uint32_t way, uint32_t tiles)
{
    return gpu_is_glsl(node->target)
               ? gpu_coop_few_lower(lowering, node, way, tiles)
               : lower_lone(lowering, node, few_of(way), tiles);
}

/* ------------------------------------------------------------------------ */
/* Several products                                                          */

bool gpu_few_takes(const gpu_node *product, const gpu_node *first)
{
    return gpu_matrix_suits(product) && gpu_is_few(product) &&
           gpu_same_tiles(&product->in[1].d, &first->in[1].d) &&
           !gpu_is_disabled(product->target, "matmul_team");
}

/* Groups of 16 outputs of a member, or of 2 x 16. */
static int64_t strips_of(const gpu_team *team, const gpu_member *member)
{
    const int64_t strips = strips_of_one(&member->product);
    return gpu_team_has_halves(team) ? strips / 2 : strips;
}

/* The member that strip `at` is of, and its row of tiles. */
static void put_find_strip(gpu_text *text, const gpu_team *team)
{
    gpu_puts(text, "#define FIND_STRIP(at) \\\n    tile = at;");
    for (uint32_t i = 0; i + 1 < team->n_outs; i++) {
        const long long strips = strips_of(team, &team->members[i]);
        gpu_printf(text, " \\\n    member = %u;", (unsigned)i);
        gpu_printf(text, " \\\n    if (tile >= %lld) { tile -= %lld;", strips,
                   strips);
    }
    if (team->n_outs > 1)
        gpu_printf(text, " \\\n    member = %u;", (unsigned)team->n_outs - 1);
    for (uint32_t i = 1; i < team->n_outs; i++)
        gpu_puts(text, " }");
    if (gpu_team_has_halves(team))
        gpu_puts(text, " \\\n    tile = tile / APART * 2 * APART + "
                       "tile % APART;");
    gpu_puts(text, "\n");
}

static void put_row(gpu_text *text, unsigned stream, const char *w,
                    const char *tile)
{
    gpu_printf(text,
               " \\\n    row[%u] = (__global const uint4 *)(%s + "
               "args.%s.Row(0, %s, 0, 0));",
               stream, w, w, tile);
}

/* Where they lie. */
static void put_find_rows(gpu_text *text, const gpu_team *team)
{
    gpu_puts(text, "#define FIND_ROWS");
    for (uint32_t i = 0; i < team->n_outs; i++) {
        if (team->n_outs > 1)
            gpu_printf(text, " \\\n    if (member == %u) {", (unsigned)i);
        put_row(text, 0, w_names[i], "tile");
        if (team->has_glu)
            put_row(text, 1, w_names[1], "tile");
        else if (gpu_team_has_halves(team))
            put_row(text, 1, w_names[i], "tile + APART");
        if (team->n_outs > 1)
            gpu_puts(text, " }");
    }
    gpu_puts(text, "\n");
}

static void put_stores(gpu_text *text, const gpu_team *team)
{
    const bool biased = gpu_has(&team->members[0].product.in[2]);
    gpu_puts(text, "#define ADD_BIAS(y, m, o) ((y)");
    for (uint32_t i = 0; i < team->n && biased; i++)
        gpu_printf(text,
                   " + ((m) == %u && (o) < args.%s.Channels() ? "
                   "args.%s.ReadScalar(0, 0, 0, 0, o) : 0.0f)",
                   (unsigned)i, bias_names[i], bias_names[i]);
    gpu_puts(text, ")\n#define STORE(m, y, c, o)");
    for (uint32_t i = 0; i < team->n_outs; i++)
        gpu_printf(text,
                   " \\\n    if ((m) == %u && (o) < args.%s.Channels()) "
                   "args.%s.WriteScalar(y, 0, c, 0, 0, o);",
                   (unsigned)i, dst_names[i], dst_names[i]);
    gpu_puts(text, "\n");
    if (team->has_norm)
        gpu_puts(text, "#define GAIN(k) args.gain.ReadScalar(0, 0, 0, 0, k)\n"
                       "#define EPS bits_f32(args.eps)\n");
}

/* Which members are turned, and how. */
static void put_rope(gpu_text *text, const gpu_team *team)
{
    uint32_t turned = 0;
    for (uint32_t i = 0; i < team->n_outs; i++)
        turned |= (uint32_t)team->members[i].turned << i;
    if (!turned)
        return;
    const long long head = team->rope->node.attr.rope.head_dim;
    gpu_printf(text,
               "#define IS_TURNED(member) (%uu >> (member) & 1u)\n"
               "#define HEAD %lld\n"
               "#define APART %lld\n"
               "#define PAIRS_TURNED %lld\n"
               "#define TURN(c, i) args.turns.ReadScalar(0, c, 0, 0, i)\n",
               (unsigned)turned, head, head / 32,
               (long long)team->rope->in[2].d.dims[0]);
}

void gpu_few_put_team(gpu_text *text, const gpu_team *team)
{
    put_rope(text, team);
    put_stores(text, team);
}

void gpu_few_add_team(gpu_call *call, const gpu_team *team,
                      const uint32_t *tiles, uint32_t turns)
{
    gpu_call_rows(call, "x", &team->x, false);
    if (team->has_norm) {
        gpu_call_rows(call, "gain", &team->norm.in[1], false);
        gpu_call_param(call, "eps", gpu_float(team->norm.node.attr.norm.eps));
    }
    if (team->rope) {
        const int64_t pairs = team->rope->in[2].d.dims[0];
        gpu_add_private_rows(call, "turns", turns, CLV_DTYPE_F32,
                             call->operands[0].width, 2 * pairs, 8 * pairs,
                             false);
    }
    for (uint32_t i = 0; i < team->n; i++) {
        const gpu_node *p = &team->members[i].product;
        gpu_add_tiles(call, p, w_names[i], tiles[i]);
        if (gpu_has(&p->in[2]))
            gpu_call_rows(call, bias_names[i], &p->in[2], false);
    }
    for (uint32_t i = 0; i < team->n_outs; i++) {
        const gpu_member *member = &team->members[i];
        gpu_operand *dst =
            gpu_call_rows(call, dst_names[i], &member->out, true);
        if (member->sets.sets)
            gpu_call_set_rows(call, dst, &member->sets);
    }
}

clv_status gpu_few_lower_team(gpu_lowering *lowering, const gpu_team *team)
{
    const gpu_node *first = &team->members[0].product;
    gpu_text text = {.host = lowering->builder.host};
    uint32_t tiles[GPU_TEAM_MAX], turns = 0;
    int64_t strips = 0;
    clv_status status = CLV_OK;
    gpu_call call;
    for (uint32_t i = 0; i < team->n && !status; i++)
        status =
            gpu_lower_tiles(lowering, &team->members[i].product, &tiles[i]);
    if (!status && team->rope)
        status = gpu_rope_turns(lowering, first->index, team->rope, &turns);
    if (!status && gpu_is_glsl(first->target))
        return gpu_coop_few_lower_team(lowering, team, tiles, turns);
    for (uint32_t i = 0; i < team->n_outs; i++)
        strips += strips_of(team, &team->members[i]);
    put_find_strip(&text, team);
    put_find_rows(&text, team);
    gpu_few_put_team(&text, team);
    if (!status)
        status = gpu_matrix_text(&text, first->target,
                                 gpu_template_gemv_tensor_opencl);
    if (!status) {
        gpu_call_init(&call, "matmul_matrix_vector", text.data, first->index,
                      1);
        call.name = "matmul_team";
        gpu_few_add_team(&call, team, tiles, turns);
        add_numbers(&call, first, prefer(first, strips, team), strips, team);
        status = gpu_build(&lowering->builder, &call, false);
    }
    gpu_text_free(&text);
    return status;
}
