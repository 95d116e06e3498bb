/*
 * What results ought to be: every op in plain double-precision loops, after the
 * table of ops in plugin.h, and the measure of the difference.
 */
#pragma once

#include "../work/graph.h"

/* Values of a tensor, row by row. NaN and infinity are met exactly. */
typedef struct kit_values {
    double *v;      /* [rows, columns], free() */
    double *square; /* [rows, columns] or NULL: sum of squares of the terms of
                       each element, where a sum may cancel */
    double *slack;  /* [rows, columns] or NULL: difference that the format of
                       the result makes and that is not counted; below 0: the
                       element is met exactly */
    int64_t rows, columns;
} kit_values;

/* The result of node i from the images of its inputs as they are now; for
 * SET_ROWS the whole state after it. The values of symbols are applied. The
 * case fails on an op the reference does not know. */
kit_values kit_reference(const kit_graph *g, uint32_t node);
/* Elements of a tensor as its image holds them, scales applied. */
kit_values kit_read(const kit_graph *g, uint32_t tensor);
void kit_values_free(kit_values *values);

/* Rows and columns of a tensor of rank 1 or 2 with the symbols' values. */
int64_t kit_rows(const kit_graph *g, uint32_t tensor);
int64_t kit_columns(const kit_graph *g, uint32_t tensor);

/* Largest normalised mean square error of a class (clv_error_class). */
double kit_error_bound(uint32_t error_class);
/* Fails the case, naming what and the worst element, if the tensor differs by
 * more than the class allows. A single element may be off by no more than 32
 * times the allowed root mean square: more is a wrong element that the others
 * hide. */
void kit_compare(kit_graph *g, uint32_t tensor, const kit_values *want,
                 uint32_t error_class, const char *what, ...)
    __attribute__((format(printf, 5, 6)));
/* The same with a bound in place of a class. */
void kit_compare_within(kit_graph *g, uint32_t tensor, const kit_values *want,
                        double bound, const char *what, ...)
    __attribute__((format(printf, 5, 6)));
