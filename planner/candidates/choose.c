/* Which drafts become options: the promising ones that the devices take. */
#include "drafts.h"
#include "../../core/device/caps.h"

#include <stdlib.h>
#include <string.h>

/* More than are kept, as some may be refused. */
#define ASKED (PLANNER_MAX_OPTIONS * 3 / 2)

/* A draft in the order of promise: the best of each way to cut come first. */
typedef struct entry {
    planner_draft draft;
    uint32_t place; /* among those cut along the same axes, by time */
} entry;

static int by_time(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    return (p->draft.time > q->draft.time) - (p->draft.time < q->draft.time);
}

static int by_place(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    if (p->draft.axes == 0 || q->draft.axes == 0) /* whole ones first */
        return (p->draft.axes != 0) - (q->draft.axes != 0);
    if (p->place != q->place)
        return p->place < q->place ? -1 : 1;
    return by_time(a, b);
}

static uint32_t n_whole(const planner_drafts *drafts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < drafts->n; i++)
        n += !drafts->list[i].axes;
    return n;
}

/* Sorts by promise, keeps the whole ones and `most` others. */
static bool shorten(planner_drafts *drafts, uint32_t most)
{
    uint32_t n = drafts->n, seen[1 << CORE_AXIS_COUNT] = {0}, kept = 0;
    entry *list = calloc(n + 1u, sizeof *list);
    if (!list)
        return false;
    for (uint32_t i = 0; i < n; i++)
        list[i].draft = drafts->list[i];
    qsort(list, n, sizeof *list, by_time);
    for (uint32_t i = 0; i < n; i++)
        list[i].place = seen[list[i].draft.axes]++;
    qsort(list, n, sizeof *list, by_place);
    most += n_whole(drafts);
    for (uint32_t i = 0; i < n && kept < most; i++)
        drafts->list[kept++] = list[i].draft;
    drafts->n = kept;
    free(list);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Asking                                                                    */

/* Pieces of all drafts that are on one device, and whose they are. */
typedef struct inquiry {
    core_piece *pieces;
    planner_draft **owners;
    uint32_t n;
} inquiry;

static void collect(const planner_maker *m, uint32_t device, inquiry *q)
{
    q->n = 0;
    for (uint32_t k = 0; k < m->kinds.n_kinds; k++)
        for (uint32_t i = 0; i < m->drafts[k].n; i++) {
            planner_draft *draft = &m->drafts[k].list[i];
            for (uint32_t j = 0; j < draft->n && draft->axes; j++) {
                if (draft->cuts[j].device != device)
                    continue;
                q->pieces[q->n] = draft->cuts[j];
                q->owners[q->n++] = draft;
            }
        }
}

/* Asks a device about its pieces; a draft that it refuses has no pieces any
 * more. */
static clv_status ask(const planner_maker *m, uint32_t device, inquiry *q)
{
    core_cut cut;
    char reason[CORE_REASON_SIZE];
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
    if (status) {
        core_cut_finish(&cut);
        return status;
    }
    clv_subgraph view = core_graph_view(cut.graph);
    clv_op_caps *caps = calloc(cut.graph->n_nodes, sizeof *caps);
    status = caps ? core_device_caps(dev, &view, caps)
                  : clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
    for (uint32_t i = 0; i < cut.graph->n_nodes && !status; i++) {
        planner_draft *owner = q->owners[cut.pieces[i]];
        bool joins = cut.graph->nodes[i].op !=
                     m->graph->nodes[q->pieces[cut.pieces[i]].node].op;
        if (joins && owner->cuts[0].device != device)
            continue;
        if (!core_plan_accepts(cut.graph, &cut.graph->nodes[i], dev, &caps[i],
                               reason))
            owner->n = 0;
    }
    free(caps);
    core_cut_finish(&cut);
    return status;
}

static void drop_refused(planner_drafts *drafts)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < drafts->n; i++)
        if (drafts->list[i].n)
            drafts->list[kept++] = drafts->list[i];
    drafts->n = kept;
}

/* A device may bound into how many parts a node is cut. */
static void drop_crowds(const planner_maker *m, uint32_t kind)
{
    planner_drafts *drafts = &m->drafts[kind];
    for (uint32_t i = 0; i < drafts->n; i++) {
        uint32_t n = drafts->list[i].n;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t most =
                planner_maker_caps(m, kind, drafts->list[i].cuts[j].device)
                    ->split_max_parts;
            if (most && n > most && drafts->list[i].axes)
                drafts->list[i].n = 0;
        }
    }
    drop_refused(drafts);
}

clv_status planner_drafts_choose(planner_maker *m)
{
    inquiry q = {0};
    uint32_t n = 0;
    clv_status status = CLV_OK;
    for (uint32_t k = 0; k < m->kinds.n_kinds; k++) {
        drop_crowds(m, k);
        if (!shorten(&m->drafts[k], ASKED))
            return clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
        for (uint32_t i = 0; i < m->drafts[k].n; i++)
            n += m->drafts[k].list[i].n;
    }
    q.pieces = calloc(n + 1u, sizeof *q.pieces);
    q.owners = calloc(n + 1u, sizeof *q.owners);
    if (!q.pieces || !q.owners)
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
    for (uint32_t d = 0; d < m->n_devices && !status; d++)
        status = ask(m, d, &q);
    for (uint32_t k = 0; k < m->kinds.n_kinds && !status; k++) {
        drop_refused(&m->drafts[k]);
        if (!shorten(&m->drafts[k], PLANNER_MAX_OPTIONS))
            status = clv_error(CLV_ERR_NO_MEMORY, "no memory for a plan");
    }
    free(q.pieces);
    free(q.owners);
    return status;
}
