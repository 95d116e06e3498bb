#include "cuts.h"

#include "../../core/device/memory.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILE 32 /* features; devices are at their best with multiples of it */

const char *cuts_name(uint32_t kind)
{
    static const char *const names[CUTS_COUNT] = {"rows",
                                                  "sequence",
                                                  "channels",
                                                  "heads",
                                                  "rows of a sequence",
                                                  "several lengths",
                                                  "rows then channels",
                                                  "experts",
                                                  "random"};
    return names[kind];
}

/* Devices that take a node, in an order that changes from node to node. */
typedef struct takers {
    uint32_t at[CUTS_DEVICES], n;
} takers;

static takers takers_of(const cuts *c, uint32_t op, uint32_t turn)
{
    takers t = {0};
    for (uint32_t i = 0; i < c->n_devices; i++) {
        uint32_t d = (i + turn) % c->n_devices;
        if (c->takes[d][op])
            t.at[t.n++] = d;
    }
    return t;
}

/* Partial sums are joined on the first device. */
static takers summers_of(const cuts *c, uint32_t op, uint32_t turn)
{
    takers t = takers_of(c, op, turn);
    uint32_t i = 0;
    while (i < t.n && !c->takes[t.at[i]][CLV_OP_ADD])
        i++;
    if (i == t.n)
        return (takers){0};
    uint32_t first = t.at[i];
    t.at[i] = t.at[0];
    t.at[0] = first;
    return t;
}

static core_piece *add(cuts *c, uint32_t node, uint32_t device)
{
    if (c->n_pieces == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 1024;
        c->pieces = reallocarray(c->pieces, c->capacity, sizeof *c->pieces);
        assert_non_null(c->pieces);
    }
    core_piece *piece = &c->pieces[c->n_pieces++];
    *piece = (core_piece){.node = node, .device = device};
    return piece;
}

static void add_whole(cuts *c, uint32_t node)
{
    takers t = takers_of(c, c->graph->nodes[node].op, node);
    assert_true(t.n > 0);
    add(c, node, t.at[0]);
}

static void add_range(cuts *c, uint32_t node, uint32_t device, uint32_t axis,
                      int64_t begin, int64_t end)
{
    add(c, node, device)->ranges[axis] = (core_range){begin, end};
}

/* Where part i of n of an axis begins. */
static int64_t point(const cuts *c, uint32_t node, uint32_t axis, uint32_t i,
                     uint32_t n)
{
    int64_t extent = core_cut_extent(c->graph, node, axis);
    int64_t granule = core_cut_granule(c->graph, node, axis);
    if (axis != CORE_AXIS_HEADS && extent % TILE == 0 && TILE % granule == 0 &&
        extent / TILE >= n)
        granule = TILE;
    return i == n ? extent : extent / granule * i / n * granule;
}

static uint32_t parts_of(const cuts *c, uint32_t node, uint32_t axis,
                         const takers *t)
{
    int64_t granules = core_cut_extent(c->graph, node, axis) /
                       core_cut_granule(c->graph, node, axis);
    return granules < t->n ? (uint32_t)granules : t->n;
}

/* Divides a node over the takers along an axis that is no sequence. */
static bool spread(cuts *c, uint32_t node, uint32_t axis, const takers *t)
{
    uint32_t n = parts_of(c, node, axis, t);
    if (n < 2)
        return false;
    for (uint32_t i = 0; i < n; i++)
        add_range(c, node, t->at[i], axis, point(c, node, axis, i, n),
                  point(c, node, axis, i + 1, n));
    return true;
}

static bool has_sequence(const cuts *c, uint32_t node)
{
    return core_cut_extent(c->graph, node, CORE_AXIS_SEQUENCE) ==
           CUTS_ROWS_OF_RUN;
}

/* Part i ends at ends[i] and is on device of[i] of the takers. */
static bool by_sequence(cuts *c, uint32_t node, const int64_t *ends,
                        const uint32_t *of, uint32_t n)
{
    takers t = takers_of(c, c->graph->nodes[node].op, node);
    if (t.n < 2 || !has_sequence(c, node))
        return false;
    for (uint32_t i = 0; i < n; i++)
        add_range(c, node, t.at[of[i] % t.n], CORE_AXIS_SEQUENCE,
                  i ? ends[i - 1] : 0, ends[i]);
    return true;
}

static bool cut_sequence(cuts *c, uint32_t node)
{
    static const uint32_t of[] = {0, 1, 2};
    bool two = takers_of(c, c->graph->nodes[node].op, node).n == 2;
    return two ? by_sequence(c, node, (const int64_t[]){3, 5}, of, 2)
               : by_sequence(c, node, (const int64_t[]){2, 4, 5}, of, 3);
}

static bool cut_lengths(cuts *c, uint32_t node)
{
    static const uint32_t of[] = {0, 0, 1, 2};
    bool two = takers_of(c, c->graph->nodes[node].op, node).n == 2;
    return two ? by_sequence(c, node, (const int64_t[]){2, 3, 5}, of, 3)
               : by_sequence(c, node, (const int64_t[]){2, 3, 4, 5}, of, 4);
}

static bool cut_hybrid(cuts *c, uint32_t node)
{
    takers t = takers_of(c, c->graph->nodes[node].op, node);
    if (t.n < 2 || !has_sequence(c, node) ||
        core_cut_extent(c->graph, node, CORE_AXIS_ROWS) < 2)
        return false;
    int64_t middle = point(c, node, CORE_AXIS_ROWS, 1, 2);
    int64_t end = point(c, node, CORE_AXIS_ROWS, 2, 2);
    for (uint32_t i = 0; i < 2; i++) {
        core_piece *piece = add(c, node, t.at[i]);
        piece->ranges[CORE_AXIS_SEQUENCE] = (core_range){0, 3};
        piece->ranges[CORE_AXIS_ROWS] =
            i ? (core_range){middle, end} : (core_range){0, middle};
    }
    add_range(c, node, t.at[t.n - 1], CORE_AXIS_SEQUENCE, 3, 5);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Feed-forwards                                                            */

static uint32_t reader_of(const clv_graph *g, clv_value value)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->nodes[i].n_inputs; j++)
            if (g->nodes[i].inputs[j] == value)
                return i;
    return CORE_NO_PIECE;
}

/* The GLU of the feed-forward part that a node belongs to: the node itself, its
 * reader, or its input. */
static uint32_t glu_of(const clv_graph *g, uint32_t node)
{
    const clv_node *n = &g->nodes[node];
    if (n->op == CLV_OP_GLU)
        return node;
    if (n->op != CLV_OP_MATMUL)
        return CORE_NO_PIECE;
    uint32_t reader = reader_of(g, n->outputs[0]);
    if (reader != CORE_NO_PIECE && g->nodes[reader].op == CLV_OP_GLU)
        return reader;
    for (uint32_t i = 0; i < node; i++)
        if (g->nodes[i].op == CLV_OP_GLU &&
            g->nodes[i].outputs[0] == n->inputs[0])
            return i;
    return CORE_NO_PIECE;
}

/* Divides all four nodes of a feed-forward part at the same points, so that the
 * values between them need no copy. GLU is placed on another device if one does
 * not take it. */
static bool cut_pair(cuts *c, uint32_t node)
{
    const clv_graph *g = c->graph;
    uint32_t glu = glu_of(g, node);
    if (glu == CORE_NO_PIECE)
        return false;
    takers t = summers_of(c, CLV_OP_MATMUL, glu);
    bool down = g->nodes[node].op == CLV_OP_MATMUL &&
                g->nodes[node].inputs[0] == g->nodes[glu].outputs[0];
    if (g->nodes[node].op == CLV_OP_GLU)
        for (uint32_t i = 0; i < t.n; i++)
            if (!c->takes[t.at[i]][CLV_OP_GLU])
                t.at[i] = takers_of(c, CLV_OP_GLU, 0).at[0];
    return spread(c, node, down ? CORE_AXIS_CHANNELS : CORE_AXIS_ROWS, &t);
}

/* ------------------------------------------------------------------------ */

/* Products of experts and what lies between them are divided alike. */
static bool cut_experts(cuts *c, uint32_t node)
{
    if (!core_cut_extent(c->graph, node, CORE_AXIS_EXPERTS))
        return false;
    takers t = summers_of(c, CLV_OP_MATMUL_EXPERTS, 0);
    return spread(c, node, CORE_AXIS_EXPERTS, &t);
}

/* Of a matrix that no table is. */
static bool has_matrix(const clv_graph *g, uint32_t node)
{
    const clv_node *n = &g->nodes[node];
    if (n->op == CLV_OP_GET_ROWS || n->n_inputs < 2 ||
        n->inputs[1] == CLV_NO_TENSOR)
        return false;
    const clv_tensor_desc *weight = &g->tensors[n->inputs[1]];
    return weight->usage == CLV_USAGE_WEIGHT && weight->rank > 1;
}

static uint32_t streams(const cuts *c, const core_piece *piece)
{
    clv_device *dev = c->devices[piece->device];
    uint32_t type;
    if (!c->lanes || !has_matrix(c->graph, piece->node) ||
        !core_device_has_local(dev, &type) || test_below(c->lanes, 2))
        return CORE_STREAM_NOT;
    return dev->info.copy_queues && test_below(c->lanes, 2) ? CORE_STREAM_ONCE
                                                            : CORE_STREAM_EACH;
}

static bool cut_random(cuts *c, uint32_t node)
{
    core_piece pieces[TEST_MAX_PIECES];
    const uint32_t op = c->graph->nodes[node].op;
    takers t = takers_of(c, op, node);
    uint32_t n =
        test_divide_or_replicate(c->graph, c->random, node, t.n, pieces);
    bool sums = pieces[0].ranges[CORE_AXIS_CHANNELS].end != 0 ||
                pieces[0].ranges[CORE_AXIS_EXPERTS].end != 0;
    if (sums && !summers_of(c, op, node).n)
        return false;
    if (sums)
        t = summers_of(c, op, node);
    for (uint32_t i = 0; i < n; i++) {
        core_piece *piece = add(c, node, 0);
        *piece = pieces[i];
        const bool cannot_add =
            sums && !c->takes[t.at[piece->device]][CLV_OP_ADD];
        /* Sums are joined on the device of the first of their pieces. */
        piece->device = t.at[cannot_add ? 0 : piece->device];
        piece->adds &= !cannot_add;
        piece->streamed = streams(c, piece);
    }
    return true;
}

static bool cut_node(cuts *c, uint32_t node)
{
    uint32_t op = c->graph->nodes[node].op;
    takers t = takers_of(c, op, node);
    switch (c->kind) {
    case CUTS_ROWS:
        return spread(c, node, CORE_AXIS_ROWS, &t);
    case CUTS_SEQUENCE:
        return cut_sequence(c, node);
    case CUTS_CHANNELS:
        t = summers_of(c, op, node);
        return op == CLV_OP_MATMUL && spread(c, node, CORE_AXIS_CHANNELS, &t);
    case CUTS_HEADS:
        return spread(c, node, CORE_AXIS_HEADS, &t);
    case CUTS_HYBRID:
        return cut_hybrid(c, node);
    case CUTS_LENGTHS:
        return cut_lengths(c, node);
    case CUTS_PAIRS:
        return cut_pair(c, node);
    case CUTS_EXPERTS:
        return cut_experts(c, node);
    default:
        return cut_random(c, node);
    }
}

static bool on_several(const core_piece *pieces, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (pieces[i].device != pieces[0].device)
            return true;
    return false;
}

static char *to_json(const cuts *c)
{
    char text[32];
    cJSON *root = cJSON_CreateObject();
    snprintf(text, sizeof text, "%016llx",
             (unsigned long long)core_graph_fingerprint(c->graph));
    cJSON_AddStringToObject(root, "graph", text);
    cJSON *list = cJSON_AddArrayToObject(root, "pieces");
    for (uint32_t i = 0; i < c->n_pieces; i++) {
        const core_piece *piece = &c->pieces[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "node", piece->node);
        cJSON_AddStringToObject(item, "device",
                                clv_device_id(c->devices[piece->device]));
        if (piece->streamed == CORE_STREAM_ONCE)
            cJSON_AddStringToObject(item, "streamed", "once");
        else if (piece->streamed)
            cJSON_AddTrueToObject(item, "streamed");
        for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++) {
            const double range[] = {(double)piece->ranges[a].begin,
                                    (double)piece->ranges[a].end};
            if (piece->ranges[a].end)
                cJSON_AddItemToObject(item, core_axis_name(a),
                                      cJSON_CreateDoubleArray(range, 2));
        }
        cJSON_AddItemToArray(list, item);
    }
    char *json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    assert_non_null(json);
    return json;
}

char *cuts_make(cuts *c)
{
    c->n_pieces = c->n_cut = 0;
    for (uint32_t node = 0; node < c->graph->n_nodes; node++) {
        uint32_t first = c->n_pieces;
        if (!cut_node(c, node))
            add_whole(c, node);
        c->n_cut += on_several(&c->pieces[first], c->n_pieces - first);
    }
    return to_json(c);
}

void cuts_finish(cuts *c)
{
    free(c->pieces);
    *c = (cuts){0};
}
