/* The time that ops take on a device, and the formats in which it multiplies.
 */
#pragma once

#include "check.h"
#include "settings.h"
#include "sim.h"

typedef enum npu_path {
    NPU_PATH_NONE, /* the device cannot */
    NPU_PATH_F32,
    NPU_PATH_F16,
    NPU_PATH_I8,        /* activations with one scale, sums in I32 */
    NPU_PATH_I8_GROUPS, /* a product for each group, summed as floats */
} npu_path;

/* Variants of products, clv_variant.id. WIDE: tokens in a picture as wide as a
 * patch of the unit's. */
enum { NPU_VARIANT_PLAIN = 0, NPU_VARIANT_WIDE = 1 };

/* Whether the device has it: its patches have several columns. */
bool npu_has_wide(const npu_settings *s);

/* For products of at most that many rows with this weight. */
npu_path npu_matmul_path(const npu_settings *s, const clv_tensor_desc *w,
                         int64_t rows);

/* Time of a node; symbols NULL: at their upper bounds. fixed_ns, work_ns and
 * bytes are set. */
void npu_node_cost(const npu_settings *s, const clv_subgraph *g, uint32_t node,
                   npu_path path, const int64_t *symbols, npu_phase *out);
/* The same of MATMUL_EXPERTS that reads so many experts' weights, and computes
 * so many products of rows with one. */
void npu_experts_cost(const npu_settings *s, const clv_subgraph *g,
                      uint32_t node, const int64_t *symbols, int64_t experts,
                      int64_t products, npu_phase *out);
/* Time of a copy or fill of that many bytes. link: of a copy between the
 * device's own memory and the chip's. */
void npu_move_cost(const npu_settings *s, uint64_t size, bool copy,
                   npu_link link, npu_phase *out);
