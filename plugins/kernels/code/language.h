/*
 * The words that templates are written in, beside those that OpenCL C and GLSL
 * share (int, uint, if, for, vector members x y z w, ...):
 *
 *   f32 f32x4 u32x4      types; f32x4_of(a,b,c,d), f32x4_all(a),
 * u32x4_of(a,b,c,d) place, PLACE(x)      unsigned integer of bytes in a binding
 *   F32(x) INT(x) UINT(x)  conversions; bits_f32(u) f32_bits(f) of the bits
 *   GLOBAL_ID(i) LOCAL_ID(i) GROUP_ID(i)  int
 *   BARRIER              of the group, and of its LOCAL arrays
 *   IN_REGISTERS         before a loop over a private array: unrolled in OpenCL
 *                        C, whose compilers else keep the array in memory
 *   half_f32(u) f32_half(f) bf16_f32(u) f32_bf16(f)  16 bits and f32, rounding
 *                        to the nearest
 *   exp_f32 sqrt_f32 silu_f32 gelu_f32; silu4 gelu4 of f32x4
 *   GROUP_ADD(v, part) GROUP_MAX(v, part)  macros: v of all GROUP items, in
 * each of them; part: LOCAL f32 part[GROUP] SUBGROUP_ADD(v) SUBGROUP_FIRST
 * SUBGROUP_ID SUBGROUP_COUNT  where SUBGROUPS is defined sin_cos(x, s, c)
 * macro: sets s and c, to f32's precision up to 2^17
 */
#pragma once

#include "code.h"

void gpu_language_prelude(gpu_text *out, const gpu_target *target,
                          const gpu_call *call);
/* A part of it: GROUP_ADD and so on. */
void gpu_language_reductions(gpu_text *out, bool subgroups);
/* The functions that read and write one operand. */
void gpu_language_accessors(gpu_text *out, const gpu_target *target,
                            const gpu_operand *operand);
/* The same of one in slices. */
void gpu_language_slices(gpu_text *out, const gpu_target *target,
                         const gpu_operand *operand);
/* Whether the operand lies in images. */
bool gpu_language_is_image(const gpu_operand *operand);
/* The name of an operand's object k. */
void gpu_language_object(gpu_text *out, const gpu_operand *operand, uint32_t k);
/* An operand as arguments of an OpenCL kernel, apart: as gpu_call has it; as
 * bindings from i on in GLSL. */
void gpu_language_argument(gpu_text *out, const gpu_operand *operand,
                           bool apart);
void gpu_language_binding(gpu_text *out, const gpu_target *target,
                          const gpu_operand *operand, uint32_t i);

/* Between those: '$' is the operand's name; and the words of a buffer. */
void gpu_language_named(gpu_text *out, const char *text, const char *name);
void gpu_language_words(gpu_text *out, const gpu_target *target,
                        const gpu_operand *operand);
