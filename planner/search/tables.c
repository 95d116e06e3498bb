#include "tables.h"
#include "../../core/base/error.h"
#include "../../core/base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* Whether a problem is one                                                  */

static clv_status bad(uint32_t node, const char *why)
{
    return clv_error(CLV_ERR_INVALID, "the search's node %u %s", node, why);
}

static bool is_time(double ns)
{
    return ns >= 0 && isfinite(ns);
}

static clv_status check_devices(const planner_solve_problem *p)
{
    if (!p->n_devices || p->n_devices > PLANNER_SOLVE_DEVICES)
        return clv_error(CLV_ERR_INVALID,
                         "the search is over 1..%d devices, "
                         "not %u",
                         PLANNER_SOLVE_DEVICES, p->n_devices);
    for (uint32_t d = 0; d < p->n_devices; d++) {
        const planner_solve_device *dev = &p->devices[d];
        if (!is_time(dev->submit_ns) || !is_time(dev->submit_idle_ns) ||
            !is_time(dev->dispatch_ns) || !is_time(dev->wait_ns) ||
            !is_time(dev->copy_ns) || !is_time(dev->copy_row_ns) ||
            !is_time(dev->copy_byte_ns) || !(dev->max_share >= 0) ||
            dev->memory_index >= PLANNER_SOLVE_MEMORIES)
            return clv_error(CLV_ERR_INVALID,
                             "the search's device %u has "
                             "times, a share or a memory that are none",
                             d);
    }
    return CLV_OK;
}

static clv_status check_option(const planner_solve_problem *p, uint32_t node,
                               const planner_solve_option *option)
{
    if (!option->n_pieces || option->n_pieces > PLANNER_SOLVE_PIECES ||
        option->first_piece > p->n_pieces ||
        option->n_pieces > p->n_pieces - option->first_piece)
        return bad(node, "has an option without pieces, or with too many");
    bool joined = false;
    for (uint32_t i = 0; i < option->n_pieces; i++) {
        const planner_solve_piece *piece = &p->pieces[option->first_piece + i];
        if (piece->device >= p->n_devices || !is_time(piece->ns) ||
            !isfinite(piece->energy_nj) || !is_time(piece->extra_ns) ||
            !is_time(piece->add_ns))
            return bad(node, "has a piece of no device, or without a time");
        if (piece->after > i)
            return bad(node, "has a piece that needs one before its first");
        if (piece->partial && (joined || piece->joins))
            return bad(node, "joins partial sums before they are all there");
        joined |= piece->joins;
    }
    return CLV_OK;
}

static clv_status check_node(const planner_solve_problem *p, uint32_t i)
{
    const planner_solve_node *node = &p->nodes[i];
    if (node->n_deps > PLANNER_SOLVE_DEPS)
        return bad(i, "has too many deps");
    for (uint32_t k = 0; k < node->n_deps; k++) {
        if (node->deps[k] >= i)
            return bad(i, "depends on one that is not before it");
        if (!is_time(node->read_bytes[k]) || !is_time(node->read_rows[k]))
            return bad(i, "reads elements of no size");
    }
    if (!is_time(node->element_bytes))
        return bad(i, "has elements of no size");
    if (!node->n_options || node->first_option > p->n_options ||
        node->n_options > p->n_options - node->first_option)
        return bad(i, "has no options");
    if (p->known && p->known[i] - node->first_option >= node->n_options)
        return bad(i, "is known to have an option of others");
    return CLV_OK;
}

static clv_status check_problem(const planner_solve_problem *p)
{
    clv_status status = check_devices(p);
    if (!status && !p->n_nodes)
        status = clv_error(CLV_ERR_INVALID, "the search's problem is empty");
    for (uint32_t i = 0; i < p->n_nodes && !status; i++)
        status = check_node(p, i);
    return status;
}

static clv_status check_class(const planner_solve_problem *p, uint32_t i,
                              uint32_t first)
{
    const planner_solve_node *node = &p->nodes[i], *other = &p->nodes[first];
    clv_status status = CLV_OK;
    if (node->n_options != other->n_options || node->n_deps != other->n_deps)
        return bad(i, "is not like the others of its class");
    if (i != first && node->first_option == other->first_option)
        return CLV_OK;
    for (uint32_t o = 0; o < node->n_options && !status; o++) {
        const planner_solve_option *option =
            &p->options[node->first_option + o];
        status = check_option(p, i, option);
        if (!status &&
            option->n_pieces != p->options[other->first_option + o].n_pieces)
            status = bad(i, "is not like the others of its class");
    }
    return status;
}

/* ------------------------------------------------------------------------ */
/* Boxes                                                                     */

static bool box_empty(const planner_box *box)
{
    return box->end[0] <= box->begin[0] || box->end[1] <= box->begin[1];
}

static bool box_equal(const planner_box *a, const planner_box *b)
{
    return !memcmp(a, b, sizeof *a);
}

static bool experts_overlap(const planner_box *a, const planner_box *b)
{
    return !a->last || !b->last || (a->first < b->last && b->first < a->last);
}

static bool boxes_overlap(const planner_box *a, const planner_box *b)
{
    return experts_overlap(a, b) && !box_empty(a) && !box_empty(b) &&
           a->begin[0] < b->end[0] && b->begin[0] < a->end[0] &&
           a->begin[1] < b->end[1] && b->begin[1] < a->end[1];
}

static bool same_elements(const planner_box *a, const planner_box *b)
{
    return !memcmp(a->begin, b->begin, sizeof a->begin) &&
           !memcmp(a->end, b->end, sizeof a->end);
}

/* Whether what is needed is one value, which a piece makes. */
static bool is_exact(const planner_box *need, const planner_box *out)
{
    return same_elements(need, out) &&
           (!out->last || (need->last && need->first >= out->first &&
                           need->last <= out->last));
}

static uint16_t box_index(planner_tables *t, planner_class *class, uint32_t dep,
                          const planner_box *box, uint32_t device)
{
    planner_need *boxes = t->boxes + class->first_box[dep];
    for (uint32_t i = 0; i < class->n_boxes[dep]; i++)
        if (boxes[i].device == device && box_equal(&boxes[i].box, box))
            return (uint16_t)i;
    boxes[class->n_boxes[dep]] = (planner_need){*box, device};
    return (uint16_t) class->n_boxes[dep]++;
}

/* ------------------------------------------------------------------------ */
/* Kinds                                                                     */

/* What another device needs for the same node: partial sums that it joins, and
 * copies of weights. */
static void mark_ends(planner_tables *t, const planner_parts *parts)
{
    planner_part_need *part = t->parts + parts->first;
    for (uint32_t i = 0; i < parts->n; i++)
        for (uint32_t k = 0; k < i; k++)
            part[k].ends |=
                part[k].device != part[i].device &&
                ((part[i].joins && part[k].partial) || part[i].after == i - k);
}

/* How several devices have part in the option. */
static void mark_shared(const planner_solve_piece *pieces, planner_parts *parts)
{
    double ns[PLANNER_SOLVE_DEVICES] = {0};
    for (uint32_t i = 0; i < parts->n; i++) {
        double *work = &ns[pieces[i].device];
        *work += pieces[i].joins ? 0 : pieces[i].ns;
        parts->longest_ns = fmax(parts->longest_ns, *work);
    }
    for (uint32_t i = 0; i < parts->n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const planner_solve_piece *a = &pieces[i], *b = &pieces[k];
            parts->shared |= a->device != b->device;
            parts->replicated |= !a->partial && !b->partial &&
                                 !box_empty(&a->out) &&
                                 box_equal(&a->out, &b->out);
        }
}

static void fill_class(planner_tables *t, planner_class *class)
{
    const planner_solve_problem *p = t->problem;
    const planner_solve_node *node = &p->nodes[class->node];
    class->first_parts = t->n_options;
    class->n_options = node->n_options;
    class->n_deps = node->n_deps;
    uint32_t n_pieces = 0;
    for (uint32_t o = 0; o < node->n_options; o++)
        n_pieces += p->options[node->first_option + o].n_pieces;
    for (uint32_t k = 0; k < node->n_deps; k++) {
        class->first_box[k] = t->n_boxes;
        t->n_boxes += n_pieces;
    }
    for (uint32_t o = 0; o < node->n_options; o++) {
        const planner_solve_option *option =
            &p->options[node->first_option + o];
        planner_parts *parts = &t->options[t->n_options++];
        *parts = (planner_parts){.first = t->n_parts, .n = option->n_pieces};
        mark_shared(&p->pieces[option->first_piece], parts);
        t->replicates |= parts->replicated;
        if (option->n_pieces > class->most_pieces)
            class->most_pieces = option->n_pieces;
        for (uint32_t i = 0; i < option->n_pieces; i++) {
            const planner_solve_piece *piece =
                &p->pieces[option->first_piece + i];
            planner_part_need *part = &t->parts[t->n_parts++];
            *part = (planner_part_need){
                .ns = piece->ns,
                .weight_bytes = (double)piece->weight_bytes,
                .ring_bytes = p->devices[piece->device].ring
                                  ? (double)piece->ring_bytes
                                  : 0,
                .device = piece->device,
                .partial = piece->partial,
                .joins = piece->joins,
                .after = piece->after};
            class->adds |= piece->add_ns > 0;
            parts->energy_ns +=
                piece->energy_nj * p->energy_ns + piece->extra_ns;
            for (uint32_t k = 0; k < node->n_deps; k++)
                part->boxes[k] =
                    box_index(t, class, k, &piece->needs[k], piece->device);
        }
        mark_ends(t, parts);
    }
}

/* Gives every node its class; counts what classes hold. */
static clv_status find_classes(planner_tables *t, size_t *n_options,
                               size_t *n_pieces, size_t *n_boxes)
{
    const planner_solve_problem *p = t->problem;
    *n_options = *n_pieces = *n_boxes = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t k = 0;
        while (k < t->n_classes &&
               p->nodes[t->classes[k].node].class != p->nodes[i].class)
            k++;
        if (k == t->n_classes)
            t->classes[t->n_classes++].node = i;
        t->nodes[i].class = k;
        clv_status status = check_class(p, i, t->classes[k].node);
        if (status)
            return status;
        if (t->classes[k].node != i)
            continue;
        *n_options += p->nodes[i].n_options;
        for (uint32_t o = 0; o < p->nodes[i].n_options; o++) {
            uint32_t n = p->options[p->nodes[i].first_option + o].n_pieces;
            *n_pieces += n;
            *n_boxes += (size_t)n * p->nodes[i].n_deps;
        }
    }
    /* Boxes are counted in 16 bits. */
    return *n_pieces > UINT16_MAX ? clv_error(CLV_ERR_LIMIT,
                                              "the search takes %d different "
                                              "pieces at most, not %zu",
                                              UINT16_MAX, *n_pieces)
                                  : CLV_OK;
}

static clv_status make_classes(planner_tables *t)
{
    size_t n_options, n_pieces, n_boxes;
    clv_status status = find_classes(t, &n_options, &n_pieces, &n_boxes);
    if (status)
        return status;
    t->options = calloc(n_options, sizeof *t->options);
    t->parts = calloc(n_pieces, sizeof *t->parts);
    t->boxes = calloc(n_boxes + 1, sizeof *t->boxes);
    if (!t->options || !t->parts || !t->boxes)
        return core_no_memory("to search for a plan");
    for (uint32_t k = 0; k < t->n_classes; k++)
        fill_class(t, &t->classes[k]);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Who needs what                                                            */

/* Whether the device has piece i of n, or no replica of it, nor is there an
 * earlier one. */
static bool is_read(const planner_solve_piece *pieces, uint32_t n, uint32_t i,
                    uint32_t device)
{
    for (uint32_t j = 0; j < n && pieces[i].device != device; j++)
        if (j != i && !pieces[j].partial &&
            box_equal(&pieces[j].out, &pieces[i].out) &&
            (j < i || pieces[j].device == device))
            return false;
    return true;
}

static planner_overlap overlap_of(const planner_solve_problem *p,
                                  const planner_need *need,
                                  const planner_solve_option *option)
{
    planner_overlap out = {0};
    const planner_solve_piece *pieces = &p->pieces[option->first_piece];
    for (uint32_t i = 0; i < option->n_pieces; i++) {
        const planner_solve_piece *piece = &pieces[i];
        if (piece->partial || !boxes_overlap(&need->box, &piece->out) ||
            !is_read(pieces, option->n_pieces, i, need->device))
            continue;
        for (uint32_t j = 0; j < i && piece->out.last; j++)
            if (out.some >> j & 1 &&
                same_elements(&piece->out, &pieces[j].out)) {
                out.add_ns += piece->add_ns;
                break;
            }
        out.some |= 1u << i;
        if (is_exact(&need->box, &piece->out))
            out.exact |= 1u << i;
    }
    return out;
}

static const planner_overlap *make_table(planner_tables *t, uint32_t class,
                                         uint32_t dep, uint32_t of)
{
    const planner_solve_problem *p = t->problem;
    const planner_class *by = &t->classes[class], *from = &t->classes[of];
    for (uint32_t i = 0; i < t->n_tables; i++)
        if (t->tables[i].class == class && t->tables[i].dep == dep &&
            t->tables[i].of == of)
            return t->tables[i].overlaps;
    planner_table *table = &t->tables[t->n_tables];
    *table = (planner_table){class, dep, of, NULL};
    table->overlaps = calloc((size_t)by->n_boxes[dep] * from->n_options,
                             sizeof *table->overlaps);
    if (!table->overlaps)
        return NULL;
    t->n_tables++;
    uint32_t first = p->nodes[from->node].first_option;
    for (uint32_t b = 0; b < by->n_boxes[dep]; b++)
        for (uint32_t o = 0; o < from->n_options; o++)
            table->overlaps[b * from->n_options + o] = overlap_of(
                p, &t->boxes[by->first_box[dep] + b], &p->options[first + o]);
    return table->overlaps;
}

static clv_status link_nodes(planner_tables *t)
{
    const planner_solve_problem *p = t->problem;
    size_t n_deps = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        n_deps += p->nodes[i].n_deps;
    t->tables = calloc(n_deps + 1, sizeof *t->tables);
    t->consumers = calloc(n_deps + 1, sizeof *t->consumers);
    if (!t->tables || !t->consumers)
        return core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        planner_step_node *node = &t->nodes[i];
        node->n_deps = p->nodes[i].n_deps;
        for (uint32_t k = 0; k < node->n_deps; k++) {
            uint32_t dep = node->deps[k] = p->nodes[i].deps[k];
            node->dep_options[k] = p->nodes[dep].n_options;
            node->adds |= t->classes[t->nodes[dep].class].adds;
            node->overlaps[k] =
                make_table(t, node->class, k, t->nodes[dep].class);
            if (!node->overlaps[k])
                return core_no_memory("to search for a plan");
            t->nodes[dep].n_consumers++;
        }
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        t->nodes[i].first_consumer = first;
        first += t->nodes[i].n_consumers;
        t->nodes[i].n_consumers = 0;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < t->nodes[i].n_deps; k++) {
            planner_step_node *dep = &t->nodes[t->nodes[i].deps[k]];
            t->consumers[dep->first_consumer + dep->n_consumers++] =
                (planner_consumer){i, k};
        }
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Lives                                                                     */

static uint32_t last_use(const planner_tables *t, uint32_t node)
{
    const planner_step_node *n = &t->nodes[node];
    return n->n_consumers
               ? t->consumers[n->first_consumer + n->n_consumers - 1].node
               : node;
}

/* live: [n_nodes] scratch, the live nodes in order. */
static void find_lives(planner_tables *t, uint32_t *live)
{
    uint32_t n_live = 0, n_slots = 0, n_retired = 0;
    for (uint32_t i = 0; i < t->problem->n_nodes; i++) {
        planner_step_node *node = &t->nodes[i];
        node->n_live = n_live;
        for (uint32_t k = 0; k < node->n_deps; k++)
            for (uint32_t l = 0; l < n_live; l++)
                if (live[l] == node->deps[k])
                    node->live[k] = l;
        live[n_live++] = i;
        n_slots += t->classes[node->class].most_pieces;
        if (n_live > t->most_live)
            t->most_live = n_live;
        if (n_slots > t->most_slots)
            t->most_slots = n_slots;
        node->first_retired = n_retired;
        for (uint32_t l = n_live; l-- > 0;) {
            if (last_use(t, live[l]) != i)
                continue;
            n_slots -= t->classes[t->nodes[live[l]].class].most_pieces;
            memmove(live + l, live + l + 1, (n_live - l - 1) * sizeof *live);
            n_live--;
            t->retired[n_retired++] = l;
        }
        node->n_retired = n_retired - node->first_retired;
    }
}

/* Whether a piece needs something, whatever its deps' options. */
static bool needs_something(const planner_step_node *node,
                            const planner_part_need *part)
{
    for (uint32_t k = 0; k < node->n_deps; k++) {
        uint32_t o = 0;
        while (o < node->dep_options[k] &&
               planner_tables_overlap(node, part, k, o)->some)
            o++;
        if (o == node->dep_options[k])
            return true;
    }
    return part->joins || part->after;
}

static void find_roots(planner_tables *t)
{
    bool rooted = true;
    for (uint32_t i = t->problem->n_nodes; i-- > 0;) {
        planner_step_node *node = &t->nodes[i];
        const planner_class *class = &t->classes[node->class];
        for (uint32_t o = 0; o < class->n_options && rooted; o++) {
            const planner_parts *parts = planner_tables_parts(t, i, o);
            for (uint32_t k = 0; k < parts->n; k++)
                rooted &= needs_something(node, &t->parts[parts->first + k]);
        }
        node->rooted = rooted;
    }
}

static clv_status make_lives(planner_tables *t)
{
    uint32_t *live = calloc(t->problem->n_nodes, sizeof *live);
    t->retired = calloc(t->problem->n_nodes, sizeof *t->retired);
    if (live && t->retired) {
        find_lives(t, live);
        find_roots(t);
    }
    free(live);
    if (!live || !t->retired)
        return core_no_memory("to search for a plan");
    return t->most_slots > UINT16_MAX - 1
               ? clv_error(CLV_ERR_LIMIT,
                           "the search takes %d results that "
                           "live together at most, not %u",
                           UINT16_MAX - 1, t->most_slots)
               : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Layouts                                                                   */

/* Where parts may be copied, their size matters too. */
static uint64_t mix_sizes(const planner_tables *t, uint32_t node,
                          uint32_t option, uint64_t hash)
{
    const planner_solve_node *n = &t->problem->nodes[node];
    const planner_solve_option *o =
        &t->problem->options[n->first_option + option];
    for (uint32_t i = 0; i < o->n_pieces && n->element_bytes > 0; i++) {
        const planner_box *box = &t->problem->pieces[o->first_piece + i].out;
        hash = core_hash_mix(hash, (uint64_t)(box->end[0] - box->begin[0]));
        hash = core_hash_mix(hash, (uint64_t)(box->end[1] - box->begin[1]));
    }
    return hash;
}

static uint64_t layout_of(const planner_tables *t, uint32_t node,
                          uint32_t option)
{
    const planner_step_node *n = &t->nodes[node];
    const planner_parts *parts = planner_tables_parts(t, node, option);
    uint64_t layout = parts->n;
    for (uint32_t i = 0; i < parts->n; i++)
        layout = core_hash_mix(layout, t->parts[parts->first + i].device);
    layout = mix_sizes(t, node, option, layout);
    for (uint32_t c = 0; c < n->n_consumers; c++) {
        const planner_consumer *consumer = &t->consumers[n->first_consumer + c];
        const planner_step_node *by = &t->nodes[consumer->node];
        uint32_t n_options = by->dep_options[consumer->dep];
        const planner_overlap *overlaps = by->overlaps[consumer->dep];
        for (uint32_t b = 0; b < t->classes[by->class].n_boxes[consumer->dep];
             b++) {
            planner_overlap o = overlaps[b * n_options + option];
            layout = core_hash_mix(layout, (uint64_t)o.some << 32 | o.exact);
        }
    }
    return layout;
}

/* Whether consumers are alike, relative to the nodes. */
static bool same_use(const planner_tables *t, uint32_t a, uint32_t b)
{
    const planner_step_node *x = &t->nodes[a], *y = &t->nodes[b];
    if (x->class != y->class || x->n_consumers != y->n_consumers)
        return false;
    for (uint32_t i = 0; i < x->n_consumers; i++) {
        const planner_consumer *c = &t->consumers[x->first_consumer + i];
        const planner_consumer *d = &t->consumers[y->first_consumer + i];
        if (c->dep != d->dep ||
            t->nodes[c->node].class != t->nodes[d->node].class)
            return false;
    }
    return true;
}

static clv_status make_layouts(planner_tables *t)
{
    uint32_t n = t->problem->n_nodes;
    uint32_t *first = calloc(n, sizeof *first); /* nodes that have their own */
    size_t n_layouts = 0;
    uint32_t n_first = 0;
    if (!first)
        return core_no_memory("to search for a plan");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < n_first && !same_use(t, first[j], i))
            j++;
        if (j < n_first) {
            t->nodes[i].first_layout = t->nodes[first[j]].first_layout;
            continue;
        }
        first[n_first++] = i;
        t->nodes[i].first_layout = (uint32_t)n_layouts;
        n_layouts += t->classes[t->nodes[i].class].n_options;
    }
    t->layouts = calloc(n_layouts, sizeof *t->layouts);
    for (uint32_t j = 0; t->layouts && j < n_first; j++) {
        const planner_step_node *node = &t->nodes[first[j]];
        for (uint32_t o = 0; o < t->classes[node->class].n_options; o++)
            t->layouts[node->first_layout + o] = layout_of(t, first[j], o);
    }
    free(first);
    return t->layouts ? CLV_OK : core_no_memory("to search for a plan");
}

/* ------------------------------------------------------------------------ */

clv_status planner_tables_make(const planner_solve_problem *problem,
                               planner_tables *out)
{
    *out = (planner_tables){.problem = problem};
    clv_status status = check_problem(problem);
    if (status)
        return status;
    out->classes = calloc(problem->n_nodes, sizeof *out->classes);
    out->nodes = calloc(problem->n_nodes, sizeof *out->nodes);
    status = out->classes && out->nodes
                 ? CLV_OK
                 : core_no_memory("to search for a plan");
    if (!status)
        status = make_classes(out);
    if (!status)
        status = link_nodes(out);
    if (!status)
        status = make_lives(out);
    if (!status)
        status = make_layouts(out);
    if (status)
        planner_tables_finish(out);
    return status;
}

void planner_tables_finish(planner_tables *t)
{
    for (uint32_t i = 0; i < t->n_tables; i++)
        free(t->tables[i].overlaps);
    free(t->tables);
    free(t->classes);
    free(t->options);
    free(t->parts);
    free(t->boxes);
    free(t->layouts);
    free(t->consumers);
    free(t->nodes);
    free(t->retired);
    *t = (planner_tables){0};
}
