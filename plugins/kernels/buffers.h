/* What both plugins check before they allocate or import memory, and how much
 * of it they take. device: its name for people. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

/* A buffer of that size in a memory type of n_types, which has max bytes. */
clv_status gpu_check_alloc(const clv_host_api *host, const char *device,
                           uint32_t type, uint32_t n_types, uint64_t size,
                           uint64_t max);
/* Whether it is a pointer at a multiple of align. taken: the kind of pointers
 * that the type takes, a CLV_HANDLE_*; 0: none. */
clv_status gpu_check_import(const clv_host_api *host, const char *device,
                            const clv_import *import, uint32_t taken,
                            uint64_t align);

/* Memory of a device that may be taken, and that is. */
typedef struct gpu_budget {
    const char *plugin; /* its name: the key is PLUGIN.max_memory */
    uint64_t limit;     /* 0: the driver's */
    uint64_t used;
} gpu_budget;

/* Bytes of a device with so many that may be taken: by the key, else all but a
 * margin for the driver and for others. own: it is not the host's memory, of
 * which all may be taken. */
uint64_t gpu_memory_limit(const clv_host_api *host, uint64_t size, bool own);
/* size: by gpu_memory_limit(). */
gpu_budget gpu_budget_make(const clv_host_api *host, const char *plugin,
                           uint64_t size, bool own);
/* NO_MEMORY past the limit. */
clv_status gpu_budget_take(const clv_host_api *host, const char *device,
                           gpu_budget *budget, uint64_t size);
void gpu_budget_give(gpu_budget *budget, uint64_t size);
/* What is left, as clv_mem_type.budget has it. */
uint64_t gpu_budget_left(const gpu_budget *budget);
