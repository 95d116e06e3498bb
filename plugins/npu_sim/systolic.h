/*
 * Time of a matrix product on a weight-stationary systolic unit, by its tiles.
 *
 * The unit has several arrays of rows x columns elements. Of [m,n] x [n,k] the
 * second operand is stationary: a tile of rows x columns of it is loaded into
 * an array, then rows of the first operand stream through, and their sums
 * drain.
 *
 * Half of the SRAM holds a panel of the stationary operand: all n rows of as
 * many columns as fit. The other half holds the sums of two blocks of streamed
 * rows: one drains while the next one grows. The streamed operand passes once
 * for each panel, from memory unless it fits beside them; the tiles of a panel
 * are loaded once for each block. If even one tile's columns are too long for
 * the panel, n is cut, and the sums of a part go to memory and back. The width
 * of a panel is chosen as a compiler would, for the least time.
 *
 * Activations are read as pictures: rows and columns of points, each with its
 * channels, in patches that the unit takes whole. n tokens by themselves are a
 * picture of n rows and one column, whose patches are mostly empty where they
 * have several columns; as many columns as a patch has waste least (llm.npu,
 * section 4: equivalent shapes). To lay tokens out so, and the result back, is
 * work of the vector unit before and after.
 *
 * Four things work side by side, and the slowest sets the time: the arrays, the
 * sequencer (one for all arrays, a number of cycles a tile), the DMA, and the
 * unit that expands narrow elements. Before them all comes the first fill.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct npu_array {
    uint32_t rows, columns, arrays;
    uint32_t patch_rows, patch_columns; /* points of a picture; 1: any number */
    double clock;                       /* cycles a second */
    double macs;           /* products an element does in a cycle */
    uint32_t element_size; /* bytes of an operand's element inside */
    uint32_t swap_cycles;  /* of the sequencer, a stationary tile */
    uint64_t sram;         /* bytes */
    double bandwidth;      /* of the DMA, bytes a second */
    double expand;         /* narrow elements a second; 0: no bound */
} npu_array;

/* An operand or result as it lies in memory. */
typedef struct npu_operand {
    double bytes; /* an element */
    bool narrow;  /* has to be expanded */
} npu_operand;

/* [m,n] x [n,k], the second one stationary. */
typedef struct npu_gemm {
    int64_t m, n, k;
    npu_operand streamed, stationary;
    double result_bytes; /* an element */
} npu_gemm;

typedef struct npu_gemm_cost {
    double fill_ns;                           /* before anything overlaps */
    double array_ns, sequencer_ns, expand_ns; /* beside each other */
    double bytes;   /* moved between memory and SRAM */
    int64_t panel;  /* columns of the stationary operand at a time */
    int64_t passes; /* of the streamed operand */
    int64_t loads;  /* of stationary tiles */
} npu_gemm_cost;

/* m, n and k of at least 1; the unit can hold a tile. */
npu_gemm_cost npu_gemm_time(const npu_array *unit, const npu_gemm *gemm);

/* Points that the unit takes for n tokens in a picture of so many columns. */
int64_t npu_picture_points(const npu_array *unit, int64_t n, int64_t columns);

/* What does not depend on memory, and all of it when the DMA gets its full
 * bandwidth. Nanoseconds. */
double npu_gemm_busy_ns(const npu_gemm_cost *cost);
double npu_gemm_alone_ns(const npu_array *unit, const npu_gemm_cost *cost);

/* Of x [s,i] times the transpose of w [o,i]: the better one of w streamed past
 * x and x streamed past w, as it is for a compiler to choose. swapped, if not
 * NULL: whether w is stationary. */
npu_gemm_cost npu_matmul_time(const npu_array *unit, int64_t s, int64_t i,
                              int64_t o, npu_operand x, npu_operand w,
                              double result_bytes, bool *swapped);
