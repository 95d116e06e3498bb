/*
 * The logits of a text on a tiny model, and how far off those of devices may be
 * whose results have errors of known classes.
 */
#pragma once

#include "tiny.h"

typedef struct forecast {
    float *logits;  /* [n, n_vocab], of tiny_forward() */
    double *bounds; /* [n]: mean squares of differences, relative to those of
                       the rows */
} forecast;

void forecast_make(forecast *f, llm_source *source, const int32_t *ids,
                   uint32_t n, const tiny_errors *errors);
void forecast_free(forecast *f);
