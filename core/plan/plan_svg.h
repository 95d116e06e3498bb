/*
 * Drawing a plan: plan_svg.c lays out, plan_bars.c draws what happens in time.
 */
#pragma once

#include "plan_print.h"
#include "svg.h"

/* What a bar is of; the legend has this order. */
typedef enum core_bar_kind {
    CORE_BAR_MATMUL,
    CORE_BAR_ATTENTION,
    CORE_BAR_NORM,
    CORE_BAR_ROPE,
    CORE_BAR_ELEMENTWISE,
    CORE_BAR_ROWS,
    CORE_BAR_JOIN,
    CORE_BAR_DISPATCH,
    CORE_BAR_SUBMIT,
    CORE_BAR_HOST_WAIT,
    CORE_BAR_KINDS
} core_bar_kind;

#define CORE_HOST_ROW 26.0
#define CORE_ROW_GAP 6.0
#define CORE_WAIT_COLOUR "#c02f1d"
#define CORE_NO_LANE 0xffffffffu

typedef struct core_drawing {
    core_text *text;
    const clv_plan *plan;
    const core_forecast *forecast;
    core_fold fold;  /* the layers; count 1: there are none */
    uint32_t shown;  /* which of them is drawn large */
    uint32_t *lane;  /* [plan->n_devices] its row, or CORE_NO_LANE */
    uint32_t *order; /* [plan->n_steps] by device and signal */
    uint32_t *first; /* [plan->n_devices] in order */
    uint32_t n_lanes;
    bool present[CORE_BAR_KINDS]; /* drawn so far */
} core_drawing;

/* A stretch of time. */
typedef struct core_panel {
    double x, y, width, height, row; /* row: height of a device's */
    double from, to;                 /* ns */
    bool tips;                       /* large: with labels and tooltips */
} core_panel;

clv_status core_drawing_begin(core_drawing *drawing);
void core_drawing_finish(core_drawing *drawing);
/* Sets the time from which and to which the layer that is shown runs. */
void core_drawing_window(const core_drawing *drawing, core_panel *panel);

double core_panel_x(const core_panel *panel, double ns);
double core_panel_lane(const core_panel *panel, uint32_t lane);

const char *core_bar_name(uint32_t kind);
const char *core_bar_colour(uint32_t kind);
void core_draw_bars(core_drawing *drawing, const core_panel *panel);
void core_draw_host(core_drawing *drawing, const core_panel *panel);
void core_draw_waits(const core_drawing *drawing, const core_panel *panel);
