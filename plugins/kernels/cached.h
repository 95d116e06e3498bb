/*
 * Weights that setups repacked, cached by device: programs whose setups
 * make the same of the same bytes share one private buffer, or image. The
 * plugin holds a lock of its own around all calls, and from gpu_cached_find()
 * until a new entry is filled.
 */
#pragma once

#include "kernels.h"

typedef struct gpu_cached {
    struct gpu_cached *next;
    void *memory;   /* the plugin's; NULL: new, to be made and filled */
    uint32_t users; /* programs */
    size_t n_key;
    unsigned char key[];
} gpu_cached;

/* Where a tensor of weights lies: the buffer's identity, and bytes from its
 * begin. */
typedef void (*gpu_place_of)(const void *ctx, uint32_t tensor, uint64_t *buffer,
                             uint64_t *offset);

/* The entry for private buffer `index` of the code, with one user more. */
clv_status gpu_cached_find(const clv_host_api *host, gpu_cached **list,
                           const gpu_code *code, uint32_t index,
                           gpu_place_of place_of, const void *ctx,
                           gpu_cached **out);
/* One user less. Returns the memory that nobody uses any more, or NULL. */
void *gpu_cached_drop(const clv_host_api *host, gpu_cached **list,
                      gpu_cached *entry);
/* Whether the setup's dispatch fills the private buffer. */
bool gpu_cached_filled_by(const gpu_code *code, const gpu_dispatch *setup,
                          uint32_t index);
