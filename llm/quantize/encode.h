/*
 * Encoders of the block formats that search for the scales of least error. The
 * result depends on the block alone. plugin_format.h has the formats.
 */
#pragma once

#include <stdint.h>

/* n elements, whole blocks, finite. */
typedef void (*llm_encoder)(const float *src, void *dst, int64_t n);

/* NULL for a clv_dtype that cannot be written. */
llm_encoder llm_encoder_of(uint32_t dtype);

void llm_encode_q4_0(const float *src, void *dst, int64_t n);
void llm_encode_q4_1(const float *src, void *dst, int64_t n);
void llm_encode_q5_0(const float *src, void *dst, int64_t n);
void llm_encode_q5_1(const float *src, void *dst, int64_t n);
void llm_encode_iq4_nl(const float *src, void *dst, int64_t n);

void llm_encode_q2_k(const float *src, void *dst, int64_t n);
void llm_encode_q3_k(const float *src, void *dst, int64_t n);
void llm_encode_q4_k(const float *src, void *dst, int64_t n);
void llm_encode_q5_k(const float *src, void *dst, int64_t n);
void llm_encode_q6_k(const float *src, void *dst, int64_t n);
void llm_encode_iq4_xs(const float *src, void *dst, int64_t n);
