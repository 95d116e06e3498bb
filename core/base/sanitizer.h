/* Sanitizers that this libcleave is built with: CLV_SANITIZER_*. */
#pragma once

#include <cleave/cleave.h>

static inline uint32_t core_sanitizers(void)
{
    uint32_t bits = 0;
#if defined(__SANITIZE_ADDRESS__)
    bits |= CLV_SANITIZER_ADDRESS;
#endif
#if defined(__SANITIZE_THREAD__)
    bits |= CLV_SANITIZER_THREAD;
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    bits |= CLV_SANITIZER_ADDRESS;
#endif
#if __has_feature(thread_sanitizer)
    bits |= CLV_SANITIZER_THREAD;
#endif
#endif
    return bits;
}
