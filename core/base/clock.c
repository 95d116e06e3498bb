#include "clock.h"

#include <cleave/cleave.h>

#define SECOND 1000000000u

uint64_t core_clock_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

uint64_t clv_now_ns(void)
{
    return core_clock_ns(CLOCK_MONOTONIC);
}

uint64_t core_processor_ns(void)
{
    return core_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

struct timespec core_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / SECOND), (long)(ns % SECOND)};
}

void core_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
