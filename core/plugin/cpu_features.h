/*
 * Features of the host's processor, by the names that /proc/cpuinfo has for
 * them: "avx2", "fma" on x86, "asimddp", "sve" on 64-bit Arm. A feature is
 * present if the processor announces it, the operating system saves the
 * registers it needs, and the kernel lists it. The kernel leaves out what an
 * erratum makes unusable, which the processor may still announce.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum core_feature {
    CORE_FEATURE_UNKNOWN = 0, /* no such name on this architecture */
    CORE_FEATURE_ABSENT = 1,
    CORE_FEATURE_PRESENT = 2,
} core_feature;

core_feature core_cpu_feature(const char *name, size_t size);
/* The same with the kernel's list given, words between blanks; "": unknown. */
core_feature core_cpu_feature_of(const char *list, const char *name,
                                 size_t size);
/* The i-th name known on this architecture, NULL at the end. */
const char *core_cpu_feature_name(size_t i);
