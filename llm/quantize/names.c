#include "names.h"

#include <stdio.h>
#include <string.h>

bool llm_scale_name(llm_str weight, const char *suffix,
                    char out[LLM_SCALE_NAME])
{
    const size_t n = strlen("weight");
    if (weight.size < n || weight.size + strlen(suffix) >= LLM_SCALE_NAME ||
        memcmp(weight.data + weight.size - n, "weight", n) != 0)
        return false;
    snprintf(out, LLM_SCALE_NAME, "%.*s%s", (int)(weight.size - n), weight.data,
             suffix);
    return true;
}
