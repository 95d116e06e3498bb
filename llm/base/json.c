#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

clv_status llm_json_parse(const void *data, uint64_t size, const char *name,
                          cJSON **out)
{
    /* Through a copy with a NUL: cJSON before 1.7.18 may look one byte past
     * the end. */
    char *text = size < SIZE_MAX ? malloc(size + 1) : NULL;
    if (!text)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory to parse it", name);
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
    clv_status status = clv_file_map_open(path, &map);
    if (status)
        return status;
    status = llm_json_parse(map.data, map.size, path, out);
    clv_file_map_close(&map);
    return status;
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
