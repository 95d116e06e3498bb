/* Graphs of a few nodes with memory for their tensors, and a judgement of what
 * comes out of them. */
#pragma once

#include "runner.h"

/* A small device. */
extern const gpu_target sample_target;
/* The same with warp groups, by plain code. */
extern const gpu_target sample_warp_groups;

typedef struct sample {
    graph g;
    void *data[GRAPH_TENSORS];
    size_t size[GRAPH_TENSORS];
} sample;

/* A tensor with memory of random bytes. stride: bytes a row, 0: dense. */
uint32_t sample_add(sample *b, uint32_t dtype, uint32_t usage, int64_t rows,
                    int64_t channels, int64_t stride);
void sample_free(sample *b);
/* Numbers in place of random bytes, where those may be NaN or huge. */
void sample_fill(sample *b, uint32_t t);
const uint8_t *sample_row(const sample *b, uint32_t t, int64_t i);
/* The number in row i, channel c, but for scales that lie beside it. */
double sample_value(const sample *b, uint32_t t, int64_t i, int64_t c);
/* -1 .. 1 */
float sample_random(void);

typedef struct judge {
    double error, norm;
} judge;

void judge_expect(judge *j, double got, double want);
/* Fails the test if the normalised mean square error is above tolerance. */
void judge_conclude(const judge *j, double tolerance, const char *what);
