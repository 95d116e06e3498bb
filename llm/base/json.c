#include "json.h"

#include "str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

clv_status llm_json_parse(const void *data, uint64_t size, const char *name,
                          cJSON **out)
{
    /* Through a copy with a NUL: cJSON before 1.7.18 may look one byte past
     * the end. */
    char *text = size < SIZE_MAX ? malloc(size + 1) : NULL;
    if (!text)
        return llm_no_memory(name);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    cJSON *root = cJSON_ParseWithLength(text, size + 1);
    free(text);
    if (!root)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: not valid JSON; download it again", name);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return clv_error(CLV_ERR_FORMAT,
                         "%s: its JSON is not an object; download it again",
                         name);
    }
    *out = root;
    return CLV_OK;
}

clv_status llm_json_load(const char *path, cJSON **out)
{
    clv_file_map map = {0};
    CLV_TRY(clv_file_map_open(path, &map));
    clv_status status = llm_json_parse(map.data, map.size, path, out);
    clv_file_map_close(&map);
    return status;
}

clv_status llm_json_load_in(const char *dir, const char *file, cJSON **out)
{
    *out = NULL;
    char *path = llm_path_join(dir, file);
    if (!path)
        return CLV_ERR_NO_MEMORY;
    clv_status status = access(path, F_OK) ? CLV_OK : llm_json_load(path, out);
    free(path);
    return status;
}

const cJSON *llm_json_get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

const char *llm_json_string(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

bool llm_json_flag(const cJSON *object, const char *key, bool fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : fallback;
}

bool llm_json_u64(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item))
        return false;
    double value = item->valuedouble;
    if (!(value >= 0 && value <= 0x1p53) || value != floor(value))
        return false;
    *out = (uint64_t)value;
    return true;
}
