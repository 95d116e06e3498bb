#include "hf_keys.h"

#include "../base/json.h"

#include <math.h>

clv_status llm_hf_bad_key(const char *name, const char *key, const char *wanted)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: '%s' must be %s; correct the file or download it "
                     "again",
                     name, key, wanted);
}

/* Absent: *out keeps its value. */
clv_status llm_hf_opt_u32(const cJSON *object, const char *key,
                          const char *name, uint32_t *out)
{
    uint64_t value;
    const cJSON *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!llm_json_u64(item, &value) || value > UINT32_MAX)
        return llm_hf_bad_key(name, key, "a whole number below 2^32");
    *out = (uint32_t)value;
    return CLV_OK;
}

clv_status llm_hf_need(const cJSON *object, const char *key, const char *name)
{
    if (llm_json_get(object, key))
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT, "%s: has no '%s'; download it again", name,
                     key);
}

clv_status llm_hf_opt_f32(const cJSON *object, const char *key,
                          const char *name, float *out)
{
    const cJSON *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 3e38))
        return llm_hf_bad_key(name, key, "a number");
    *out = (float)item->valuedouble;
    return CLV_OK;
}

clv_status llm_hf_opt_bool(const cJSON *object, const char *key,
                           const char *name, bool *out)
{
    const cJSON *item = llm_json_get(object, key);
    if (!item)
        return CLV_OK;
    if (!cJSON_IsBool(item))
        return llm_hf_bad_key(name, key, "true or false");
    *out = cJSON_IsTrue(item);
    return CLV_OK;
}
