#include "level.h"

#include <stdint.h>
#include <string.h>

const char *cpu_level_name(cpu_level level)
{
    static const char *const names[CPU_LEVEL_COUNT] = {
        [CPU_LEVEL_REF] = "ref",       [CPU_LEVEL_AVX2] = "avx2",
        [CPU_LEVEL_AVX512] = "avx512", [CPU_LEVEL_AVX512VNNI] = "avx512vnni",
        [CPU_LEVEL_AMX] = "amx",
    };
    return names[level];
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Register state that the system saves (XCR0). */
#define STATE_YMM 0x06u /* XMM, upper halves */
#define STATE_ZMM 0xe6u /* also mask registers, ZMM */
#define STATE_TILES 0x60000u

/* Of arch_prctl(): Linux saves tiles for processes that ask it to. */
#define REQUEST_STATE 0x1023
#define TILE_DATA 18

static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

#ifdef CPU_TILES_EMULATED

static bool has_tiles(uint32_t features, uint64_t state)
{
    (void)features;
    (void)state;
    return true;
}

#else

/* features: EDX of leaf 7. */
static bool has_tiles(uint32_t features, uint64_t state)
{
    unsigned a, b, c, d;
    return has(features, bit_AMX_TILE | bit_AMX_BF16) &&
           (state & STATE_TILES) == STATE_TILES &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, bit_AVX512BF16) &&
           !syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA);
}

#endif

/* The best level by the processor's word and the state that is saved. */
static cpu_level detect(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return CPU_LEVEL_REF;
    uint64_t state = saved_state();
    if ((state & STATE_YMM) != STATE_YMM ||
        !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, bit_AVX2))
        return CPU_LEVEL_REF;
    if ((state & STATE_ZMM) != STATE_ZMM ||
        !has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL))
        return CPU_LEVEL_AVX2;
    if (!has(c, bit_AVX512VNNI))
        return CPU_LEVEL_AVX512;
    return has_tiles(d, state) ? CPU_LEVEL_AMX : CPU_LEVEL_AVX512VNNI;
}

/* The kernel's list of features, between blanks; "" where there is none. */
static void read_features(char *list, int size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (file && !found && fgets(list, size, file))
        found = !strncmp(list, "flags", 5);
    if (file)
        fclose(file);
    if (!found)
        list[0] = 0;
    list[strcspn(list, "\n")] = 0;
}

static bool is_listed(const char *list, const char *name)
{
    const size_t size = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += size)
        if (at > list && at[-1] == ' ' && (!at[size] || at[size] == ' '))
            return true;
    return false;
}

/* The kernel hides what the processor announces but does not do right. */
cpu_level cpu_detect_level(void)
{
    static const struct {
        const char *name;
        cpu_level level; /* the first that needs it */
    } needed[] = {
        {"avx", CPU_LEVEL_AVX2},
        {"avx2", CPU_LEVEL_AVX2},
        {"fma", CPU_LEVEL_AVX2},
        {"f16c", CPU_LEVEL_AVX2},
        {"avx512f", CPU_LEVEL_AVX512},
        {"avx512bw", CPU_LEVEL_AVX512},
        {"avx512dq", CPU_LEVEL_AVX512},
        {"avx512vl", CPU_LEVEL_AVX512},
        {"avx512_vnni", CPU_LEVEL_AVX512VNNI},
#ifndef CPU_TILES_EMULATED
        {"avx512_bf16", CPU_LEVEL_AMX},
        {"amx_tile", CPU_LEVEL_AMX},
        {"amx_bf16", CPU_LEVEL_AMX},
#endif
    };
    char list[8192] = "";
    cpu_level level = detect();
    read_features(list, sizeof list);
    for (size_t i = sizeof needed / sizeof *needed; list[0] && i-- > 0;)
        if (needed[i].level <= level && !is_listed(list, needed[i].name))
            level = needed[i].level - 1;
    return level;
}

bool cpu_brand(char *out, size_t size)
{
    unsigned regs[12];
    char text[sizeof regs + 1] = "";
    if ((unsigned)__get_cpuid_max(0x80000000, NULL) < 0x80000004u)
        return false;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &regs[4 * i], &regs[4 * i + 1],
                    &regs[4 * i + 2], &regs[4 * i + 3]);
    memcpy(text, regs, sizeof regs);
    const char *begin = text + strspn(text, " ");
    size_t length = strlen(begin);
    while (length && begin[length - 1] == ' ')
        length--;
    if (!length || length >= size)
        return false;
    memcpy(out, begin, length);
    out[length] = 0;
    return true;
}

#else

cpu_level cpu_detect_level(void)
{
    return CPU_LEVEL_REF;
}

bool cpu_brand(char *out, size_t size)
{
    (void)out;
    (void)size;
    return false;
}

#endif
