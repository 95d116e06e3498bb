#include "keep.h"
#include "candidates/room.h"
#include "lower/stream.h"

/* Whether the device takes the node with weights that are streamed. */
static bool can_stream(const planner_solver *v, uint32_t node, uint32_t device)
{
    const planner_solve_node *n = &v->c.nodes[node];
    for (uint32_t i = 0; i < n->n_options; i++) {
        const planner_solve_option *o = &v->c.options[n->first_option + i];
        for (uint32_t j = 0; j < o->n_pieces; j++) {
            const core_piece *cut = &v->c.cuts[o->first_piece + j];
            if (cut->node != CORE_NO_PIECE && cut->device == device &&
                cut->streamed)
                return true;
        }
    }
    return false;
}

/* Of one device, where plans may keep weights among values. */
typedef struct keeping {
    uint64_t need; /* bytes that the device cannot hold */
    uint64_t room; /* for more that is kept */
} keeping;

static bool is_candidate(const planner_solver *v, const core_piece *piece,
                         uint64_t bytes, uint32_t device)
{
    return piece->device == device && bytes && !piece->streamed &&
           can_stream(v, piece->node, device);
}

static bool keep_one(keeping *k, core_piece *piece, uint64_t bytes)
{
    const uint64_t size = bytes + PLANNER_STREAM_ALIGN;
    if (!k->need || size > k->room)
        return false;
    piece->streamed = CORE_STREAM_ONCE;
    k->room -= size;
    k->need -= bytes < k->need ? bytes : k->need;
    return true;
}

/* Some of every part of the graph, as later plans stream them. */
static void spread(const planner_solver *v, uint32_t device, keeping *k,
                   core_piece *pieces, const uint64_t *bytes, uint32_t n)
{
    double all = 0, due = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_candidate(v, &pieces[i], bytes[i], device))
            all += (double)bytes[i];
    const double part = all > 0 ? (double)k->need / all : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_candidate(v, &pieces[i], bytes[i], device))
            continue;
        due += part * (double)bytes[i];
        if (due >= (double)bytes[i] / 2 && keep_one(k, &pieces[i], bytes[i]))
            due -= (double)bytes[i];
    }
}

/* The smallest piece that is enough, or else the largest, as long as one finds
 * room; n: none does. */
static uint32_t next_best(const planner_solver *v, uint32_t device,
                          const keeping *k, const core_piece *pieces,
                          const uint64_t *bytes, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_candidate(v, &pieces[i], bytes[i], device) ||
            bytes[i] + PLANNER_STREAM_ALIGN > k->room)
            continue;
        if (best == n || (bytes[best] < k->need
                              ? bytes[i] > bytes[best]
                              : bytes[i] >= k->need && bytes[i] < bytes[best]))
            best = i;
    }
    return best;
}

static void keep_on(const planner_solver *v, uint32_t device,
                    core_piece *pieces, const uint64_t *bytes, uint32_t n)
{
    const core_plan_device *of = &v->plan->devices[device];
    const uint64_t hold = planner_room_to_hold(v->graph, of);
    keeping k = {.room = planner_room_to_keep(v->graph, of)};
    if (!k.room)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (pieces[i].device == device && !pieces[i].streamed)
            k.need += bytes[i];
    k.need -= hold < k.need ? hold : k.need;
    if (!k.need)
        return;
    spread(v, device, &k, pieces, bytes, n);
    for (uint32_t i; (i = next_best(v, device, &k, pieces, bytes, n)) < n;)
        if (!keep_one(&k, &pieces[i], bytes[i]))
            break;
}

void planner_keep_some(const planner_solver *v, core_piece *pieces,
                       const uint64_t *bytes, uint32_t n)
{
    for (uint32_t d = 0; d < v->plan->n_devices; d++)
        keep_on(v, d, pieces, bytes, n);
}
