/*
 * A plan's forecast drawn by device: of a graph whose layers repeat, the whole
 * run as a strip and one of the layers large; of others the whole run.
 */
#include "plan_svg.h"
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 1280.0
#define LEFT 150.0
#define RIGHT 24.0
#define TOP 70.0
#define STRIP_ROW 20.0
#define LANE_ROW 54.0
#define AXIS 26.0
#define PANEL_GAP 46.0
#define LEGEND 52.0 /* two lines */
#define LEGEND_ROW 20.0

#define INK "#22262d"
#define FAINT "#6b7280"
#define RULE "#d8dbe2"
#define LANE "#f4f5f8"

static double lanes_height(const core_drawing *d, double row)
{
    return d->n_lanes * (row + CORE_ROW_GAP) + CORE_HOST_ROW + CORE_ROW_GAP;
}

static void place_panel(const core_drawing *d, core_panel *panel, double y,
                        double row)
{
    panel->x = LEFT;
    panel->width = WIDTH - LEFT - RIGHT;
    panel->y = y;
    panel->row = row;
    panel->height = lanes_height(d, row);
}

/* ------------------------------------------------------------------------ */
/* What is around the bars                                                   */

static void draw_labels(const core_drawing *d, const core_panel *panel)
{
    for (uint32_t i = 0; i < d->plan->n_devices; i++) {
        if (d->lane[i] == CORE_NO_LANE)
            continue;
        double y = core_panel_lane(panel, d->lane[i]);
        core_svg_rect(d->text, panel->x, y, panel->width, panel->row,
                      (svg_look){.fill = LANE}, NULL);
        core_svg_text(d->text, panel->x - 10,
                      y + panel->row / 2 + (panel->tips ? -1 : 4), 12, SVG_END,
                      INK, core_plan_device_id(d->plan, i));
        if (!panel->tips)
            continue;
        char busy[48];
        snprintf(
            busy, sizeof busy, "%ld%% busy",
            lround(100 * d->forecast->busy_ns[i] / d->forecast->makespan_ns));
        core_svg_text(d->text, panel->x - 10, y + panel->row / 2 + 14, 11,
                      SVG_END, FAINT, busy);
    }
    double y = core_panel_lane(panel, d->n_lanes);
    core_svg_rect(d->text, panel->x, y, panel->width, CORE_HOST_ROW,
                  (svg_look){.fill = LANE}, NULL);
    core_svg_text(d->text, panel->x - 10, y + CORE_HOST_ROW / 2 + 4, 12,
                  SVG_END, INK, "host");
}

/* 1, 2 or 5 times a power of ten, so that there are up to 10 of them. */
static double tick_of(double span)
{
    double tick = pow(10, floor(log10(span / 10)));
    while (span / tick > 10)
        tick *= span / tick > 50 ? 10 : span / tick > 20 ? 5 : 2;
    return tick;
}

static void draw_axis(const core_drawing *d, const core_panel *panel)
{
    double span = panel->to - panel->from, tick = tick_of(span);
    double y = panel->y + panel->height;
    int decimals = (int)fmax(0, ceil(6 - log10(tick) - 1e-9));
    for (double i = ceil(panel->from / tick - 1e-9);
         i * tick <= panel->to * (1 + 1e-9); i++) {
        core_text label = {0};
        double x = core_panel_x(panel, i * tick);
        core_svg_line(d->text, x, panel->y, x, y + 4,
                      (svg_look){.stroke = RULE});
        core_plan_add_fixed(&label, i * tick / 1e6,
                            decimals < 6 ? decimals : 6);
        if (!label.failed)
            core_svg_text(d->text, x, y + 17, 11, SVG_MIDDLE, FAINT,
                          label.data);
        d->text->failed |= label.failed;
        core_text_finish(&label);
    }
    core_svg_text(d->text, panel->x - 28, y + 17, 11, SVG_END, FAINT, "ms");
}

static void draw_panel(core_drawing *d, const core_panel *panel)
{
    draw_labels(d, panel);
    draw_axis(d, panel);
    core_draw_bars(d, panel);
    core_draw_host(d, panel);
    if (panel->tips)
        core_draw_waits(d, panel);
}

/* The part of the strip that the panel below shows. */
static void draw_window(const core_drawing *d, const core_panel *strip,
                        const core_panel *zoom)
{
    double x1 = core_panel_x(strip, zoom->from);
    double x2 = core_panel_x(strip, zoom->to);
    double end = strip->y + strip->height;
    const svg_look look = {.stroke = INK};
    core_svg_rect(d->text, x1, strip->y - 3, fmax(1, x2 - x1),
                  strip->height + 6, look, NULL);
    core_svg_line(d->text, x1, end + 3, zoom->x, zoom->y, look);
    core_svg_line(d->text, x2, end + 3, zoom->x + zoom->width, zoom->y, look);
}

/* Where the next entry goes: at the begin of a new line if there is no room. */
static void place_entry(const char *name, double *x, double *y)
{
    double width = 28 + core_svg_text_width(strlen(name), 12) + 18;
    if (*x + width > WIDTH - RIGHT) {
        *x = LEFT;
        *y += LEGEND_ROW;
    }
}

static void draw_legend(const core_drawing *d, double y)
{
    static const char waits[] = "waits for a result";
    double x = LEFT;
    for (uint32_t kind = 0; kind < CORE_BAR_KINDS; kind++) {
        if (!d->present[kind])
            continue;
        const char *name = core_bar_name(kind);
        svg_look look = {.fill = core_bar_colour(kind)};
        place_entry(name, &x, &y);
        core_svg_rect(d->text, x, y, 14, 14, look, NULL);
        core_svg_text(d->text, x + 20, y + 11, 12, SVG_START, INK, name);
        x += 20 + core_svg_text_width(strlen(name), 12) + 18;
    }
    if (!d->plan->n_waits)
        return;
    place_entry(waits, &x, &y);
    core_svg_line(d->text, x, y + 7, x + 22, y + 7,
                  (svg_look){.stroke = CORE_WAIT_COLOUR, .dashed = true});
    core_svg_text(d->text, x + 28, y + 11, 12, SVG_START, INK, waits);
}

/* ------------------------------------------------------------------------ */
/* Titles                                                                    */

static void add_title(core_text *title, const core_drawing *d)
{
    const clv_graph *graph = d->plan->source;
    core_text_add(title, "Predicted: ");
    core_plan_add_ms(title, d->forecast->makespan_ns);
    core_text_add(title, " ms");
    for (uint32_t i = 0; i < graph->n_symbols; i++)
        core_text_add(title, "%s%s = %lld", i ? ", " : " for ",
                      graph->symbol_names[i], (long long)graph->symbols[i].max);
    if (d->forecast->energy_nj > 0) {
        core_text_add(title, ", ");
        core_plan_add_fixed(title, d->forecast->energy_nj / 1e6, 2);
        core_text_add(title, " mJ");
    }
}

static void add_subtitle(core_text *text, const core_drawing *d)
{
    char first[CORE_LAYER_NAME], last[CORE_LAYER_NAME], shown[CORE_LAYER_NAME];
    const core_fold *fold = &d->fold;
    if (fold->count < 2) {
        core_text_add(text, "%u nodes in %u steps", d->plan->source->n_nodes,
                      d->plan->n_steps);
        return;
    }
    core_plan_layer(d->plan, fold->first, fold->period, first);
    core_plan_layer(d->plan, fold->first + fold->period * (fold->count - 1),
                    fold->period, last);
    core_plan_layer(d->plan, fold->first + fold->period * d->shown,
                    fold->period, shown);
    if (*first)
        core_text_add(text,
                      "%s to %s are alike; above the whole run, below "
                      "%s",
                      first, last, shown);
    else
        core_text_add(text,
                      "%u stretches of %u nodes are alike; above the "
                      "whole run, below one of them",
                      fold->count, fold->period);
}

static clv_status draw_titles(const core_drawing *d, double height)
{
    core_text title = {0}, subtitle = {0};
    add_title(&title, d);
    add_subtitle(&subtitle, d);
    clv_status status = CLV_OK;
    if (title.failed || subtitle.failed) {
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to draw a plan");
    } else {
        core_svg_begin(d->text, WIDTH, height, title.data);
        core_svg_text(d->text, LEFT, 28, 18, SVG_START, INK, title.data);
        core_svg_text(d->text, LEFT, 48, 12, SVG_START, FAINT, subtitle.data);
    }
    core_text_finish(&title);
    core_text_finish(&subtitle);
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status draw(core_drawing *d)
{
    core_panel strip = {.to = d->forecast->makespan_ns};
    core_panel zoom = {.to = d->forecast->makespan_ns, .tips = true};
    double y = TOP;
    const bool both = d->fold.count > 1;
    if (both) {
        place_panel(d, &strip, y, STRIP_ROW);
        y += strip.height + AXIS + PANEL_GAP;
        core_drawing_window(d, &zoom);
    }
    place_panel(d, &zoom, y, LANE_ROW);
    y += zoom.height + AXIS + 14;
    clv_status status = draw_titles(d, y + LEGEND);
    if (status)
        return status;
    if (both) {
        draw_panel(d, &strip);
        draw_window(d, &strip, &zoom);
    }
    draw_panel(d, &zoom);
    draw_legend(d, y);
    core_svg_end(d->text);
    return CLV_OK;
}

clv_status core_plan_add_svg(core_text *text, const clv_plan *plan)
{
    if (!plan->forecast)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "plan: nothing can be drawn where "
                         "costs are not known; measure the devices with "
                         "cleave profile, or use -o md");
    core_drawing d = {.text = text, .plan = plan, .forecast = plan->forecast};
    clv_status status = core_drawing_begin(&d);
    if (!status)
        status = draw(&d);
    core_drawing_finish(&d);
    return status;
}
