#include "bars.h"

#include <cleave/plugin_op.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *colour, *ink;
} kinds[VIEW_BAR_KINDS] = {
    [VIEW_BAR_MATMUL] = {"matmul", "#2f6db5", "#ffffff"},
    [VIEW_BAR_ATTENTION] = {"attention", "#e08a1e", "#22262d"},
    [VIEW_BAR_NORM] = {"norm", "#3f9c6b", "#ffffff"},
    [VIEW_BAR_ROPE] = {"rope, softmax", "#b565a7", "#ffffff"},
    [VIEW_BAR_ELEMENTWISE] = {"elementwise", "#8cc9e6", "#22262d"},
    [VIEW_BAR_ROWS] = {"rows, conversion", "#d9c24a", "#22262d"},
    [VIEW_BAR_JOIN] = {"joining of sums", "#d4573f", "#ffffff"},
    [VIEW_BAR_DISPATCH] = {"dispatch", "#b9bec9", "#22262d"},
    [VIEW_BAR_SUBMIT] = {"submit", "#4a505c", "#ffffff"},
    [VIEW_BAR_HOST_WAIT] = {"host waits", "#ecd3ce", "#22262d"},
};

const char *view_bar_name(uint32_t kind)
{
    return kinds[kind].name;
}

const char *view_bar_colour(uint32_t kind)
{
    return kinds[kind].colour;
}

double view_panel_x(const view_panel *panel, double ns)
{
    return panel->x +
           panel->width * (ns - panel->from) / (panel->to - panel->from);
}

double view_panel_lane(const view_panel *panel, uint32_t lane)
{
    return panel->y + lane * (panel->row + VIEW_ROW_GAP);
}

/* ------------------------------------------------------------------------ */
/* What is drawn                                                             */

/* The longest block that repeats; the middle one of its layers is drawn. */
static clv_status find_layers(view_drawing *d)
{
    view_fold *folds;
    uint32_t n;
    CLV_TRY(view_folds_of_nodes(d->plan, &folds, &n));
    d->fold = (view_fold){0, 0, 1};
    for (uint32_t i = 0; i < n; i++)
        if (folds[i].count > 1 &&
            folds[i].period * folds[i].count > d->fold.period * d->fold.count)
            d->fold = folds[i];
    d->shown = d->fold.count / 2;
    free(folds);
    return CLV_OK;
}

clv_status view_drawing_begin(view_drawing *d)
{
    const view_plan_data *plan = d->plan;
    uint32_t at = 0;
    d->lane = calloc(plan->n_devices + 1u, sizeof *d->lane);
    d->first = calloc(plan->n_devices + 1u, sizeof *d->first);
    d->order = calloc(plan->n_steps + 1u, sizeof *d->order);
    if (!d->lane || !d->first || !d->order)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to draw a plan");
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        d->lane[i] = plan->devices[i].n_steps ? d->n_lanes++ : VIEW_NONE;
        d->first[i] = at;
        at += plan->devices[i].n_steps;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++)
        d->order[d->first[plan->steps[s].device] + plan->steps[s].signal - 1] =
            s;
    return find_layers(d);
}

void view_drawing_finish(view_drawing *d)
{
    free(d->lane);
    free(d->first);
    free(d->order);
}

void view_drawing_window(const view_drawing *d, view_panel *panel)
{
    const uint32_t first = d->fold.first + d->fold.period * d->shown;
    double from = INFINITY, to = 0;
    for (uint32_t i = 0; i < d->plan->n_nodes; i++) {
        const view_node *node = &d->plan->nodes[i];
        if (node->source < first || node->source >= first + d->fold.period)
            continue;
        from = fmin(from, node->runs.begin);
        to = fmax(to, node->runs.end);
    }
    double margin = (to - from) * 0.03;
    panel->from = fmax(0, from - margin);
    panel->to = fmin(d->plan->makespan_ns, to + margin);
    if (!(panel->to > panel->from)) {
        panel->from = 0;
        panel->to = d->plan->makespan_ns;
    }
}

/* ------------------------------------------------------------------------ */
/* Bars                                                                      */

typedef struct bar {
    double x1, x2;
    uint32_t kind;
} bar;

/* Whether a span is seen, and where. */
static bool clip(const view_panel *panel, view_span span, uint32_t kind,
                 bar *out)
{
    double from = fmax(span.begin, panel->from);
    double to = fmin(span.end, panel->to);
    *out = (bar){view_panel_x(panel, from), view_panel_x(panel, to), kind};
    return to > from;
}

/* In the small panel bars of one colour that touch become one, and one that is
 * too short to be seen is left to the one before. */
static void add_small(view_drawing *d, double y, double height, bar *open,
                      const bar *next)
{
    bool drawn = open->x2 > open->x1;
    if (next && drawn && next->x1 - open->x2 < 0.4 &&
        (next->kind == open->kind || next->x2 - next->x1 < 0.3)) {
        open->x2 = next->x2;
        return;
    }
    if (drawn) {
        d->present[open->kind] = true;
        svg_rect(d->out, open->x1, y, fmax(0.3, open->x2 - open->x1), height,
                 (svg_look){.fill = kinds[open->kind].colour}, NULL);
    }
    if (next)
        *open = *next;
}

static uint32_t kind_of(const view_node *node)
{
    switch (clv_op_class_of(clv_op_named(node->op))) {
    case CLV_CLASS_MATMUL:
    case CLV_CLASS_EXPERTS:
        return VIEW_BAR_MATMUL;
    case CLV_CLASS_ATTENTION:
        return VIEW_BAR_ATTENTION;
    case CLV_CLASS_NORM:
    case CLV_CLASS_HEAD_NORM:
        return VIEW_BAR_NORM;
    case CLV_CLASS_ROPE:
    case CLV_CLASS_SOFTMAX:
    case CLV_CLASS_SELECT:
        return VIEW_BAR_ROPE;
    case CLV_CLASS_GET_ROWS:
    case CLV_CLASS_SET_ROWS:
    case CLV_CLASS_CONVERT:
    case CLV_CLASS_NONE: /* "copy" */
        return VIEW_BAR_ROWS;
    }
    return node->piece == VIEW_NONE ? VIEW_BAR_JOIN : VIEW_BAR_ELEMENTWISE;
}

#define TIP_TEXT 512

/* ": 1.250 ms, from 3.000 to 4.250 ms" at the end of a tip. */
static void add_time(char tip[TIP_TEXT], view_span span)
{
    const size_t used = strlen(tip);
    snprintf(tip + used, TIP_TEXT - used, ": %.3f ms, from %.3f to %.3f ms",
             (span.end - span.begin) / 1e6, span.begin / 1e6, span.end / 1e6);
}

static void part_tip(const view_drawing *d, uint32_t node, char tip[TIP_TEXT])
{
    const view_node *n = &d->plan->nodes[node];
    char op[96], ranges[VIEW_RANGES_TEXT];
    view_node_text(d->plan, node, op, sizeof op);
    snprintf(tip, TIP_TEXT, "%s%s on %s", op,
             view_ranges_text(d->plan, node, ranges),
             d->plan->devices[n->device].id);
    add_time(tip, n->runs);
    const size_t used = strlen(tip);
    snprintf(tip + used, TIP_TEXT - used, " (alone %.3f ms), step %u",
             n->alone_ns / 1e6, n->step);
}

/* "matmul blk.3.ffn_up.weight" -> "ffn_up"; "attention k.3" -> "attention" */
static void short_name(const view_drawing *d, uint32_t node, char *out,
                       size_t size)
{
    char text[96];
    view_node_text(d->plan, node, text, sizeof text);
    char *name = strchr(text, ' '), *end = name ? strrchr(name, '.') : NULL;
    if (name)
        *name++ = 0;
    if (!end || (end[1] >= '0' && end[1] <= '9')) {
        snprintf(out, size, "%s", text);
        return;
    }
    *end = 0;
    const char *dot = strrchr(name, '.');
    snprintf(out, size, "%s", dot ? dot + 1 : name);
}

static void label_bar(const view_drawing *d, const view_panel *panel, double y,
                      const bar *b, uint32_t node)
{
    const char *ink = kinds[b->kind].ink;
    char name[96], ranges[VIEW_RANGES_TEXT];
    const double width = b->x2 - b->x1 - 6, middle = (b->x1 + b->x2) / 2;
    short_name(d, node, name, sizeof name);
    if (svg_text_width(strlen(name), 11) > width)
        return;
    view_ranges_text(d->plan, node, ranges);
    const bool second =
        *ranges && svg_text_width(strlen(ranges + 2), 10) <= width;
    svg_text(d->out, middle, y + panel->row / 2 + (second ? -3 : 4), 11,
             SVG_MIDDLE, ink, name);
    if (second)
        svg_text(d->out, middle, y + panel->row / 2 + 12, 10, SVG_MIDDLE, ink,
                 ranges + 2);
}

static void draw_part(view_drawing *d, const view_panel *panel, double y,
                      uint32_t node)
{
    char tip[TIP_TEXT];
    bar b;
    if (!clip(panel, d->plan->nodes[node].runs, kind_of(&d->plan->nodes[node]),
              &b))
        return;
    part_tip(d, node, tip);
    d->present[b.kind] = true;
    svg_rect(d->out, b.x1, y, b.x2 - b.x1, panel->row,
             (svg_look){.fill = kinds[b.kind].colour,
                        .stroke = b.x2 - b.x1 > 3 ? "#ffffff" : NULL},
             tip);
    label_bar(d, panel, y, &b, node);
}

/* Before the step's first part. */
static view_span dispatch_of(const view_drawing *d, const view_step *step)
{
    return (view_span){
        step->runs.begin,
        d->plan->nodes[d->plan->parts[step->first_part]].runs.begin};
}

static void draw_step(view_drawing *d, const view_panel *panel, double y,
                      const view_step *step, bar *open)
{
    bar b;
    if (clip(panel, dispatch_of(d, step), VIEW_BAR_DISPATCH, &b)) {
        if (panel->tips) {
            d->present[VIEW_BAR_DISPATCH] = true;
            svg_rect(d->out, b.x1, y, b.x2 - b.x1, panel->row,
                     (svg_look){.fill = kinds[b.kind].colour}, NULL);
        } else {
            add_small(d, y, panel->row, open, &b);
        }
    }
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const uint32_t node = d->plan->parts[step->first_part + i];
        if (panel->tips)
            draw_part(d, panel, y, node);
        else if (clip(panel, d->plan->nodes[node].runs,
                      kind_of(&d->plan->nodes[node]), &b))
            add_small(d, y, panel->row, open, &b);
    }
}

void view_draw_bars(view_drawing *d, const view_panel *panel)
{
    for (uint32_t i = 0; i < d->plan->n_devices; i++) {
        bar open = {0};
        if (d->lane[i] == VIEW_NONE)
            continue;
        double y = view_panel_lane(panel, d->lane[i]);
        for (uint32_t k = 0; k < d->plan->devices[i].n_steps; k++)
            draw_step(d, panel, y, &d->plan->steps[d->order[d->first[i] + k]],
                      &open);
        add_small(d, y, panel->row, &open, NULL);
    }
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

static void host_bar(view_drawing *d, const view_panel *panel, view_span span,
                     uint32_t kind, uint32_t step, bar *open)
{
    const double y = view_panel_lane(panel, d->n_lanes);
    char tip[TIP_TEXT] = "waits for the end";
    bar b;
    if (!clip(panel, span, kind, &b))
        return;
    if (!panel->tips) {
        add_small(d, y, VIEW_HOST_ROW, open, &b);
        return;
    }
    if (step != VIEW_NONE)
        snprintf(tip, sizeof tip,
                 kind == VIEW_BAR_SUBMIT ? "submits step %u to %s"
                                         : "waits before step %u on %s",
                 step, d->plan->devices[d->plan->steps[step].device].id);
    add_time(tip, span);
    d->present[kind] = true;
    svg_rect(d->out, b.x1, y, b.x2 - b.x1, VIEW_HOST_ROW,
             (svg_look){.fill = kinds[kind].colour}, tip);
}

void view_draw_host(view_drawing *d, const view_panel *panel)
{
    bar open = {0};
    for (uint32_t s = 0; s < d->plan->n_steps; s++) {
        host_bar(d, panel, d->plan->steps[s].host_wait, VIEW_BAR_HOST_WAIT, s,
                 &open);
        host_bar(d, panel, d->plan->steps[s].submit, VIEW_BAR_SUBMIT, s, &open);
    }
    host_bar(d, panel, d->plan->last_wait, VIEW_BAR_HOST_WAIT, VIEW_NONE,
             &open);
    add_small(d, view_panel_lane(panel, d->n_lanes), VIEW_HOST_ROW, &open,
              NULL);
}

/* ------------------------------------------------------------------------ */
/* Waits                                                                     */

/* From the end of the step that is waited for to the begin of the one that
 * waits. */
void view_draw_waits(const view_drawing *d, const view_panel *panel)
{
    const view_plan_data *plan = d->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const view_step *step = &plan->steps[s];
        const double to = step->runs.begin;
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const view_wait *wait = &step->waits[i];
            const double from = plan->steps[wait->step].runs.end;
            const uint32_t a = d->lane[wait->device], b = d->lane[step->device];
            if (from < panel->from || to > panel->to)
                continue;
            svg_line(d->out, view_panel_x(panel, from),
                     view_panel_lane(panel, a) + (a < b ? panel->row : 0),
                     view_panel_x(panel, to),
                     view_panel_lane(panel, b) + (a < b ? 0 : panel->row),
                     (svg_look){.stroke = VIEW_WAIT_COLOUR, .dashed = true});
        }
    }
}
