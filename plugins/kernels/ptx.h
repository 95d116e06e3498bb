/*
 * PTX that compilers of OpenCL C make of kernels whose source has instructions
 * of sm_90a in lines of inline assembly that begin with //@. To the compiler
 * those are comments, around which it assigns registers. Opened, the text is
 * what the driver takes as a program's binary.
 */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

/* Compute capability of kernels with inline PTX, and of those that are opened.
 */
#define GPU_PTX_LEAST 80
#define GPU_PTX_WGMMA 90
/* Bytes of a group's local memory there; OpenCL says 48 KiB. */
#define GPU_PTX_WGMMA_BYTES 0x38c00

/* A kernel to try whether a driver takes what is opened. */
#define GPU_PTX_PROBE "opens"
extern const char gpu_ptx_probe[];

/* Whether a kernel's source has such lines. */
bool gpu_ptx_is_closed(const char *source);

/* The text of `size` bytes opened, for sm_90a, to be freed by clv_free(). NULL:
 * it cannot be, and *why says the reason, as that it is no PTX; *why is NULL
 * where the host's memory ran out. */
char *gpu_ptx_open(const clv_host_api *host, const char *ptx, size_t size,
                   const char **why);

/* The text for launches that are not OpenCL's, to be freed by clv_free(): where
 * it reads OpenCL's registers, offsets of a launch are 0, and how many groups
 * there are is read as in CUDA. NULL: as of gpu_ptx_open(). */
char *gpu_ptx_detach(const clv_host_api *host, const char *text,
                     const char **why);
