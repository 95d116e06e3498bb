/*
 * Which product of a format serves some rows of x, and how these are prepared
 * for it: by parts of rows, or of their elements too where rows lie together.
 */
#pragma once

#include "grid.h"

typedef struct cpu_prepare_grid {
    int64_t n, k;         /* rows and their elements */
    int64_t rows, length; /* of a part */
    uint32_t across, down;
} cpu_prepare_grid;

typedef struct cpu_prepare_part {
    cpu_range rows, elements;
} cpu_prepare_part;

static inline const cpu_product *cpu_product_for(const cpu_format *f, int64_t n)
{
    return f->many_from && n >= f->many_from ? &f->many : &f->product;
}

/* The same for formats whose products read x in the same forms. */
static inline uint64_t cpu_format_form(const cpu_format *f)
{
    const uint64_t few = (uintptr_t)f->product.prepare.rows;
    const uint64_t many = (uintptr_t)f->many.prepare.rows;
    return few + 31 * many + (uint64_t)f->many_from;
}

/* Bytes of a row of x as the product reads it. */
static inline uint64_t cpu_row_size(const cpu_product *p, int64_t k)
{
    return p->prepare.rows ? p->prepare.row_size(k)
                           : cpu_round_up((uint64_t)k * sizeof(float));
}

/* Bytes of n rows. */
static inline uint64_t cpu_rows_size(const cpu_product *p, int64_t n, int64_t k)
{
    if (p->prepare.together)
        n = cpu_ceil_div(n, CPU_PREPARE_ROWS) * CPU_PREPARE_ROWS;
    return (uint64_t)n * cpu_row_size(p, k);
}

/* The same for either product. */
static inline uint64_t cpu_format_rows_size(const cpu_format *f, int64_t n,
                                            int64_t k)
{
    const uint64_t few = cpu_rows_size(&f->product, n, k);
    const uint64_t many = f->many_from ? cpu_rows_size(&f->many, n, k) : 0;
    return few > many ? few : many;
}

static inline cpu_prepare_grid cpu_prepare_grid_of(const cpu_prepare *prepare,
                                                   int64_t n, int64_t k)
{
    const int64_t grain = CPU_GRAIN / CPU_PREPARE_ROWS;
    const int64_t at_once = cpu_grid_rows_at_once(k);
    cpu_prepare_grid g = {n, k, CPU_PREPARE_ROWS, k, 1, 0};
    if (prepare->together && k > grain)
        g.length = grain;
    else if (!prepare->together && at_once < g.rows)
        g.rows = at_once;
    g.across = (uint32_t)cpu_ceil_div(k, g.length);
    g.down = (uint32_t)cpu_ceil_div(n, g.rows);
    return g;
}

static inline cpu_prepare_part cpu_prepare_part_at(const cpu_prepare_grid *g,
                                                   uint32_t index)
{
    return (cpu_prepare_part){cpu_part(g->n, g->rows, index / g->across),
                              cpu_part(g->k, g->length, index % g->across)};
}
