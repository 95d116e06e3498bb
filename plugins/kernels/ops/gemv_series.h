/*
 * Products of one row that follow one another, and an attention among them, or
 * products of three to eight rows, as one kernel, whose groups stay and meet
 * between two (gemv_series_opencl.clt): for GPUs of compute capability 9.0.
 */
#pragma once

#include "ops/gemv_tensor.h"

#define GPU_SERIES_MAX 6 /* of a layer */

/* An attention; or a product with what is added to its result, or a fused
 * group, of which the first may have a sum as x. */
typedef struct gpu_step {
    bool attends;
    gpu_node attention; /* if it does; else: */
    gpu_fused fused;    /* of a product alone: that one */
    gpu_sum sum;        /* added to fused.x */
    gpu_tensor add;     /* index CLV_NO_TENSOR: none */
} gpu_step;

/* Whether the steps can be one kernel. */
bool gpu_series_fits(const gpu_step *steps, uint32_t n);
/* Whether one that is alone, and fits, is faster so than by other kernels. */
bool gpu_series_pays(const gpu_step *step);
clv_status gpu_series_lower(gpu_lowering *lowering, const gpu_step *steps,
                            uint32_t n);
