/* What the ops' lower functions work with. */
#pragma once

#include "lower/check.h"

/* Scratch of one kind, which the nodes of a program use one after another. */
typedef enum gpu_scratch {
    GPU_SCRATCH_HALVES, /* x for matrix instructions, and its rows' scales */
    GPU_SCRATCH_HALVES_SCALE,
    GPU_SCRATCH_BYTES,   /* or as bytes, with theirs */
    GPU_SCRATCH_PARTS,   /* of sums */
    GPU_SCRATCH_EXPERTS, /* products in the order of experts */
    GPU_SCRATCH_COUNT
} gpu_scratch;

/* What the scratch for bytes holds: x in this form (ops/matmul_bytes.c). */
typedef struct gpu_bytes {
    uint32_t of; /* 1 + tensor; 0: none */
    int64_t form;
} gpu_bytes;

/* What the scratch for experts holds: the order of these ids. */
typedef struct gpu_order {
    uint32_t ids; /* 1 + tensor; 0: none */
    int64_t experts;
} gpu_order;

#define GPU_MAX_ROW_MAPS 8

struct gpu_lowering {
    gpu_builder builder;
    const gpu_target *target;
    uint32_t scratch[GPU_SCRATCH_COUNT]; /* 1 + private buffer; 0: none yet */
    uint32_t halves_of; /* 1 + tensor that the halves are of; 0: none */
    gpu_bytes bytes;
    gpu_order order;
    uint32_t counters;  /* private buffer of so many words that are 0 between */
    int64_t n_counters; /* dispatches */
    bool aliased;       /* tensors may be parts of others */
    struct gpu_row_map {
        uint32_t ids, buffer;
        int64_t rows;
    } maps[GPU_MAX_ROW_MAPS]; /* of SET_ROWS that others cover */
    uint32_t n_maps;
    struct gpu_angles {
        uint32_t pos, freq, buffer;
        float scale;
    } angles; /* buffer: 1 + that of the last who asked; 0: none yet */
};

/* A private buffer that is at least so large, shared by all that ask for
 * scratch of that kind. */
clv_status gpu_share_scratch(gpu_lowering *lowering, gpu_scratch kind,
                             uint64_t size, uint32_t *index);

/* ops/rows.c: the private buffer that has for each of the ids the row of the
 * state that it says, or -1 where there is none or a later id is the same.
 * Those who ask for the same share it. */
clv_status gpu_row_map(gpu_lowering *lowering, uint32_t node,
                       const gpu_tensor *ids, const gpu_tensor *state,
                       uint32_t *buffer);

/* ops/rope.c: the private buffer that has for each position sine and cosine of
 * each pair, times the scale: rows of 2 floats a pair. Positions and
 * frequencies do not change in a run; ropes of the same share it. */
clv_status gpu_rope_angles(gpu_lowering *lowering, uint32_t node,
                           const gpu_node *rope, uint32_t *buffer);

/* ops/norms.c: a sum and its RMS_NORM as one kernel. */
clv_status gpu_lower_add_norm(gpu_lowering *lowering, const gpu_node *add,
                              const gpu_node *norm);

/* The templates, by the names of their files. */
extern const char gpu_template_elementwise[], gpu_template_strided[],
    gpu_template_rms_norm[], gpu_template_add_rms_norm[],
    gpu_template_layer_norm[], gpu_template_softmax[], gpu_template_rope[],
    gpu_template_rope_slices[], gpu_template_rope_angles[],
    gpu_template_get_rows[], gpu_template_get_rows_scaled[],
    gpu_template_set_rows[], gpu_template_row_map[], gpu_template_packed[],
    gpu_template_weights[], gpu_template_weights_scaled[],
    gpu_template_weights_slices[], gpu_template_weights_words[],
    gpu_template_convert_layout[], gpu_template_convert_words[],
    gpu_template_convert_scales[], gpu_template_gemv[], gpu_template_gemm[],
    gpu_template_bytes[], gpu_template_bytes_scaled[],
    gpu_template_activations_int8[], gpu_template_gemm_int8[],
    gpu_template_attention[], gpu_template_attention_reduce[],
    gpu_template_tensor_opencl[], gpu_template_tensor_plain_opencl[],
    gpu_template_tiles_opencl[], gpu_template_gemm_tensor_f16_opencl[],
    gpu_template_gemm_tensor_int8_opencl[],
    gpu_template_activations_tensor_int8[], gpu_template_convert_tiles[],
    gpu_template_activations_tensor_f16[], gpu_template_gemm_tensor_opencl[],
    gpu_template_gemm_tensor_reduce[], gpu_template_gemv_tensor_opencl[],
    gpu_template_attention_prefill_tensor_opencl[],
    gpu_template_attention_decode_tensor_opencl[], gpu_template_zeros[],
    gpu_template_top_k[], gpu_template_experts_gemv_words[],
    gpu_template_experts_gemv[], gpu_template_experts_gemv_sum[],
    gpu_template_experts_sort[], gpu_template_experts_gemm[],
    gpu_template_experts_gemm_reduce[];
/* Those of GLSL alone. */
extern const char gpu_template_attention_prefill_tensor_glsl[],
    gpu_template_gemm_tensor_glsl[], gpu_template_tensor_glsl[],
    gpu_template_gemv_tensor_glsl[], gpu_template_tensor_plain_glsl[],
    gpu_template_tiles_glsl[], gpu_template_gemm_tensor_f16_glsl[],
    gpu_template_gemm_tensor_int8_glsl[], gpu_template_tensor_int8_glsl[],
    gpu_template_tensor_int8_plain_glsl[];

/* A call of a template, of groups x 1 x 1 work items; variant is the name too.
 */
void gpu_call_init(gpu_call *call, const char *name, const char *text,
                   uint32_t node, uint32_t group);
/* Adds a tensor that is rows: W counts rows, C its last dimension. */
gpu_operand *gpu_call_rows(gpu_call *call, const char *name,
                           const gpu_tensor *t, bool written);
/* Adds rows in private memory, of so many channels of dtype. */
gpu_operand *gpu_add_private_rows(gpu_call *call, const char *name,
                                  uint32_t buffer, uint32_t dtype,
                                  gpu_expr width, int64_t channels,
                                  int64_t stride, bool written);
/* Adds an op on what is written. operand: NULL for those of one value. */
void gpu_call_post(gpu_call *call, gpu_post_op op, const gpu_tensor *operand);
void gpu_call_param(gpu_call *call, const char *name, gpu_expr value);
void gpu_call_define(gpu_call *call, const char *name, int64_t value);
/* Has the call reduce by subgroups, where the target has them: it is a variant
 * of that name then. */
void gpu_call_subgroups(gpu_call *call, const gpu_target *target,
                        const char *variant);
/* The bits of a float, as a param that bits_f32() reads. */
gpu_expr gpu_float(float x);
/* ceil(expr / divisor) */
gpu_expr gpu_ceil(gpu_expr expr, int64_t divisor);
/* Work items of a group that works on a row together: a power of two, some 8
 * channels an item. */
uint32_t gpu_row_group(const gpu_target *target, int64_t channels);

#define GPU_MAX_GROUPS 65535 /* in each direction, that all devices take */
