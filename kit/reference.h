/*
 * What results ought to be: every op in plain double-precision loops, after the
 * table of ops in plugin.h, and the measure of the difference.
 */
#pragma once

#include "graph.h"

/* Values of a tensor, row by row. NaN and infinity are met exactly. */
typedef struct kit_values {
    double *v;      /* [rows, columns], free() */
    double *square; /* [rows, columns] or NULL: sum of squares of the terms of
                       each element, where a sum may cancel */
    int64_t rows, columns;
} kit_values;

/* The result of node i from the images of its inputs as they are now; for
 * SET_ROWS the state's new rows. rows: the values of symbols are applied. The
 * case fails on an op the reference does not know. */
kit_values kit_reference(const kit_graph *g, uint32_t node);
void kit_values_free(kit_values *values);

/* Largest normalised mean square error of a class (clv_error_class). */
double kit_error_bound(uint32_t error_class);
/* Fails the case, naming what and the first bad element, if the tensor differs
 * by more than the class allows. */
void kit_compare(kit_graph *g, uint32_t tensor, const kit_values *want,
                 uint32_t error_class, const char *what, ...)
    __attribute__((format(printf, 5, 6)));
