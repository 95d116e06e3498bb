/* Which candidates become options: the promising ones that the devices take. */
#include "maker.h"
#include "../profile/accepts.h"
#include "../../core/base/error.h"
#include "../../core/device/caps.h"

#include <stdlib.h>
#include <string.h>

/* More than are kept, as some may be refused. */
#define ASKED (PLANNER_MAX_OPTIONS * 3 / 2)

/* Options that are neither whole nor near a plan, where some are near one. */
#define BESIDE_NEAR 8

/* Whole ones first, then those near a plan. */
static int rank(const planner_candidate *c)
{
    return !c->axes ? 0 : c->near ? 1 : 2;
}

static int by_time(const void *a, const void *b)
{
    const planner_candidate *p = a, *q = b;
    if (rank(p) != rank(q))
        return rank(p) - rank(q);
    return (p->time > q->time) - (p->time < q->time);
}

static uint32_t n_kept(const planner_candidate_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        n += rank(&set->list[i]) < 2;
    return n;
}

/* Keeps the whole ones, those near a plan, and the `most` fastest others. */
static void shorten(planner_candidate_set *set, uint32_t most)
{
    if (set->n)
        qsort(set->list, set->n, sizeof *set->list, by_time);
    most += n_kept(set);
    if (set->n > most)
        set->n = most;
}

/* ------------------------------------------------------------------------ */
/* Asking                                                                    */

/* Pieces of all candidates that are on one device, and whose they are. */
typedef struct inquiry {
    core_piece *pieces;
    planner_candidate **owners;
    uint32_t n;
} inquiry;

static void collect(const planner_maker *m, uint32_t device, inquiry *q)
{
    q->n = 0;
    for (uint32_t k = 0; k < m->classes.n_classes; k++)
        for (uint32_t i = 0; i < m->sets[k].n; i++) {
            planner_candidate *candidate = &m->sets[k].list[i];
            for (uint32_t j = 0; j < candidate->n && candidate->axes; j++) {
                if (candidate->cuts[j].device != device)
                    continue;
                q->pieces[q->n] = candidate->cuts[j];
                q->owners[q->n++] = candidate;
            }
        }
}

/* Asks a device about its pieces; a candidate that it refuses has no pieces any
 * more. */
static clv_status ask(const planner_maker *m, uint32_t device, inquiry *q)
{
    core_cut cut;
    char reason[PLANNER_REASON_SIZE];
    collect(m, device, q);
    if (!q->n)
        return CLV_OK;
    clv_device *dev = planner_maker_device(m, device);
    clv_status status = core_cut_try(m->graph, q->pieces, q->n, &cut);
    if (status)
        return status;
    bool local[PLANNER_SOLVE_DEVICES];
    for (uint32_t d = 0; d < m->n_devices; d++)
        local[d] = m->devices[d].memory_index != 0;
    status = core_cut_pack(&cut, local);
    if (planner_maker_streams(m, device))
        planner_stream_weights(cut.graph);
    if (status) {
        core_cut_finish(&cut);
        return status;
    }
    clv_subgraph view = core_graph_view(cut.graph);
    clv_op_caps *caps = calloc(cut.graph->n_nodes, sizeof *caps);
    status = caps ? core_device_caps(dev, &view, caps)
                  : core_no_memory("for a plan");
    for (uint32_t i = 0; i < cut.graph->n_nodes && !status; i++) {
        planner_candidate *owner = q->owners[cut.pieces[i]];
        const core_piece *piece = &q->pieces[cut.pieces[i]];
        bool joins = cut.graph->nodes[i].op != m->graph->nodes[piece->node].op;
        if (joins && !piece->adds && owner->cuts[0].device != device)
            continue;
        if (!planner_accepts(cut.graph, &cut.graph->nodes[i], dev, &caps[i],
                             reason))
            owner->n = 0;
    }
    free(caps);
    core_cut_finish(&cut);
    return status;
}

static void drop_refused(planner_candidate_set *set)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (set->list[i].n)
            set->list[kept++] = set->list[i];
    set->n = kept;
}

/* A device may bound into how many parts a node is cut. */
static void drop_divided(const planner_maker *m, uint32_t class)
{
    planner_candidate_set *set = &m->sets[class];
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t n = set->list[i].n;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t most =
                planner_maker_caps(m, class, set->list[i].cuts[j].device)
                    ->split_max_parts;
            if (most && n > most && set->list[i].axes)
                set->list[i].n = 0;
        }
    }
    drop_refused(set);
}

clv_status planner_candidates_choose(planner_maker *m)
{
    inquiry q = {0};
    uint32_t n = 0;
    clv_status status = CLV_OK;
    for (uint32_t k = 0; k < m->classes.n_classes; k++) {
        drop_divided(m, k);
        planner_refuse_copied_again(m, k);
        drop_refused(&m->sets[k]);
        shorten(&m->sets[k], ASKED);
        for (uint32_t i = 0; i < m->sets[k].n; i++)
            n += m->sets[k].list[i].n;
    }
    q.pieces = calloc(n + 1u, sizeof *q.pieces);
    q.owners = calloc(n + 1u, sizeof *q.owners);
    if (!q.pieces || !q.owners)
        status = core_no_memory("for a plan");
    for (uint32_t d = 0; d < m->n_devices && !status; d++)
        status = ask(m, d, &q);
    for (uint32_t k = 0; k < m->classes.n_classes && !status; k++) {
        drop_refused(&m->sets[k]);
        shorten(&m->sets[k], m->near ? BESIDE_NEAR : PLANNER_MAX_OPTIONS);
    }
    free(q.pieces);
    free(q.owners);
    return status;
}
