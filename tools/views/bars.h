/*
 * What happens in a plan over time, as bars: work, submits, waits.
 */
#pragma once

#include "plan.h"
#include "svg.h"

/* What a bar is of; the legend has this order. */
typedef enum view_bar_kind {
    VIEW_BAR_MATMUL,
    VIEW_BAR_ATTENTION,
    VIEW_BAR_NORM,
    VIEW_BAR_ROPE,
    VIEW_BAR_ELEMENTWISE,
    VIEW_BAR_ROWS,
    VIEW_BAR_JOIN,
    VIEW_BAR_DISPATCH,
    VIEW_BAR_SUBMIT,
    VIEW_BAR_HOST_WAIT,
    VIEW_BAR_KINDS
} view_bar_kind;

#define VIEW_HOST_ROW 26.0
#define VIEW_ROW_GAP 6.0
#define VIEW_WAIT_COLOUR "#c02f1d"
#define VIEW_NONE 0xffffffffu

typedef struct view_drawing {
    FILE *out;
    const view_plan_data *plan;
    view_fold fold;  /* the layers; count 1: there are none */
    uint32_t shown;  /* which of them is drawn large */
    uint32_t *lane;  /* [plan->n_devices] its row, or VIEW_NONE */
    uint32_t *order; /* [plan->n_steps] by device and signal */
    uint32_t *first; /* [plan->n_devices] in order */
    uint32_t n_lanes;
    bool present[VIEW_BAR_KINDS]; /* drawn so far */
} view_drawing;

/* A part of the picture that shows a span of time. */
typedef struct view_panel {
    double x, y, width, height, row; /* row: height of a device's */
    double from, to;                 /* ns */
    bool tips;                       /* large: with labels and tooltips */
} view_panel;

clv_status view_drawing_begin(view_drawing *drawing);
void view_drawing_finish(view_drawing *drawing);
/* Sets the time from which and to which the layer that is shown runs. */
void view_drawing_window(const view_drawing *drawing, view_panel *panel);

double view_panel_x(const view_panel *panel, double ns);
double view_panel_lane(const view_panel *panel, uint32_t lane);

const char *view_bar_name(uint32_t kind);
const char *view_bar_colour(uint32_t kind);
void view_draw_bars(view_drawing *drawing, const view_panel *panel);
void view_draw_host(view_drawing *drawing, const view_panel *panel);
void view_draw_waits(const view_drawing *drawing, const view_panel *panel);
