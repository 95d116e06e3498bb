/* What the ops' lower functions work with. */
#pragma once

#include "kernels_templates.h"
#include "lower/check.h"

/* Scratch of one kind, which the nodes of a program use one after another. */
typedef enum gpu_scratch {
    GPU_SCRATCH_HALVES, /* x for matrix instructions, and its rows' scales */
    GPU_SCRATCH_HALVES_SCALE,
    GPU_SCRATCH_BYTES, /* or as bytes, with theirs, or these apart */
    GPU_SCRATCH_BYTES_SCALE,
    GPU_SCRATCH_QUANTS, /* or as bytes of blocks, and the blocks' scales */
    GPU_SCRATCH_QUANTS_SCALE,
    GPU_SCRATCH_PARTS,   /* of sums */
    GPU_SCRATCH_EXPERTS, /* products in the order of experts */
    GPU_SCRATCH_TILES,   /* weights, for a product */
    GPU_SCRATCH_PASSED,  /* x, from one step of a series to the next */
    GPU_SCRATCH_SUM,     /* x of a series, until all have read its terms */
    GPU_SCRATCH_COUNT
} gpu_scratch;

/* What the scratch for bytes holds: x in this form (ops/activations.c,
 * ops/gemm_wgmma.c). */
typedef struct gpu_bytes {
    uint32_t of; /* 1 + tensor; 0: none */
    int64_t form;
} gpu_bytes;

/* What the scratch for experts holds: the order of these ids. */
typedef struct gpu_order {
    uint32_t ids; /* 1 + tensor; 0: none */
    int64_t first, experts;
} gpu_order;

#define GPU_MAX_ROW_MAPS 8

struct gpu_lowering {
    gpu_builder builder;
    const struct gpu_chain *chain; /* to be fused with what writes its tensor;
                                      or NULL */
    bool chained;                  /* it was */
    const gpu_target *target;
    uint32_t scratch[GPU_SCRATCH_COUNT]; /* 1 + private buffer; 0: none yet */
    uint32_t halves_of; /* gpu_halves_form() of what they are; 0: none */
    gpu_bytes bytes;
    gpu_order order;
    uint32_t counters;  /* private buffer of so many words that are 0 between */
    int64_t n_counters; /* dispatches */
    uint32_t meeting;   /* 1 + the buffer by which groups meet; 0: none yet */
    bool aliased;       /* tensors may be parts of others */
    struct gpu_row_map {
        uint32_t ids, buffer;
        int64_t rows;
    } maps[GPU_MAX_ROW_MAPS]; /* of SET_ROWS that are fused into others */
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

/* A call of a template, of groups x 1 x 1 work items; variant is the name too.
 */
void gpu_call_init(gpu_call *call, const char *name, const char *text,
                   uint32_t group);
/* Adds text of helpers that the template uses. It must outlive the call. */
void gpu_call_use(gpu_call *call, const char *text);
/* Appends the call to what runs do, with the chain that is to be fused, if the
 * call writes the chain's tensor. */
clv_status gpu_add_run(gpu_lowering *lowering, const gpu_call *call);
/* Appends the call to the setup. */
static inline clv_status gpu_add_setup(gpu_lowering *lowering,
                                       const gpu_call *call)
{
    return gpu_build(&lowering->builder, call, true);
}
/* dst, an operand of the call, becomes the state of a chain that ends by a
 * SET_ROWS; its rows are written through the chain's map. False: no space. */
bool gpu_call_set_rows(gpu_call *call, gpu_operand *dst,
                       const struct gpu_chain *chain);
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
/* The same of a link (fused.h). */
struct gpu_link;
void gpu_call_link(gpu_call *call, const struct gpu_link *link);
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
