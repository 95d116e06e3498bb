#include "encode.h"

#include <cleave/plugin_format.h>

#include <stddef.h>

llm_encoder llm_encoder_of(uint32_t dtype)
{
    static const llm_encoder searches[CLV_DTYPE_COUNT] = {
        [CLV_DTYPE_Q4_0] = llm_encode_q4_0,
        [CLV_DTYPE_Q4_1] = llm_encode_q4_1,
        [CLV_DTYPE_Q5_0] = llm_encode_q5_0,
        [CLV_DTYPE_Q5_1] = llm_encode_q5_1,
        [CLV_DTYPE_Q2_K] = llm_encode_q2_k,
        [CLV_DTYPE_Q3_K] = llm_encode_q3_k,
        [CLV_DTYPE_Q4_K] = llm_encode_q4_k,
        [CLV_DTYPE_Q5_K] = llm_encode_q5_k,
        [CLV_DTYPE_Q6_K] = llm_encode_q6_k,
        [CLV_DTYPE_IQ4_NL] = llm_encode_iq4_nl,
        [CLV_DTYPE_IQ4_XS] = llm_encode_iq4_xs,
    };
    const clv_format *f = clv_format_of(dtype);
    return !f ? NULL : searches[dtype] ? searches[dtype] : f->encode;
}
