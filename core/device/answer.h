/*
 * Calling a plugin's slots, and reading what comes back.
 */
#pragma once

#include "../base/error.h"
#include "calls.h"

/* The slot's status, with who ("device 'cpu'") in front of the message, and a
 * message where the plugin gave none. Unknown statuses become CLV_ERR_INTERNAL.
 * serial: core_error_serial() from before the call. */
clv_status core_answer(const char *who, const char *slot, uint64_t serial,
                       clv_status status);
/* The same for a device; notices its loss. */
clv_status core_device_answer(clv_device *dev, const char *slot,
                              uint64_t serial, clv_status status);

/* What the slot itself answers. */
#define CORE_CALL_RAW(dev, allowed_ns, slot, ...)                              \
    __extension__({                                                            \
        core_call call_;                                                       \
        core_call_begin(&call_, (dev), #slot, (allowed_ns));                   \
        clv_status raw_ = (dev)->api->slot(__VA_ARGS__);                       \
        core_call_end(&call_);                                                 \
        raw_;                                                                  \
    })
#define CORE_CALL(dev, slot, ...)                                              \
    __extension__({                                                            \
        uint64_t serial_ = core_error_serial();                                \
        core_device_answer((dev), #slot, serial_,                              \
                           CORE_CALL_RAW(dev, 0, slot, __VA_ARGS__));          \
    })
/* For slots that answer nothing. */
#define CORE_CALL_VOID(dev, slot, ...)                                         \
    do {                                                                       \
        core_call call_;                                                       \
        core_call_begin(&call_, (dev), #slot, 0);                              \
        (dev)->api->slot(__VA_ARGS__);                                         \
        core_call_end(&call_);                                                 \
    } while (0)

/* For [dev] slots. */
#define CORE_CALL_LOCKED(dev, slot, ...)                                       \
    __extension__({                                                            \
        pthread_mutex_lock(&(dev)->mutex);                                     \
        clv_status status_ = CORE_CALL(dev, slot, __VA_ARGS__);                \
        pthread_mutex_unlock(&(dev)->mutex);                                   \
        status_;                                                               \
    })

/* As clv_error(), with "device 'x': " in front. */
clv_status core_device_error(const clv_device *dev, clv_status status,
                             const char *fmt, ...) CLV_PRINTF(3, 4);
/* A slot's answer breaks the contract: CLV_ERR_INTERNAL, "device 'x': slot
 * answered ...". */
clv_status core_device_broken(const clv_device *dev, const char *slot,
                              const char *fmt, ...) CLV_PRINTF(3, 4);
/* A slot's answer carries a chain node that must be understood:
 * CLV_ERR_UNSUPPORTED. */
clv_status core_device_extended(const clv_device *dev, const char *slot);

/* Copies a struct of another build: what both know; the rest of dst is zero and
 * its header this build's. False if src is smaller than min_size or carries a
 * chain node that must be understood. */
bool core_struct_read(void *dst, uint32_t dst_size, const void *src,
                      uint32_t min_size);
/* Whether no node of the chain is marked as required. */
bool core_chain_ok(const clv_header *header);
/* Ends text in its array and replaces control characters. */
void core_name_clean(char *text, size_t size);

/* CLV_ERR_INTERNAL for what is no clv_status. */
static inline clv_status core_status_known(clv_status status)
{
    return status > CLV_OK || status < CLV_ERR_INTERNAL ? CLV_ERR_INTERNAL
                                                        : status;
}

static inline bool core_is_pow2(uint64_t x)
{
    return x && !(x & (x - 1));
}
