/*
 * Division of rows x columns into chunks of about CPU_GRAIN elements, the same
 * for any number of threads.
 */
#pragma once

#include "op.h"

/* Elements that are worth a thread's while: some microseconds of work. */
#define CPU_GRAIN 8192
/* Of those whose elements take some exponentials each. */
#define CPU_GRAIN_SLOW 2048
/* Columns are cut at multiples of this: whole blocks, whole cache lines. */
#define CPU_COLUMN_STEP 256

typedef struct cpu_grid {
    int64_t n, c;
    int64_t row_step, column_step;
    uint32_t across; /* chunks in a row */
    uint32_t chunks;
} cpu_grid;

static inline cpu_grid cpu_grid_of(int64_t n, int64_t c, int64_t grain)
{
    cpu_grid g = {.n = n, .c = c, .row_step = 1, .column_step = c};
    if (!n || !c)
        return g;
    if (c >= 2 * grain)
        g.column_step = grain;
    else if (c < grain)
        g.row_step = grain / c;
    int64_t across = cpu_ceil_div(c, g.column_step);
    int64_t down = cpu_ceil_div(n, g.row_step);
    if (across * down > UINT32_MAX) { /* tens of terabytes */
        g.row_step = cpu_ceil_div(n, UINT32_MAX / across);
        down = cpu_ceil_div(n, g.row_step);
    }
    g.across = (uint32_t)across;
    g.chunks = (uint32_t)(across * down);
    return g;
}

static inline cpu_grid cpu_grid_make(int64_t n, int64_t c)
{
    return cpu_grid_of(n, c, CPU_GRAIN);
}

/* Rows of c elements that a thread takes at once. */
static inline int64_t cpu_grid_rows_at_once(int64_t c)
{
    return c < CPU_GRAIN ? CPU_GRAIN / c : 1;
}

static inline cpu_range cpu_grid_rows(const cpu_grid *g, uint32_t chunk)
{
    return cpu_part(g->n, g->row_step, chunk / g->across);
}

static inline cpu_range cpu_grid_columns(const cpu_grid *g, uint32_t chunk)
{
    return cpu_part(g->c, g->column_step, chunk % g->across);
}
