/*
 * Weights that setups laid out anew, kept once a device: programs whose setups
 * make the same of the same bytes share one private buffer, or image. The
 * plugin holds a lock of its own around all calls, and from gpu_kept_find()
 * until a new entry is filled.
 */
#pragma once

#include "kernels.h"

typedef struct gpu_kept {
    struct gpu_kept *next;
    void *memory;   /* the plugin's; NULL: new, to be made and filled */
    uint32_t users; /* programs */
    size_t n_key;
    unsigned char key[];
} gpu_kept;

/* Where a tensor of weights lies: the buffer's identity, and bytes from its
 * begin. */
typedef void (*gpu_place_of)(const void *ctx, uint32_t tensor, uint64_t *buffer,
                             uint64_t *offset);

/* The entry for private buffer `index` of the code, with one user more. */
clv_status gpu_kept_find(const clv_host_api *host, gpu_kept **list,
                         const gpu_code *code, uint32_t index,
                         gpu_place_of place_of, const void *ctx,
                         gpu_kept **out);
/* One user less. Returns the memory that nobody uses any more, or NULL. */
void *gpu_kept_drop(const clv_host_api *host, gpu_kept **list, gpu_kept *kept);
/* Whether the setup's dispatch fills the private buffer. */
bool gpu_kept_filled_by(const gpu_code *code, const gpu_dispatch *setup,
                        uint32_t index);
