/*
 * Prints the time of [M,N] x [N,K] on the Hexagon of
 * conf/soc/snapdragon-8gen3.ini against M, N and K, in both orders:
 * as CSV, or with --svg as a drawing.
 */
#include "../../plugins/npu_sim/systolic.h"

#include <stdio.h>
#include <string.h>

static const npu_array hexagon = {.rows = 32,
                                  .columns = 32,
                                  .arrays = 16,
                                  .clock = 1.1e9,
                                  .macs = 1,
                                  .element_size = 2,
                                  .swap_cycles = 320,
                                  .sram = 2 << 20,
                                  .bandwidth = 40e9,
                                  .expand = 20.5e9};

#define STEPS 128
#define STEP 4

typedef struct curve {
    const char *name, *title, *colour;
    int64_t m, n, k; /* 0: the one that varies */
    int streamed_narrow;
} curve;

static const curve curves[] = {
    {"m", "[M,4096] x [4096,64]", "#1f77b4", 0, 4096, 64, 1},
    {"n", "[4096,N] x [N,64]", "#2ca02c", 4096, 0, 64, 1},
    {"k", "[4096,14336] x [14336,K]", "#d62728", 4096, 14336, 0, 1},
    {"k_order", "[14336,4096] x [4096,K]", "#9467bd", 14336, 4096, 0, 1},
    {"k_reverse", "[K,4096] x [4096,14336]", "#8c564b", 0, 4096, 14336, 0},
};
#define N_CURVES (sizeof curves / sizeof *curves)

static double time_us(const curve *c, int64_t x)
{
    const npu_operand activation = {2, false}, int4 = {0.5, true};
    npu_gemm g = {c->m ? c->m : x,
                  c->n ? c->n : x,
                  c->k ? c->k : x,
                  c->streamed_narrow ? int4 : activation,
                  c->streamed_narrow ? activation : int4,
                  2};
    npu_gemm_cost cost = npu_gemm_time(&hexagon, &g);
    return npu_gemm_alone_ns(&hexagon, &cost) / 1e3;
}

static void print_csv(void)
{
    printf("x");
    for (size_t i = 0; i < N_CURVES; i++)
        printf(",%s_us", curves[i].name);
    printf("\n");
    for (int64_t x = STEP; x <= STEPS * STEP; x += STEP) {
        printf("%lld", (long long)x);
        for (size_t i = 0; i < N_CURVES; i++)
            printf(",%.3f", time_us(&curves[i], x));
        printf("\n");
    }
}

static void print_svg(void)
{
    printf("<svg xmlns='http://www.w3.org/2000/svg' width='640' height='%zu' "
           "font-family='sans-serif' font-size='12'>\n",
           N_CURVES * 150);
    for (size_t i = 0; i < N_CURVES; i++) {
        double most = time_us(&curves[i], STEPS * STEP);
        double y = (double)i * 150 + 130;
        printf("<text x='40' y='%g'>%s: %.0f us at %d</text>\n"
               "<polyline fill='none' stroke='%s' points='",
               y - 112, curves[i].title, most, STEPS * STEP, curves[i].colour);
        for (int64_t x = 1; x <= STEPS * STEP; x++)
            printf("%.1f,%.1f ", 40 + (double)x * 560 / (STEPS * STEP),
                   y - 100 * time_us(&curves[i], x) / most);
        printf("'/>\n<path stroke='black' d='M40 %gH600'/>\n", y);
    }
    printf("</svg>\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--svg"))
        print_svg();
    else
        print_csv();
    return ferror(stdout) != 0;
}
