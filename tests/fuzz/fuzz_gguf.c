/* A GGUF file: all that the reader hands out is read, under every type. */
#include "../../llm/files/gguf_kv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sum;

static void touch(const void *data, uint64_t size)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size; i++)
        sum += bytes[i];
}

static void read_arrays(const llm_gguf *g, const char *key)
{
    llm_gguf_array array;
    llm_str *strings;
    uint64_t n;
    if (!llm_gguf_get_ints(g, key, &array))
        for (uint64_t i = 0; i < array.count; i++)
            sum += (uint64_t)llm_gguf_item_int(&array, i);
    if (!llm_gguf_get_floats(g, key, &array))
        for (uint64_t i = 0; i < array.count; i++)
            sum += llm_gguf_item_float(&array, i) > 0;
    if (!llm_gguf_get_strings(g, key, &strings, &n)) {
        for (uint64_t i = 0; i < n; i++)
            touch(strings[i].data, strings[i].size);
        free(strings);
    }
}

static void read_setting(const llm_gguf *g, const llm_gguf_kv *kv)
{
    uint32_t u;
    int32_t i;
    float f;
    bool yes;
    llm_str s;
    char *key = strndup(kv->key.data, kv->key.size);
    if (!key)
        return;
    touch(kv->data, kv->size);
    llm_gguf_get_u32(g, key, &u);
    llm_gguf_get_i32(g, key, &i);
    llm_gguf_get_f32(g, key, &f);
    llm_gguf_get_bool(g, key, &yes);
    if (!llm_gguf_get_str(g, key, &s))
        touch(s.data, s.size);
    read_arrays(g, key);
    free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    llm_gguf *g;
    if (llm_gguf_open_memory(data, size, "fuzz.gguf", &g))
        return 0;
    for (uint64_t i = 0; i < llm_gguf_kv_count(g); i++)
        read_setting(g, llm_gguf_kv_at(g, i));
    for (uint64_t i = 0; i < llm_gguf_tensor_count(g); i++) {
        const llm_gguf_tensor *t = llm_gguf_tensor_at(g, i);
        touch(t->name.data, t->name.size);
        touch(t->data, t->size);
    }
    llm_gguf_close(g);
    return 0;
}
