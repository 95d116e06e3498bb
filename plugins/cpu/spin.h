/*
 * Polling that stays friendly: pause instructions first, then the core is
 * offered to others between looks, and after the limit the caller blocks.
 */
#pragma once

#include "machine.h"

#include <sched.h>
#include <stdbool.h>

typedef struct cpu_spin {
    uint64_t begin; /* 0: not started */
    uint32_t rounds;
} cpu_spin;

#define CPU_SPIN_PAUSES 256 /* rounds before the first yield, some us */

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One round of polling; false once it has lasted limit_ns. */
static inline bool cpu_spin_once(cpu_spin *spin, uint64_t limit_ns)
{
    spin->rounds++;
    if (spin->rounds < CPU_SPIN_PAUSES && spin->rounds % 32) {
        cpu_relax();
        return true;
    }
    uint64_t now = cpu_now();
    if (!spin->begin)
        spin->begin = now;
    if (now - spin->begin >= limit_ns)
        return false;
    if (spin->rounds >= CPU_SPIN_PAUSES)
        sched_yield();
    return true;
}
