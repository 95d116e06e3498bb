/* What both plugins check before they allocate or import memory. device: its
 * name for people. */
#pragma once

#include <cleave/plugin_util.h>

#include <stdbool.h>

/* A buffer of that size in a memory type of n_types, which has max bytes. */
clv_status gpu_check_alloc(const clv_host_api *host, const char *device,
                           uint32_t type, uint32_t n_types, uint64_t size,
                           uint64_t max);
/* Whether it is a host pointer, at a multiple of align. taken: whether the type
 * takes such pointers. */
clv_status gpu_check_import(const clv_host_api *host, const char *device,
                            const clv_import *import, bool taken,
                            uint64_t align);
