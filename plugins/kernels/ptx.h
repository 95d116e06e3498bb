/*
 * PTX that compilers of OpenCL C make of kernels whose source has instructions
 * of sm_90a in lines of inline assembly that begin with //@. To the compiler
 * those are comments, around which it assigns registers. Opened, the text is
 * what the driver takes as a program's binary.
 */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

/* Whether a kernel's source has such lines. */
bool gpu_ptx_is_closed(const char *source);

/* The text of `size` bytes opened, for sm_90a, to be freed by clv_free(). NULL:
 * it cannot be, and *why says the reason, as that it is no PTX; *why is NULL
 * where the host's memory ran out. */
char *gpu_ptx_open(const clv_host_api *host, const char *ptx, size_t size,
                   const char **why);
