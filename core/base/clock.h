/*
 * Processor time, beside clv_now_ns().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* That all threads of the process have used. */
uint64_t core_processor_ns(void);

/* Whether a process that used so much processor time in a while has waited in
 * it: less than a hundredth of one processor's. */
static inline bool core_is_idle(uint64_t used_ns, uint64_t while_ns)
{
    return used_ns < while_ns / 100;
}
