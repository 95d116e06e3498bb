/* What the tests of ops share: one plugin, and how results are judged. */
#pragma once

#include "harness.h"

/* Opened with CPU_TEST_FEATURES and CPU_TEST_THREADS. */
extern plugin *shared;

/* Sum of squares of the reference and of the difference from it. */
typedef struct error {
    double square, difference;
} error;

/* NaN and infinity must be met exactly. */
void compare(error *e, double got, double want);
void check_error(const error *e, uint32_t error_class, const char *what);

/* Runs a graph whose nodes the plugin claims; the class of the last one. */
uint32_t run(graph *g);

int shared_open(void **state);
int shared_close(void **state);
/* Whether the machine has the features asked for. */
bool shared_possible(void);
