/* Dealings with the host: errors, memory, and structs of other builds. */
#pragma once

#include <cleave/plugin.h>

#include <stdbool.h>
#include <stddef.h>

/* Tells the host why the current slot fails; returns status. */
clv_status npu_error(const clv_host_api *host, clv_status status,
                     const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
clv_status npu_no_memory(const clv_host_api *host, const char *what);

/* Reads a struct of another build: as much as both know, the rest zero. */
void npu_read(void *dst, uint32_t dst_size, const void *src);
/* Fills a struct of another build without its header, no more than it has. */
void npu_write(void *dst, const void *src, uint32_t src_size);
/* UNSUPPORTED if the chain has a node that must be understood. */
clv_status npu_check_chain(const clv_host_api *host, const clv_header *header);

/* n elements of size bytes, zeroed; NULL when the host is out of memory. n 0
 * gives one element. */
void *npu_alloc(const clv_host_api *host, uint64_t n, uint64_t size);
/* NULL is legal. */
void npu_free(const clv_host_api *host, void *ptr);

/* FNV-1a of 64 bits; begin with NPU_HASH_START. */
#define NPU_HASH_START 0xcbf29ce484222325u
uint64_t npu_hash(uint64_t h, const void *data, uint64_t size);
