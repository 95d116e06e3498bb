#include "host.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

clv_status cpu_error(const clv_host_api *host, clv_status status,
                     const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->set_error(host->host, status, 0, text);
}

clv_status cpu_no_memory(const clv_host_api *host, const char *what,
                         uint64_t size)
{
    return cpu_error(host, CLV_ERR_NO_MEMORY,
                     "cpu: no memory for %s of %" PRIu64
                     " bytes; close other programs or use a smaller model",
                     what, size);
}

uint32_t cpu_required_extension(const clv_header *header)
{
    for (header = header->next; header; header = header->next)
        if (header->struct_type & CLV_STRUCT_REQUIRED)
            return header->struct_type;
    return 0;
}

clv_status cpu_check_chain(const clv_host_api *host, const clv_header *header)
{
    uint32_t type = cpu_required_extension(header);
    return type ? cpu_error(host, CLV_ERR_UNSUPPORTED,
                            "cpu: required extension %#x is not known here; "
                            "use a newer plugin",
                            (unsigned)type)
                : CLV_OK;
}

void cpu_read(void *dst, uint32_t size, const void *src)
{
    uint32_t has = ((const clv_header *)src)->struct_size;
    memset(dst, 0, size);
    memcpy(dst, src, has < size ? has : size);
}

void cpu_write(void *dst, const void *src, uint32_t size)
{
    const size_t skip = sizeof(clv_header);
    uint32_t has = ((clv_header *)dst)->struct_size;
    if (has < size)
        size = has;
    if (size > skip)
        memcpy((char *)dst + skip, (const char *)src + skip, size - skip);
}

void *cpu_alloc(const clv_host_api *host, uint64_t size, uint64_t alignment)
{
    void *ptr = host->alloc(host->host, size, alignment);
    if (ptr)
        memset(ptr, 0, size);
    return ptr;
}

void cpu_free(const clv_host_api *host, void *ptr)
{
    if (ptr)
        host->free(host->host, ptr);
}
