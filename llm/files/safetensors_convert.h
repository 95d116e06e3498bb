/* Elements of safetensors files as the types of C. */
#pragma once

#include "safetensors.h"

/* All elements converted: floats from F64, F32, F16 and BF16, integers from
 * I64, I32, I16, I8, U8 and BOOL. out has space for tensor->count.
 * CLV_ERR_UNSUPPORTED for other types, CLV_ERR_FORMAT for a value that does not
 * fit. */
clv_status llm_safetensors_to_f32(const llm_safetensors_tensor *tensor,
                                  float *out);
clv_status llm_safetensors_to_i32(const llm_safetensors_tensor *tensor,
                                  int32_t *out);
