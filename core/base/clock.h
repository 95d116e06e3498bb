/* Times in nanoseconds, beside clv_now_ns(). */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

uint64_t core_clock_ns(clockid_t clock);
/* A moment of clv_now_ns(). */
struct timespec core_timespec(uint64_t ns);
/* A condition whose timed waits end at such moments. */
void core_condition_init(pthread_cond_t *condition);

/* Processor time that all threads of the process have used. */
uint64_t core_processor_ns(void);

/* Whether a process that used so much processor time in a while has waited in
 * it: less than a hundredth of one processor's. */
static inline bool core_is_idle(uint64_t used_ns, uint64_t while_ns)
{
    return used_ns < while_ns / 100;
}
