#include "gguf_internal.h"

/* Every type the format defines, so that a file with a type that is not
 * supported can still be checked and its settings used. */
static const struct {
    uint32_t type, dtype, elements, bytes;
    const char *name;
} types[] = {
    {0, CLV_DTYPE_F32, 1, 4, "F32"},
    {1, CLV_DTYPE_F16, 1, 2, "F16"},
    {2, CLV_DTYPE_Q4_0, 32, 18, "Q4_0"},
    {3, CLV_DTYPE_NONE, 32, 20, "Q4_1"},
    {6, CLV_DTYPE_NONE, 32, 22, "Q5_0"},
    {7, CLV_DTYPE_NONE, 32, 24, "Q5_1"},
    {8, CLV_DTYPE_Q8_0, 32, 34, "Q8_0"},
    {9, CLV_DTYPE_NONE, 32, 36, "Q8_1"},
    {10, CLV_DTYPE_NONE, 256, 84, "Q2_K"},
    {11, CLV_DTYPE_NONE, 256, 110, "Q3_K"},
    {12, CLV_DTYPE_NONE, 256, 144, "Q4_K"},
    {13, CLV_DTYPE_NONE, 256, 176, "Q5_K"},
    {14, CLV_DTYPE_NONE, 256, 210, "Q6_K"},
    {15, CLV_DTYPE_NONE, 256, 292, "Q8_K"},
    {16, CLV_DTYPE_NONE, 256, 66, "IQ2_XXS"},
    {17, CLV_DTYPE_NONE, 256, 74, "IQ2_XS"},
    {18, CLV_DTYPE_NONE, 256, 98, "IQ3_XXS"},
    {19, CLV_DTYPE_NONE, 256, 50, "IQ1_S"},
    {20, CLV_DTYPE_NONE, 32, 18, "IQ4_NL"},
    {21, CLV_DTYPE_NONE, 256, 110, "IQ3_S"},
    {22, CLV_DTYPE_NONE, 256, 82, "IQ2_S"},
    {23, CLV_DTYPE_NONE, 256, 136, "IQ4_XS"},
    {24, CLV_DTYPE_I8, 1, 1, "I8"},
    {25, CLV_DTYPE_NONE, 1, 2, "I16"},
    {26, CLV_DTYPE_I32, 1, 4, "I32"},
    {27, CLV_DTYPE_NONE, 1, 8, "I64"},
    {28, CLV_DTYPE_NONE, 1, 8, "F64"},
    {29, CLV_DTYPE_NONE, 256, 56, "IQ1_M"},
    {30, CLV_DTYPE_BF16, 1, 2, "BF16"},
    {34, CLV_DTYPE_NONE, 256, 54, "TQ1_0"},
    {35, CLV_DTYPE_NONE, 256, 66, "TQ2_0"},
    {39, CLV_DTYPE_NONE, 32, 17, "MXFP4"},
};

static const size_t n_types = sizeof types / sizeof types[0];

bool llm_gguf_type_block(uint32_t type, uint32_t *elements, uint32_t *bytes,
                         uint32_t *dtype)
{
    for (size_t i = 0; i < n_types; i++) {
        if (types[i].type == type) {
            *elements = types[i].elements;
            *bytes = types[i].bytes;
            *dtype = types[i].dtype;
            return true;
        }
    }
    return false;
}

const char *llm_gguf_type_name(uint32_t type)
{
    for (size_t i = 0; i < n_types; i++)
        if (types[i].type == type)
            return types[i].name;
    return NULL;
}

uint32_t llm_gguf_type_of(uint32_t dtype)
{
    for (size_t i = 0; i < n_types; i++)
        if (dtype != CLV_DTYPE_NONE && types[i].dtype == dtype)
            return types[i].type;
    return UINT32_MAX;
}

const char *llm_gguf_supported_types(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0";
}
