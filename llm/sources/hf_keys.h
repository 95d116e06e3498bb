/* Keys of config.json. Those that may be absent leave *out as it is; name is
 * for messages. */
#pragma once

#include "../base/json.h"

/* CLV_ERR_FORMAT: what the value must be. */
clv_status llm_hf_bad_key(const char *name, const char *key,
                          const char *wanted);
clv_status llm_hf_need(const llm_json *object, const char *key,
                       const char *name);
clv_status llm_hf_opt_u32(const llm_json *object, const char *key,
                          const char *name, uint32_t *out);
clv_status llm_hf_opt_f32(const llm_json *object, const char *key,
                          const char *name, float *out);
clv_status llm_hf_opt_bool(const llm_json *object, const char *key,
                           const char *name, bool *out);
