/* Compilers of kernels: of OpenCL C, by a device's own or as PTX, which is
 * assembled, and of GLSL. */
#pragma once

#include "graph.h"
#include "kernels.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

/* Zeros but for what is set before the first graph. */
typedef struct compiler {
    gpu_target target;
    cl_context context; /* with device: for OpenCL C that is no PTX */
    cl_device_id device;
    uint32_t kernels;
    const char *only; /* the kernel's name; NULL: all */
    bool assembles;   /* kernels without inline assembly, too */
    bool all;         /* for all architectures, not for one in turn */
    bool failed;
    char *seen[256]; /* texts that were compiled */
    uint32_t n_seen;
} compiler;

/* Lowers the graph for the target and compiles its kernels, of the same text
 * once. A kernel that does not compile is shown, and the next one tried. */
void compiler_add(compiler *c, const graph *g);
/* The same of a kernel for NVIDIA's devices that no graph has. */
void compiler_add_text(compiler *c, const char *name, const char *source);
/* The test fails if a kernel did not compile. */
void compiler_finish(compiler *c);
