#include "gguf_internal.h"

#include <stdio.h>

/* The format's types that have no clv_dtype, so that a file with such a type
 * can still be checked and its settings used. */
static const struct {
    uint32_t type;
    llm_gguf_type_info info;
} others[] = {
    {9, {"Q8_1", 32, 36, 0}},      {15, {"Q8_K", 256, 292, 0}},
    {16, {"IQ2_XXS", 256, 66, 0}}, {17, {"IQ2_XS", 256, 74, 0}},
    {18, {"IQ3_XXS", 256, 98, 0}}, {19, {"IQ1_S", 256, 50, 0}},
    {21, {"IQ3_S", 256, 110, 0}},  {22, {"IQ2_S", 256, 82, 0}},
    {25, {"I16", 1, 2, 0}},        {27, {"I64", 1, 8, 0}},
    {28, {"F64", 1, 8, 0}},        {29, {"IQ1_M", 256, 56, 0}},
    {34, {"TQ1_0", 256, 54, 0}},   {35, {"TQ2_0", 256, 66, 0}},
    {39, {"MXFP4", 32, 17, 0}},
};

bool llm_gguf_type_find(uint32_t type, llm_gguf_type_info *out)
{
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++) {
        const clv_format *f = clv_format_of(i);
        if (f->gguf_name && f->gguf_type == type) {
            *out = (llm_gguf_type_info){f->gguf_name, f->elements, f->bytes, i};
            return true;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].type == type) {
            *out = others[i].info;
            return true;
        }
    }
    return false;
}

const char *llm_gguf_type_name(uint32_t type)
{
    llm_gguf_type_info info;
    return llm_gguf_type_find(type, &info) ? info.name : NULL;
}

llm_gguf_types llm_gguf_supported_types(void)
{
    llm_gguf_types types = {""};
    int at = 0;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++)
        if (clv_format_is(i, CLV_FORMAT_FLOAT | CLV_FORMAT_BLOCK))
            at += snprintf(types.text + at, sizeof types.text - (size_t)at,
                           "%s%s", at ? ", " : "", clv_format_of(i)->gguf_name);
    return types;
}
