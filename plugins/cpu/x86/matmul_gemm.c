#include "matmul_gemm.h"

#include <string.h>

/* Panels packed at once; together they take about a quarter of a common
 * second-level cache, and at most the scratch. */
#define BLOCK_BYTES (144 * 1024)

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void init_rows(const cpu_matmul_args *a, int64_t o, int64_t n_rows)
{
    for (int64_t i = 0; i < a->n; i++) {
        float *y = a->y + i * a->y_stride + o;
        if (a->bias)
            memcpy(y, a->bias + o, (size_t)n_rows * sizeof(*y));
        else
            memset(y, 0, (size_t)n_rows * sizeof(*y));
    }
}

/* A panel at the edge has fewer rows than lanes: go through a buffer. */
static void run_edge(const gemm_kind *kind, gemm_tile *tile, int n_rows)
{
    float buffer[GEMM_MAX_TOKENS * GEMM_MAX_ROWS];
    float *y = tile->y;
    int64_t y_stride = tile->y_stride;
    size_t size = (size_t)n_rows * sizeof(*y);

    memset(buffer, 0, sizeof(buffer));
    for (int i = 0; i < tile->tokens; i++)
        memcpy(buffer + i * kind->rows, y + i * y_stride, size);
    tile->y = buffer;
    tile->y_stride = kind->rows;
    kind->micro(tile);
    for (int i = 0; i < tile->tokens; i++)
        memcpy(y + i * y_stride, buffer + i * kind->rows, size);
    tile->y_stride = y_stride;
}

static void run_block(const gemm_kind *kind, const cpu_matmul_args *a,
                      gemm_tile *tile, const uint8_t *x, int64_t o,
                      int64_t n_rows)
{
    int64_t groups = (a->n + kind->tokens - 1) / kind->tokens;

    /* Groups of even size: 7 tokens are 4 + 3, not 6 + 1. */
    for (int64_t i = 0; i < a->n; i += tile->tokens, groups--) {
        tile->tokens = (int)((a->n - i + groups - 1) / groups);
        tile->x = x + (size_t)i * tile->x_stride;
        for (int64_t r = 0; r < n_rows; r += kind->rows) {
            int here = (int)min64(kind->rows, n_rows - r);
            tile->panel = (const uint8_t *)a->scratch +
                          (size_t)(r / kind->rows) * kind->panel_size;
            tile->y = a->y + i * a->y_stride + o + r;
            if (here == kind->rows)
                kind->micro(tile);
            else
                run_edge(kind, tile, here);
        }
    }
}

void cpu_x86_gemm(const gemm_kind *kind, const cpu_matmul_args *a,
                  const void *x, size_t x_stride)
{
    int64_t block = (int64_t)(BLOCK_BYTES / kind->panel_size) * kind->rows;
    gemm_tile tile = {.x_stride = x_stride, .k = a->k, .y_stride = a->y_stride};

    for (int64_t o = a->o_begin; o < a->o_end; o += block) {
        int64_t n_rows = min64(block, a->o_end - o);
        init_rows(a, o, n_rows);
        for (int64_t k = 0; k < a->k; k += kind->depth) {
            tile.k_begin = k;
            tile.depth = (int)min64(kind->depth, a->k - k);
            for (int64_t r = 0; r < n_rows; r += kind->rows)
                kind->pack(a, o + r, (int)min64(kind->rows, n_rows - r), k,
                           tile.depth,
                           (uint8_t *)a->scratch +
                               (size_t)(r / kind->rows) * kind->panel_size);
            run_block(kind, a, &tile, x, o, n_rows);
        }
    }
}
