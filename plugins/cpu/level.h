#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Instruction sets that have kernels, each including those before it. */
typedef enum cpu_level {
    CPU_LEVEL_REF,
    CPU_LEVEL_AVX2,       /* AVX2, FMA, F16C */
    CPU_LEVEL_AVX512,     /* AVX-512 F, BW, DQ, VL */
    CPU_LEVEL_AVX512VNNI, /* VNNI */
    CPU_LEVEL_AMX,        /* AVX-512 BF16, AMX tiles and BF16 */
    CPU_LEVEL_COUNT
} cpu_level;

/* As in the option "features". */
const char *cpu_level_name(cpu_level level);

/* The highest level that processor and operating system both support. The
 * latter is asked to let this process use tiles. */
cpu_level cpu_detect_level(void);

/* The processor's name for itself; false where it has none. */
bool cpu_brand(char *out, size_t size);
