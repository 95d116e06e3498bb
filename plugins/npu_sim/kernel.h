/* The ops, on the host's threads. All fail for lack of memory only. */
#pragma once

#include "cost.h"
#include "tensor.h"

#include <stdatomic.h>

/* One run of a node. */
typedef struct npu_call {
    const clv_host_api *host;
    const clv_node *node;
    npu_path path;      /* of a product */
    int64_t array_rows; /* inputs that one array sums; of half sums */
    bool half_sums, half_attention;
    npu_view in[CLV_MAX_INPUTS], out; /* data NULL: absent */
    npu_weight weight; /* of GET_ROWS input 0, of the products input 1 */
} npu_call;

clv_status npu_run_matmul(const npu_call *call);
clv_status npu_run_attention(const npu_call *call);
clv_status npu_run_select(const npu_call *call);
clv_status npu_run_experts(const npu_call *call);
/* How many of the experts that are here ids choose, and how often. */
clv_status npu_count_experts(const npu_call *call, int64_t *experts,
                             int64_t *products);
/* All others. */
clv_status npu_run_rows(const npu_call *call);

/* Calls fn for parts of n things, at least grain of them, on all threads if
 * that is worth it. fn answers whether it had the memory it needed. */
typedef bool (*npu_part_fn)(void *ctx, int64_t begin, int64_t end);
clv_status npu_parts(const clv_host_api *host, int64_t n, int64_t grain,
                     npu_part_fn fn, void *ctx);

/* The sum of products in an order that depends on n alone. */
float npu_dot(const float *a, const float *b, int64_t n);
