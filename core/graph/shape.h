/*
 * The table of ops of plugin.h as code: names, operands, and the rules that
 * give an op's output from its inputs.
 */
#pragma once

#include <cleave/cleave.h>

/* "matmul"; "unknown op" for an unknown value. */
const char *core_op_name(uint32_t op);

/* Fills *out (usage TRANSIENT) from the inputs, and from what is asked for in
 * it: the dtype of CONVERT, dims[1] of TOP_K; in[i] is NULL where an optional
 * input is absent. Ops without output leave *out alone and set *has_output to
 * false. The message of a failure starts with the op's name. */
clv_status core_shape_infer(uint32_t op, const clv_op_attr *attr,
                            const clv_tensor_desc *const in[], uint32_t n_in,
                            clv_tensor_desc *out, bool *has_output);

/* Dtype, rank and dims of a dense tensor are sound: known dtype, rank
 * 1..CLV_MAX_RANK, dims of at least 1, rows of whole blocks, a size below 2^63
 * bytes. *size may be NULL. */
clv_status core_shape_check(uint32_t dtype, uint32_t rank, const int64_t *dims,
                            uint64_t *size);

/* "f32 [<=512,64]"; symbols are shown by their bound. Returns text. */
#define CORE_SHAPE_TEXT 128
const char *core_shape_text(const clv_tensor_desc *desc,
                            char text[CORE_SHAPE_TEXT]);
