#include "answer.h"
#include "loss.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer chains are taken for loops. */
#define MAX_CHAIN 64

clv_status core_answer(const char *who, const char *slot, uint64_t serial,
                       clv_status status)
{
    if (status == CLV_OK)
        return CLV_OK;
    if (core_status_known(status) != status)
        return clv_error(CLV_ERR_INTERNAL,
                         "%s: %s answered the unknown status %d; the plugin is "
                         "faulty",
                         who, slot, status);
    if (core_error_serial() == serial)
        return clv_error(status, "%s: %s failed: %s; the plugin gave no reason",
                         who, slot, clv_status_name(status));
    return clv_error_prefix(status, "%s", who);
}

clv_status core_device_answer(clv_device *dev, const char *slot,
                              uint64_t serial, clv_status status)
{
    if (status == CLV_OK)
        return CLV_OK;
    if (status == CLV_ERR_DEVICE_LOST)
        core_device_lose(dev);
    char who[sizeof dev->id + 16];
    snprintf(who, sizeof who, "device '%s'", dev->id);
    return core_answer(who, slot, serial, status);
}

clv_status core_device_error(const clv_device *dev, clv_status status,
                             const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return clv_error(status, "device '%s': %s", dev->id, text);
}

clv_status core_device_broken(const clv_device *dev, const char *slot,
                              const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return core_device_error(dev, CLV_ERR_INTERNAL,
                             "%s answered %s; the plugin is faulty", slot,
                             text);
}

clv_status core_device_extended(const clv_device *dev, const char *slot)
{
    return core_device_error(dev, CLV_ERR_UNSUPPORTED,
                             "%s answered with an extension that this "
                             "libcleave does not know; install a newer one",
                             slot);
}

bool core_chain_ok(const clv_header *header)
{
    const clv_header *node = header->next;
    for (int i = 0; node && i < MAX_CHAIN; i++) {
        if (node->struct_type & CLV_STRUCT_REQUIRED)
            return false;
        node = node->next;
    }
    return !node;
}

bool core_struct_read(void *dst, uint32_t dst_size, const void *src,
                      uint32_t min_size)
{
    clv_header header;
    memcpy(&header, src, sizeof header);
    if (header.struct_size < min_size || !core_chain_ok(&header))
        return false;
    uint32_t size =
        header.struct_size < dst_size ? header.struct_size : dst_size;
    memset(dst, 0, dst_size);
    memcpy(dst, src, size);
    clv_header own = {dst_size, header.struct_type, NULL};
    memcpy(dst, &own, sizeof own);
    return true;
}

void core_name_clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}
