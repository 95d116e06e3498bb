#include "host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_CHAIN 64

void npu_read(void *dst, uint32_t dst_size, const void *src)
{
    clv_header header;
    memcpy(&header, src, sizeof header);
    memset(dst, 0, dst_size);
    memcpy(dst, src,
           header.struct_size < dst_size ? header.struct_size : dst_size);
}

void npu_write(void *dst, const void *src, uint32_t src_size)
{
    clv_header header;
    memcpy(&header, dst, sizeof header);
    uint32_t size =
        header.struct_size < src_size ? header.struct_size : src_size;
    if (size > sizeof header)
        memcpy((char *)dst + sizeof header, (const char *)src + sizeof header,
               size - sizeof header);
}

clv_status npu_check_chain(const clv_host_api *host, const clv_header *header)
{
    const clv_header *node = header->next;
    for (int i = 0; node && i < MAX_CHAIN; i++, node = node->next)
        if (node->struct_type & CLV_STRUCT_REQUIRED)
            return npu_error(host, CLV_ERR_UNSUPPORTED,
                             "npu_sim: the extension 0x%x is not known here; "
                             "leave it out",
                             (unsigned)node->struct_type);
    return node ? npu_error(host, CLV_ERR_INVALID,
                            "npu_sim: a chain of extensions without an end")
                : CLV_OK;
}

clv_status npu_error(const clv_host_api *host, clv_status status,
                     const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->set_error(host->host, status, 0, text);
}

clv_status npu_no_memory(const clv_host_api *host, const char *what)
{
    return npu_error(host, CLV_ERR_NO_MEMORY,
                     "npu_sim: the host has no memory for %s", what);
}

void *npu_alloc(const clv_host_api *host, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n ? n : 1, size, &bytes))
        return NULL;
    void *ptr = host->alloc(host->host, bytes, 64);
    if (ptr)
        memset(ptr, 0, bytes);
    return ptr;
}

void npu_free(const clv_host_api *host, void *ptr)
{
    if (ptr)
        host->free(host->host, ptr);
}

uint64_t npu_hash(uint64_t h, const void *data, uint64_t size)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}
