/* What happens in a stretch of time: work, submits, waits. */
#include "plan_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shorter layers are drawn in the whole run only. */
#define MIN_PERIOD 3

static const struct {
    const char *name, *colour, *ink;
} kinds[CORE_BAR_KINDS] = {
    [CORE_BAR_MATMUL] = {"matmul", "#2f6db5", "#ffffff"},
    [CORE_BAR_ATTENTION] = {"attention", "#e08a1e", "#22262d"},
    [CORE_BAR_NORM] = {"norm", "#3f9c6b", "#ffffff"},
    [CORE_BAR_ROPE] = {"rope, softmax", "#b565a7", "#ffffff"},
    [CORE_BAR_ELEMENTWISE] = {"elementwise", "#8cc9e6", "#22262d"},
    [CORE_BAR_ROWS] = {"rows, conversion", "#d9c24a", "#22262d"},
    [CORE_BAR_JOIN] = {"joining of sums", "#d4573f", "#ffffff"},
    [CORE_BAR_DISPATCH] = {"dispatch", "#b9bec9", "#22262d"},
    [CORE_BAR_SUBMIT] = {"submit", "#4a505c", "#ffffff"},
    [CORE_BAR_HOST_WAIT] = {"host waits", "#ecd3ce", "#22262d"},
};

const char *core_bar_name(uint32_t kind)
{
    return kinds[kind].name;
}

const char *core_bar_colour(uint32_t kind)
{
    return kinds[kind].colour;
}

double core_panel_x(const core_panel *panel, double ns)
{
    return panel->x +
           panel->width * (ns - panel->from) / (panel->to - panel->from);
}

double core_panel_lane(const core_panel *panel, uint32_t lane)
{
    return panel->y + lane * (panel->row + CORE_ROW_GAP);
}

/* ------------------------------------------------------------------------ */
/* What is drawn                                                             */

/* The stretch that repeats and is longest; the middle one of its layers is
 * drawn. */
static clv_status find_layers(core_drawing *d)
{
    uint64_t *signs = core_plan_node_signs(d->plan);
    core_fold *folds = NULL;
    uint32_t n = 0;
    clv_status status =
        signs ? core_folds_find(signs, d->plan->source->n_nodes, MIN_PERIOD,
                                &folds, &n)
              : clv_error(CLV_ERR_NO_MEMORY, "no memory to draw a plan");
    d->fold = (core_fold){0, 0, 1};
    for (uint32_t i = 0; i < n; i++)
        if (folds[i].count > 1 &&
            folds[i].period * folds[i].count > d->fold.period * d->fold.count)
            d->fold = folds[i];
    d->shown = d->fold.count / 2;
    free(folds);
    free(signs);
    return status;
}

clv_status core_drawing_begin(core_drawing *d)
{
    const clv_plan *plan = d->plan;
    uint32_t at = 0;
    d->lane = calloc(plan->n_devices + 1u, sizeof *d->lane);
    d->first = calloc(plan->n_devices + 1u, sizeof *d->first);
    d->order = calloc(plan->n_steps + 1u, sizeof *d->order);
    if (!d->lane || !d->first || !d->order)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to draw a plan");
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        d->lane[i] = plan->devices[i].n_steps ? d->n_lanes++ : CORE_NO_LANE;
        d->first[i] = at;
        at += plan->devices[i].n_steps;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++)
        d->order[d->first[plan->steps[s].device] + plan->steps[s].signal - 1] =
            s;
    return find_layers(d);
}

void core_drawing_finish(core_drawing *d)
{
    free(d->lane);
    free(d->first);
    free(d->order);
}

void core_drawing_window(const core_drawing *d, core_panel *panel)
{
    const uint32_t first = d->fold.first + d->fold.period * d->shown;
    double from = INFINITY, to = 0;
    for (uint32_t i = 0; i < d->plan->n_parts; i++) {
        uint32_t source = core_plan_source_of(d->plan, d->plan->parts[i].node);
        if (source < first || source >= first + d->fold.period)
            continue;
        from = fmin(from, d->forecast->parts[i].begin_ns);
        to = fmax(to, d->forecast->parts[i].end_ns);
    }
    double margin = (to - from) * 0.03;
    panel->from = fmax(0, from - margin);
    panel->to = fmin(d->forecast->makespan_ns, to + margin);
    if (!(panel->to > panel->from)) {
        panel->from = 0;
        panel->to = d->forecast->makespan_ns;
    }
}

/* ------------------------------------------------------------------------ */
/* Bars                                                                      */

typedef struct bar {
    double x1, x2;
    uint32_t kind;
} bar;

/* Whether a span is seen, and where. */
static bool clip(const core_panel *panel, core_span span, uint32_t kind,
                 bar *out)
{
    double from = fmax(span.begin_ns, panel->from);
    double to = fmin(span.end_ns, panel->to);
    *out = (bar){core_panel_x(panel, from), core_panel_x(panel, to), kind};
    return to > from;
}

/* In the small panel bars of one colour that touch become one, and one that is
 * too short to be seen is left to the one before. */
static void add_small(core_drawing *d, double y, double height, bar *open,
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
        core_svg_rect(d->text, open->x1, y, fmax(0.3, open->x2 - open->x1),
                      height, (svg_look){.fill = kinds[open->kind].colour},
                      NULL);
    }
    if (next)
        *open = *next;
}

static uint32_t kind_of(const clv_plan *plan, uint32_t node)
{
    if (plan->graph->nodes[node].op == CORE_OP_COPY)
        return CORE_BAR_ROWS;
    if (!core_plan_piece_of(plan, node))
        return CORE_BAR_JOIN;
    switch (plan->graph->nodes[node].op) {
    case CLV_OP_MATMUL:
    case CLV_OP_MATMUL_EXPERTS:
        return CORE_BAR_MATMUL;
    case CLV_OP_ATTENTION:
        return CORE_BAR_ATTENTION;
    case CLV_OP_RMS_NORM:
    case CLV_OP_LAYER_NORM:
        return CORE_BAR_NORM;
    case CLV_OP_ROPE:
    case CLV_OP_SOFTMAX:
    case CLV_OP_TOP_K:
        return CORE_BAR_ROPE;
    case CLV_OP_GET_ROWS:
    case CLV_OP_SET_ROWS:
    case CLV_OP_CONVERT:
        return CORE_BAR_ROWS;
    default:
        return CORE_BAR_ELEMENTWISE;
    }
}

static void add_time(core_text *tip, core_span span)
{
    core_text_add(tip, ": ");
    core_plan_add_ms(tip, span.end_ns - span.begin_ns);
    core_text_add(tip, " ms, from ");
    core_plan_add_ms(tip, span.begin_ns);
    core_text_add(tip, " to ");
    core_plan_add_ms(tip, span.end_ns);
    core_text_add(tip, " ms");
}

static void part_tip(const core_drawing *d, uint32_t p, core_text *tip)
{
    const core_part *part = &d->plan->parts[p];
    const core_piece *piece = core_plan_piece_of(d->plan, part->node);
    char op[96];
    core_plan_node_text(d->plan, part->node, op, sizeof op);
    core_text_add(tip, "%s", op);
    if (piece)
        core_plan_add_ranges(tip, piece);
    core_text_add(tip, " on %s", core_plan_device_id(d->plan, part->device));
    add_time(tip, d->forecast->parts[p]);
    core_text_add(tip, " (alone ");
    core_plan_add_ms(tip, d->forecast->costs_ns[p]);
    core_text_add(tip, " ms), step %u", part->step);
}

/* "matmul blk.3.ffn_up.weight" -> "ffn_up"; "attention k.3" -> "attention" */
static void short_name(const core_drawing *d, uint32_t node, char *out,
                       size_t size)
{
    char text[96];
    core_plan_node_text(d->plan, node, text, sizeof text);
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

static void label_bar(const core_drawing *d, const core_panel *panel, double y,
                      const bar *b, uint32_t node)
{
    const core_piece *piece = core_plan_piece_of(d->plan, node);
    const char *ink = kinds[b->kind].ink;
    core_text ranges = {0};
    char name[96];
    double room = b->x2 - b->x1 - 6, middle = (b->x1 + b->x2) / 2;
    short_name(d, node, name, sizeof name);
    if (core_svg_text_width(strlen(name), 11) > room)
        return;
    if (piece)
        core_plan_add_ranges(&ranges, piece);
    bool second =
        ranges.size > 2 && core_svg_text_width(ranges.size - 2, 10) <= room;
    core_svg_text(d->text, middle, y + panel->row / 2 + (second ? -3 : 4), 11,
                  SVG_MIDDLE, ink, name);
    if (second)
        core_svg_text(d->text, middle, y + panel->row / 2 + 12, 10, SVG_MIDDLE,
                      ink, ranges.data + 2);
    d->text->failed |= ranges.failed;
    core_text_finish(&ranges);
}

static void draw_part(core_drawing *d, const core_panel *panel, double y,
                      uint32_t p)
{
    const uint32_t node = d->plan->parts[p].node;
    core_text tip = {0};
    bar b;
    if (!clip(panel, d->forecast->parts[p], kind_of(d->plan, node), &b))
        return;
    part_tip(d, p, &tip);
    d->present[b.kind] = true;
    if (!tip.failed)
        core_svg_rect(d->text, b.x1, y, b.x2 - b.x1, panel->row,
                      (svg_look){.fill = kinds[b.kind].colour,
                                 .stroke = b.x2 - b.x1 > 3 ? "#ffffff" : NULL},
                      tip.data);
    d->text->failed |= tip.failed;
    core_text_finish(&tip);
    label_bar(d, panel, y, &b, node);
}

/* Before the step's first part. */
static core_span dispatch_of(const core_drawing *d, uint32_t s)
{
    return (core_span){
        d->forecast->steps[s].begin_ns,
        d->forecast->parts[d->plan->steps[s].first_part].begin_ns};
}

static void draw_step(core_drawing *d, const core_panel *panel, double y,
                      uint32_t s, bar *open)
{
    const core_step *step = &d->plan->steps[s];
    bar b;
    if (clip(panel, dispatch_of(d, s), CORE_BAR_DISPATCH, &b)) {
        if (panel->tips) {
            d->present[CORE_BAR_DISPATCH] = true;
            core_svg_rect(d->text, b.x1, y, b.x2 - b.x1, panel->row,
                          (svg_look){.fill = kinds[b.kind].colour}, NULL);
        } else {
            add_small(d, y, panel->row, open, &b);
        }
    }
    for (uint32_t i = 0; i < step->n_parts; i++) {
        const uint32_t p = step->first_part + i;
        if (panel->tips)
            draw_part(d, panel, y, p);
        else if (clip(panel, d->forecast->parts[p],
                      kind_of(d->plan, d->plan->parts[p].node), &b))
            add_small(d, y, panel->row, open, &b);
    }
}

void core_draw_bars(core_drawing *d, const core_panel *panel)
{
    for (uint32_t i = 0; i < d->plan->n_devices; i++) {
        bar open = {0};
        if (d->lane[i] == CORE_NO_LANE)
            continue;
        double y = core_panel_lane(panel, d->lane[i]);
        for (uint32_t k = 0; k < d->plan->devices[i].n_steps; k++)
            draw_step(d, panel, y, d->order[d->first[i] + k], &open);
        add_small(d, y, panel->row, &open, NULL);
    }
}

/* ------------------------------------------------------------------------ */
/* The host                                                                  */

static void host_bar(core_drawing *d, const core_panel *panel, core_span span,
                     uint32_t kind, uint32_t step, bar *open)
{
    const double y = core_panel_lane(panel, d->n_lanes);
    core_text tip = {0};
    bar b;
    if (!clip(panel, span, kind, &b))
        return;
    if (!panel->tips) {
        add_small(d, y, CORE_HOST_ROW, open, &b);
        return;
    }
    if (step == CORE_NO_STEP)
        core_text_add(&tip, "waits for the end");
    else
        core_text_add(
            &tip,
            kind == CORE_BAR_SUBMIT ? "submits step %u to %s"
                                    : "waits before step %u on %s",
            step, core_plan_device_id(d->plan, d->plan->steps[step].device));
    add_time(&tip, span);
    d->present[kind] = true;
    if (!tip.failed)
        core_svg_rect(d->text, b.x1, y, b.x2 - b.x1, CORE_HOST_ROW,
                      (svg_look){.fill = kinds[kind].colour}, tip.data);
    d->text->failed |= tip.failed;
    core_text_finish(&tip);
}

void core_draw_host(core_drawing *d, const core_panel *panel)
{
    bar open = {0};
    for (uint32_t s = 0; s < d->plan->n_steps; s++) {
        host_bar(d, panel, d->forecast->host_waits[s], CORE_BAR_HOST_WAIT, s,
                 &open);
        host_bar(d, panel, d->forecast->submits[s], CORE_BAR_SUBMIT, s, &open);
    }
    host_bar(d, panel, d->forecast->last_wait, CORE_BAR_HOST_WAIT, CORE_NO_STEP,
             &open);
    add_small(d, core_panel_lane(panel, d->n_lanes), CORE_HOST_ROW, &open,
              NULL);
}

/* ------------------------------------------------------------------------ */
/* Waits                                                                     */

/* From the end of the step that is waited for to the begin of the one that
 * waits. */
void core_draw_waits(const core_drawing *d, const core_panel *panel)
{
    const clv_plan *plan = d->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_step *step = &plan->steps[s];
        const double to = d->forecast->steps[s].begin_ns;
        for (uint32_t i = 0; i < step->n_waits; i++) {
            const core_wait *wait = &plan->waits[step->first_wait + i];
            const uint32_t on =
                d->order[d->first[wait->device] + wait->value - 1];
            const double from = d->forecast->steps[on].end_ns;
            const uint32_t a = d->lane[wait->device], b = d->lane[step->device];
            if (from < panel->from || to > panel->to)
                continue;
            core_svg_line(
                d->text, core_panel_x(panel, from),
                core_panel_lane(panel, a) + (a < b ? panel->row : 0),
                core_panel_x(panel, to),
                core_panel_lane(panel, b) + (a < b ? 0 : panel->row),
                (svg_look){.stroke = CORE_WAIT_COLOUR, .dashed = true});
        }
    }
}
