/* Runs GPU code through OpenCL, where there is a device; has its text in GLSL
 * compiled beside that. */
#pragma once

#include "graph.h"
#include "kernels.h"

typedef struct runner runner;

/* NULL: no device. What is not set in target is filled in. */
runner *runner_open(gpu_target *target);
void runner_close(runner *r);
/* Has code made for another target of the same device from now on. */
void runner_set(runner *r, const gpu_target *target);
/* From now on this input begins 4 bytes past a multiple of 16. UINT32_MAX:
 * none. */
void runner_shift(runner *r, uint32_t tensor);
/* Lowers the graph and runs it. data[i], of size[i] bytes, is tensor i's
 * memory; the symbols have the values given. Fails the test if it cannot. */
void runner_run(runner *r, const graph *g, void *const *data,
                const size_t *size, const int64_t *symbols);
/* The same of code that is there already, of the graph's tensors. */
void runner_code(runner *r, const graph *g, const gpu_code *code,
                 void *const *data, const size_t *size, const int64_t *symbols);
/* Fails the test if the code, in GLSL, does not compile. */
void runner_glsl(runner *r, const gpu_code *code);

/* The same in steps, of which the middle one may be repeated: it takes what
 * data says then, and puts there what comes out. */
typedef struct running running;
running *runner_begin(runner *r, const graph *g, void *const *data,
                      const size_t *size);
void runner_once(running *p, const int64_t *symbols);
void runner_end(running *p);
