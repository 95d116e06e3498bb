/* A safetensors file: every tensor is read and converted both ways. */
#include "../../llm/files/safetensors_convert.h"

#include <stddef.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sum;

static void convert(const llm_safetensors_tensor *t)
{
    float *floats = calloc(t->count ? t->count : 1, sizeof *floats);
    int32_t *ints = calloc(t->count ? t->count : 1, sizeof *ints);
    if (floats && ints) {
        llm_safetensors_to_f32(t, floats);
        llm_safetensors_to_i32(t, ints);
    }
    free(floats);
    free(ints);
    for (uint64_t i = 0; i < t->size; i++)
        sum += t->data[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    llm_safetensors *st;
    if (llm_safetensors_open_memory(data, size, "fuzz.safetensors", &st))
        return 0;
    for (uint64_t i = 0; i < llm_safetensors_count(st); i++) {
        convert(llm_safetensors_at(st, i));
        sum += llm_safetensors_find(st, llm_safetensors_at(st, i)->name) != 0;
    }
    llm_safetensors_close(st);
    return 0;
}
