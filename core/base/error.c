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
    switch (status) {
    case CLV_OK:
        return "ok";
    case CLV_ERR_INVALID:
        return "invalid argument";
    case CLV_ERR_UNSUPPORTED:
        return "unsupported";
    case CLV_ERR_NO_MEMORY:
        return "out of memory";
    case CLV_ERR_IO:
        return "input/output error";
    case CLV_ERR_FORMAT:
        return "malformed data";
    case CLV_ERR_NOT_FOUND:
        return "not found";
    case CLV_ERR_VERSION:
        return "version mismatch";
    case CLV_ERR_TIMEOUT:
        return "timed out";
    case CLV_ERR_CANCELLED:
        return "cancelled";
    case CLV_ERR_DEVICE_LOST:
        return "device lost";
    case CLV_ERR_LIMIT:
        return "limit exceeded";
    case CLV_ERR_REFUSED:
        return "refused";
    case CLV_ERR_INTERNAL:
        return "internal error";
    }
    return "unknown status";
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
