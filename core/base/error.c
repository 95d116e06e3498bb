#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE 1024

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local uint64_t serial;

const char *clv_version(void)
{
    return CLV_BUILD_VERSION;
}

const char *clv_status_name(clv_status status)
{
    static const char *const names[] = {
        [-CLV_OK] = "ok",
        [-CLV_ERR_INVALID] = "invalid argument",
        [-CLV_ERR_UNSUPPORTED] = "unsupported",
        [-CLV_ERR_NO_MEMORY] = "out of memory",
        [-CLV_ERR_IO] = "input/output error",
        [-CLV_ERR_FORMAT] = "malformed data",
        [-CLV_ERR_NOT_FOUND] = "not found",
        [-CLV_ERR_VERSION] = "version mismatch",
        [-CLV_ERR_TIMEOUT] = "timed out",
        [-CLV_ERR_CANCELLED] = "cancelled",
        [-CLV_ERR_DEVICE_LOST] = "device lost",
        [-CLV_ERR_LIMIT] = "limit exceeded",
        [-CLV_ERR_REFUSED] = "refused",
        [-CLV_ERR_INTERNAL] = "internal error",
    };
    const uint32_t i = -(uint32_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown status";
}

const char *clv_last_error(void)
{
    return message;
}

uint64_t core_error_serial(void)
{
    return serial;
}

clv_status clv_error(clv_status status, const char *fmt, ...)
{
    /* Through a copy: the arguments may point into the old message. */
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(message, text, sizeof text);
    serial++;
    return status;
}

clv_status clv_error_prefix(clv_status status, const char *fmt, ...)
{
    char prefix[MESSAGE_SIZE], text[MESSAGE_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    if (snprintf(text, sizeof text, "%s: %s", prefix, message) < 0)
        text[0] = 0;
    memcpy(message, text, sizeof text);
    serial++;
    return status;
}

clv_status core_no_memory(const char *purpose)
{
    return clv_error(CLV_ERR_NO_MEMORY, "no memory %s", purpose);
}
