/* Variants: ways to compute the same, of which a device may lack some, and of
 * which tuning finds the fastest. */
#pragma once

#include "kernels.h"

#include <stdlib.h>

#define GPU_MAX_VARIANTS 24
#define GPU_KEY_SIZE 64

/*
 * The variants of a node's computation, by numbers of the op's own, which mean
 * the same as long as the plugin's build stays the same. All are as exact as
 * the op's answer to op_caps says, which does not depend on a choice.
 */
typedef struct gpu_variants {
    char key[GPU_KEY_SIZE]; /* family, formats, classes of sizes:
                               "matmul-q8_0-o12-i13-n9" */
    uint32_t n, id[GPU_MAX_VARIANTS];
    uint32_t preferred; /* where nothing was tried; one of them */
} gpu_variants;

static inline void gpu_variant_add(gpu_variants *variants, uint32_t id)
{
    if (variants->n < GPU_MAX_VARIANTS)
        variants->id[variants->n++] = id;
}

/* Sizes from one power of two to the next are alike: ceil(log2(n)). */
static inline unsigned gpu_size_class(int64_t n)
{
    unsigned class = 0;
    while (class < 62 && (int64_t)1 << class < n)
        class ++;
    return class;
}

/* What the text of choices, as in gpu_target, says of the key; false: nothing
 * that is among the variants. */
static inline bool gpu_choice_find(const char *choices,
                                   const gpu_variants *variants, uint32_t *id)
{
    const size_t length = strlen(variants->key);
    for (const char *at = choices; at && *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        if (n > length + 1 && at[length] == '=' &&
            !memcmp(at, variants->key, length)) {
            char *end;
            unsigned long value = strtoul(at + length + 1, &end, 10);
            for (uint32_t i = 0; i < variants->n && end == at + n; i++)
                if (variants->id[i] == value) {
                    *id = variants->id[i];
                    return true;
                }
        }
        at += n;
    }
    return false;
}

/* The variant to use. */
static inline uint32_t gpu_choice(const gpu_target *target,
                                  const gpu_variants *variants)
{
    uint32_t id;
    return gpu_choice_find(target->choices, variants, &id)
               ? id
               : variants->preferred;
}

/* Whether the target's list of disabled variants has the name. */
static inline bool gpu_is_disabled(const gpu_target *target, const char *name)
{
    const size_t n = strlen(name);
    const char *at = target->disabled;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        if (length == n && !memcmp(at, name, n))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}
