/*
 * A plan's forecast drawn by device: of a graph whose layers repeat, the whole
 * run as a strip and one of the layers large; of others the whole run.
 */
#include "picture.h"

#include "bars.h"
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

static double lanes_height(const view_drawing *d, double row)
{
    return d->n_lanes * (row + VIEW_ROW_GAP) + VIEW_HOST_ROW + VIEW_ROW_GAP;
}

static void place_panel(const view_drawing *d, view_panel *panel, double y,
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

static void draw_labels(const view_drawing *d, const view_panel *panel)
{
    for (uint32_t i = 0; i < d->plan->n_devices; i++) {
        if (d->lane[i] == VIEW_NONE)
            continue;
        const view_device *device = &d->plan->devices[i];
        double y = view_panel_lane(panel, d->lane[i]);
        char label[96], busy[48];
        svg_rect(d->out, panel->x, y, panel->width, panel->row,
                 (svg_look){.fill = LANE}, NULL);
        snprintf(label, sizeof label, "%s%s", device->id,
                 device->copies && !panel->tips ? ", copies" : "");
        svg_text(d->out, panel->x - 10,
                 y + panel->row / 2 + (panel->tips ? -1 : 4), 12, SVG_END, INK,
                 label);
        if (!panel->tips)
            continue;
        snprintf(busy, sizeof busy, "%s%ld%% busy",
                 device->copies ? "copies, " : "",
                 lround(100 * device->busy_ns / d->plan->makespan_ns));
        svg_text(d->out, panel->x - 10, y + panel->row / 2 + 14, 11, SVG_END,
                 FAINT, busy);
    }
    double y = view_panel_lane(panel, d->n_lanes);
    svg_rect(d->out, panel->x, y, panel->width, VIEW_HOST_ROW,
             (svg_look){.fill = LANE}, NULL);
    svg_text(d->out, panel->x - 10, y + VIEW_HOST_ROW / 2 + 4, 12, SVG_END, INK,
             "host");
}

/* 1, 2 or 5 times a power of ten, so that there are up to 10 of them. */
static double tick_of(double span)
{
    double tick = pow(10, floor(log10(span / 10)));
    while (span / tick > 10)
        tick *= span / tick > 50 ? 10 : span / tick > 20 ? 5 : 2;
    return tick;
}

static void draw_axis(const view_drawing *d, const view_panel *panel)
{
    double span = panel->to - panel->from, tick = tick_of(span);
    double y = panel->y + panel->height;
    int decimals = (int)fmax(0, ceil(6 - log10(tick) - 1e-9));
    for (double i = ceil(panel->from / tick - 1e-9);
         i * tick <= panel->to * (1 + 1e-9); i++) {
        char label[32];
        double x = view_panel_x(panel, i * tick);
        svg_line(d->out, x, panel->y, x, y + 4, (svg_look){.stroke = RULE});
        snprintf(label, sizeof label, "%.*f", decimals < 6 ? decimals : 6,
                 i * tick / 1e6 + 0.0); /* no "-0" */
        svg_text(d->out, x, y + 17, 11, SVG_MIDDLE, FAINT, label);
    }
    svg_text(d->out, panel->x - 28, y + 17, 11, SVG_END, FAINT, "ms");
}

static void draw_panel(view_drawing *d, const view_panel *panel)
{
    draw_labels(d, panel);
    draw_axis(d, panel);
    view_draw_bars(d, panel);
    view_draw_host(d, panel);
    if (panel->tips)
        view_draw_waits(d, panel);
}

/* The part of the strip that the panel below shows. */
static void draw_window(const view_drawing *d, const view_panel *strip,
                        const view_panel *zoom)
{
    double x1 = view_panel_x(strip, zoom->from);
    double x2 = view_panel_x(strip, zoom->to);
    double end = strip->y + strip->height;
    const svg_look look = {.stroke = INK};
    svg_rect(d->out, x1, strip->y - 3, fmax(1, x2 - x1), strip->height + 6,
             look, NULL);
    svg_line(d->out, x1, end + 3, zoom->x, zoom->y, look);
    svg_line(d->out, x2, end + 3, zoom->x + zoom->width, zoom->y, look);
}

/* Where the next entry goes: at the begin of a new line if there is no room. */
static void place_entry(const char *name, double *x, double *y)
{
    double width = 28 + svg_text_width(strlen(name), 12) + 18;
    if (*x + width > WIDTH - RIGHT) {
        *x = LEFT;
        *y += LEGEND_ROW;
    }
}

static void draw_legend(const view_drawing *d, double y)
{
    static const char waits[] = "waits for a result";
    double x = LEFT;
    for (uint32_t kind = 0; kind < VIEW_BAR_KINDS; kind++) {
        if (!d->present[kind])
            continue;
        const char *name = view_bar_name(kind);
        svg_look look = {.fill = view_bar_colour(kind)};
        place_entry(name, &x, &y);
        svg_rect(d->out, x, y, 14, 14, look, NULL);
        svg_text(d->out, x + 20, y + 11, 12, SVG_START, INK, name);
        x += 20 + svg_text_width(strlen(name), 12) + 18;
    }
    if (!d->plan->n_waits)
        return;
    place_entry(waits, &x, &y);
    svg_line(d->out, x, y + 7, x + 22, y + 7,
             (svg_look){.stroke = VIEW_WAIT_COLOUR, .dashed = true});
    svg_text(d->out, x + 28, y + 11, 12, SVG_START, INK, waits);
}

/* ------------------------------------------------------------------------ */
/* Titles                                                                    */

#define TITLE_TEXT 256

static void make_title(const view_drawing *d, char title[TITLE_TEXT])
{
    const view_plan_data *plan = d->plan;
    int used = snprintf(title, TITLE_TEXT, "Predicted: %.3f ms%s%.128s",
                        plan->makespan_ns / 1e6, *plan->symbols ? " for " : "",
                        plan->symbols);
    if (plan->energy_nj > 0)
        snprintf(title + used, (size_t)(TITLE_TEXT - used), ", %.2f mJ",
                 plan->energy_nj / 1e6);
}

static void make_subtitle(const view_drawing *d, char text[TITLE_TEXT])
{
    char first[VIEW_LAYER_NAME], last[VIEW_LAYER_NAME], shown[VIEW_LAYER_NAME];
    const view_fold *fold = &d->fold;
    if (fold->count < 2) {
        snprintf(text, TITLE_TEXT, "%u nodes in %u steps", d->plan->n_sources,
                 d->plan->n_steps);
        return;
    }
    view_layer_name(d->plan, fold->first, fold->period, first);
    view_layer_name(d->plan, fold->first + fold->period * (fold->count - 1),
                    fold->period, last);
    view_layer_name(d->plan, fold->first + fold->period * d->shown,
                    fold->period, shown);
    if (*first)
        snprintf(text, TITLE_TEXT,
                 "%s to %s are alike; above the whole run, below %s", first,
                 last, shown);
    else
        snprintf(text, TITLE_TEXT,
                 "%u blocks of %u nodes are alike; above the whole run, below "
                 "one of them",
                 fold->count, fold->period);
}

/* The critical device is the busiest one. */
static void make_bubbles(const view_plan_data *plan, char text[TITLE_TEXT])
{
    const view_device *critical = &plan->devices[0];
    for (uint32_t i = 1; i < plan->n_devices; i++)
        if (plan->devices[i].busy_ns > critical->busy_ns)
            critical = &plan->devices[i];
    const double idle = plan->makespan_ns - critical->busy_ns;
    snprintf(text, TITLE_TEXT,
             "critical device %.128s, without work for %.3f ms (%.1f%%)",
             critical->id, idle / 1e6, 100 * idle / plan->makespan_ns);
}

static void draw_titles(const view_drawing *d, double height)
{
    char title[TITLE_TEXT], subtitle[TITLE_TEXT], bubbles[TITLE_TEXT];
    make_title(d, title);
    make_subtitle(d, subtitle);
    make_bubbles(d->plan, bubbles);
    svg_begin(d->out, WIDTH, height, title);
    svg_text(d->out, LEFT, 28, 18, SVG_START, INK, title);
    svg_text(d->out, LEFT, 48, 12, SVG_START, FAINT, subtitle);
    svg_text(d->out, WIDTH - RIGHT, 48, 12, SVG_END, FAINT, bubbles);
}

/* ------------------------------------------------------------------------ */

static void draw(view_drawing *d)
{
    view_panel strip = {.to = d->plan->makespan_ns};
    view_panel zoom = {.to = d->plan->makespan_ns, .tips = true};
    double y = TOP;
    const bool both = d->fold.count > 1;
    if (both) {
        place_panel(d, &strip, y, STRIP_ROW);
        y += strip.height + AXIS + PANEL_GAP;
        view_drawing_window(d, &zoom);
    }
    place_panel(d, &zoom, y, LANE_ROW);
    y += zoom.height + AXIS + 14;
    draw_titles(d, y + LEGEND);
    if (both) {
        draw_panel(d, &strip);
        draw_window(d, &strip, &zoom);
    }
    draw_panel(d, &zoom);
    draw_legend(d, y);
    svg_end(d->out);
}

clv_status view_plan_svg(const view_plan_data *view, FILE *out)
{
    if (!view->predicted)
        return clv_error(CLV_ERR_NOT_FOUND,
                         "plan: nothing can be drawn where costs are not "
                         "known; measure the devices with cleave profile, or "
                         "use -o md");
    view_drawing d = {.out = out, .plan = view};
    clv_status status = view_drawing_begin(&d);
    if (!status)
        draw(&d);
    view_drawing_finish(&d);
    return status;
}
