/*
 * Private memory that the programs of a device share: weights that setups
 * repacked, where they make the same of the same bytes, and scratch, since
 * programs run one after another. The plugin holds a lock of its own around all
 * calls, and from gpu_cached_find() until a new entry is filled.
 */
#pragma once

#include "kernels.h"

typedef struct gpu_cached {
    struct gpu_cached *next;
    void *memory;        /* the plugin's; NULL: new, to be made and filled */
    uint32_t users;      /* programs */
    uint64_t size;       /* bytes taken */
    gpu_private scratch; /* what it was made for; of weights: size 0 */
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
/* Scratch that holds what is wanted and is none of taken[n], which may be NULL;
 * with one user more. */
clv_status gpu_cached_scratch(const clv_host_api *host, gpu_cached **list,
                              const gpu_private *want, gpu_cached *const *taken,
                              uint32_t n, gpu_cached **out);
/* One user less. Returns the memory that nobody uses any more, or NULL. */
void *gpu_cached_drop(const clv_host_api *host, gpu_cached **list,
                      gpu_cached *entry);
/* Whether the setup's dispatch fills the private buffer. */
bool gpu_cached_filled_by(const gpu_code *code, const gpu_dispatch *setup,
                          uint32_t index);
