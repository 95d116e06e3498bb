/* Small cases whose results are known. */
#pragma once

#include "kernels.h"

#include <cleave/plugin_util.h>

#include <stdbool.h>

#define GPU_CASE_TENSORS 26
#define GPU_CASE_NODES 15

typedef struct gpu_case {
    char name[64]; /* "matmul q8_0 1x128x96" */
    clv_subgraph graph;
    clv_tensor_desc tensors[GPU_CASE_TENSORS];
    clv_node nodes[GPU_CASE_NODES];
    void *data[GPU_CASE_TENSORS]; /* NULL: the output */
    uint64_t size[GPU_CASE_TENSORS];
    uint32_t out;
    float *want;
    uint64_t n_want;
    bool wide;           /* for the variant of the largest tiles */
    const char *variant; /* that it is for, which alone may be what is wrong;
                            NULL: all that compute it */
    bool series;         /* of nodes that are one kernel on a target with it */
} gpu_case;

uint32_t gpu_n_cases(void);
/* Fills a case; after a failure, too, it is to be freed. slow: kernels are
 * plain code, for which large ones are made smaller. */
clv_status gpu_case_make(const clv_host_api *host, uint32_t i, bool slow,
                         gpu_case *c);
void gpu_case_free(const clv_host_api *host, gpu_case *c);
