#include "systolic.h"

#include <math.h>

#define SUM_SIZE 4    /* bytes of a sum */
#define SUM_BUFFERS 2 /* one block drains while the next one grows */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t pad(int64_t n, int64_t multiple)
{
    return ceil_div(n, multiple) * multiple;
}

static int64_t at_least(int64_t n, int64_t least)
{
    return n > least ? n : least;
}

int64_t npu_picture_points(const npu_array *unit, int64_t n, int64_t columns)
{
    return pad(ceil_div(n, columns), unit->patch_rows) *
           pad(columns, unit->patch_columns);
}

/* The padded problem, and how n is cut so that a tile's columns fit. */
typedef struct shape {
    int64_t m, n, k, part; /* part: of n, in a panel */
    uint64_t half;         /* of the SRAM */
} shape;

static shape fit(const npu_array *unit, const npu_gemm *gemm)
{
    const int64_t rows = unit->rows, columns = unit->columns;
    shape s = {.m = pad(gemm->m, rows),
               .n = pad(gemm->n, rows),
               .k = pad(gemm->k, columns),
               .half = unit->sram / 2};
    int64_t longest =
        (int64_t)(s.half / ((uint64_t)columns * unit->element_size));
    longest = at_least(longest / rows * rows, rows);
    s.part = ceil_div(s.n, ceil_div(s.n, longest));
    s.part = pad(s.part, rows);
    return s;
}

static npu_gemm_cost with_panel(const npu_array *unit, const npu_gemm *gemm,
                                const shape *s, int64_t panel)
{
    const int64_t rows = unit->rows, columns = unit->columns;
    const int64_t parts = ceil_div(s->n, s->part);
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    const uint64_t sums = (uint64_t)panel * SUM_SIZE * SUM_BUFFERS;
    int64_t block = at_least((int64_t)(s->half / sums) / rows * rows, rows);
    if (block > s->m)
        block = s->m;
    const int64_t blocks = ceil_div(s->m, block);
    npu_gemm_cost cost = {.panel = panel, .passes = ceil_div(s->k, panel)};

    double held = (double)s->part * (double)panel * unit->element_size +
                  (double)block * (double)sums;
    double streamed = m * n * unit->element_size;
    int64_t fetches = held + streamed <= (double)unit->sram ? 1 : cost.passes;
    cost.bytes = (double)fetches * m * n * gemm->streamed.bytes +
                 n * k * gemm->stationary.bytes + m * k * gemm->result_bytes +
                 (double)(parts - 1) * 2 * m * k * SUM_SIZE;

    cost.loads = s->n / rows * (s->k / columns) * blocks;
    double stream = (double)block / unit->macs;
    double tile = (double)rows + stream + (double)(rows + columns - 2);
    double cycle_ns = 1e9 / unit->clock;
    cost.array_ns =
        (double)ceil_div(cost.loads, unit->arrays) * tile * cycle_ns;
    cost.sequencer_ns =
        (double)cost.loads * (double)unit->swap_cycles * cycle_ns;
    if (unit->expand > 0)
        cost.expand_ns =
            ((gemm->streamed.narrow ? (double)cost.passes * m * n : 0) +
             (gemm->stationary.narrow ? n * k : 0)) /
            unit->expand * 1e9;
    double first = (double)rows * (double)columns * gemm->stationary.bytes +
                   (double)rows * (double)rows * gemm->streamed.bytes;
    cost.fill_ns = first / unit->bandwidth * 1e9 +
                   (double)(3 * rows + columns - 2) * cycle_ns;
    return cost;
}

npu_gemm_cost npu_gemm_time(const npu_array *unit, const npu_gemm *gemm)
{
    const shape s = fit(unit, gemm);
    const int64_t columns = unit->columns;
    uint64_t column = (uint64_t)s.part * unit->element_size;
    int64_t widest =
        at_least((int64_t)(s.half / column) / columns * columns, columns);
    if (widest > s.k)
        widest = s.k;
    npu_gemm_cost best = with_panel(unit, gemm, &s, widest);
    /* Only widths that make a number of passes of their own are worth it. */
    int64_t last = ceil_div(s.k, columns);
    for (int64_t passes = best.passes + 1; passes <= last; passes++) {
        int64_t panel = pad(ceil_div(s.k, passes), columns);
        npu_gemm_cost next = with_panel(unit, gemm, &s, panel);
        if (npu_gemm_alone_ns(unit, &next) < npu_gemm_alone_ns(unit, &best))
            best = next;
        if (next.passes > passes)
            passes = next.passes;
        if (next.expand_ns > npu_gemm_alone_ns(unit, &best))
            break;
    }
    return best;
}

double npu_gemm_busy_ns(const npu_gemm_cost *cost)
{
    return fmax(cost->array_ns, fmax(cost->sequencer_ns, cost->expand_ns));
}

double npu_gemm_alone_ns(const npu_array *unit, const npu_gemm_cost *cost)
{
    return cost->fill_ns +
           fmax(npu_gemm_busy_ns(cost), cost->bytes / unit->bandwidth * 1e9);
}

npu_gemm_cost npu_matmul_time(const npu_array *unit, int64_t s, int64_t i,
                              int64_t o, npu_operand x, npu_operand w,
                              double result_bytes, bool *swapped)
{
    npu_gemm weights_stream = {o, i, s, w, x, result_bytes};
    npu_gemm weights_stay = {s, i, o, x, w, result_bytes};
    npu_gemm_cost a = npu_gemm_time(unit, &weights_stream);
    npu_gemm_cost b = npu_gemm_time(unit, &weights_stay);
    bool swap = npu_gemm_alone_ns(unit, &b) < npu_gemm_alone_ns(unit, &a);
    if (swapped)
        *swapped = swap;
    return swap ? b : a;
}
