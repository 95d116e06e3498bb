/* Dealings with the host: errors, memory, and structs of other versions. */
#pragma once

#include <cleave/plugin.h>

/* Tells the host why the current slot fails; returns status. */
clv_status cpu_error(const clv_host_api *host, clv_status status,
                     const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* CLV_ERR_NO_MEMORY for something of that many bytes. */
clv_status cpu_no_memory(const clv_host_api *host, const char *what,
                         uint64_t size);

/* The type of the first extension behind a struct that must be understood; 0 if
 * there is none. */
uint32_t cpu_required_extension(const clv_header *header);
/* Fails if the chain behind a struct holds a node that must be understood. */
clv_status cpu_check_chain(const clv_host_api *host, const clv_header *header);

/* Reads a struct written by a host of another version: what it does not have
 * becomes zero. */
void cpu_read(void *dst, uint32_t size, const void *src);

/* Fills a struct of the host, not past the size it has there. */
void cpu_write(void *dst, const void *src, uint32_t size);

/* Zeroed memory from the host; NULL when it is out. */
void *cpu_alloc(const clv_host_api *host, uint64_t size, uint64_t alignment);
/* NULL is legal. */
void cpu_free(const clv_host_api *host, void *ptr);
