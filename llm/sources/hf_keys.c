#include "hf_keys.h"

#include <math.h>

clv_status llm_hf_bad_key(const char *name, const char *key, const char *wanted)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: '%s' must be %s; correct the file or download it "
                     "again",
                     name, key, wanted);
}

/* Absent: *out keeps its value. */
clv_status llm_hf_opt_u32(const llm_json *object, const char *key,
                          const char *name, uint32_t *out)
{
    uint64_t value;
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > UINT32_MAX)
        return llm_hf_bad_key(name, key, "a whole number below 2^32");
    *out = (uint32_t)value;
    return CLV_OK;
}

clv_status llm_hf_need(const llm_json *object, const char *key,
                       const char *name)
{
    if (llm_json_get(object, key))
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT, "%s: has no '%s'; download it again", name,
                     key);
}

clv_status llm_hf_opt_f32(const llm_json *object, const char *key,
                          const char *name, float *out)
{
    double value;
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_number(item, &value) || !(fabs(value) <= 3e38))
        return llm_hf_bad_key(name, key, "a number");
    *out = (float)value;
    return CLV_OK;
}

clv_status llm_hf_opt_bool(const llm_json *object, const char *key,
                           const char *name, bool *out)
{
    const llm_json *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_is(item, LLM_JSON_BOOL))
        return llm_hf_bad_key(name, key, "true or false");
    *out = llm_json_is_true(item);
    return CLV_OK;
}
