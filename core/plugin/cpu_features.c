#include "cpu_features.h"

#include "../base/names.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };

/* Registers that the operating system must save, as bits of XCR0. */
#define NONE 0x0u
#define AVX 0x6u
#define AVX512 0xe6u
#define AMX 0x60000u

typedef struct feature {
    const char *name;
    uint32_t leaf, subleaf, reg, bit, state;
} feature;

static const feature features[] = {
    {"cx8", 1, 0, EDX, 8, NONE},
    {"cmov", 1, 0, EDX, 15, NONE},
    {"mmx", 1, 0, EDX, 23, NONE},
    {"fxsr", 1, 0, EDX, 24, NONE},
    {"sse", 1, 0, EDX, 25, NONE},
    {"sse2", 1, 0, EDX, 26, NONE},
    {"pni", 1, 0, ECX, 0, NONE},
    {"pclmulqdq", 1, 0, ECX, 1, NONE},
    {"ssse3", 1, 0, ECX, 9, NONE},
    {"fma", 1, 0, ECX, 12, AVX},
    {"cx16", 1, 0, ECX, 13, NONE},
    {"sse4_1", 1, 0, ECX, 19, NONE},
    {"sse4_2", 1, 0, ECX, 20, NONE},
    {"movbe", 1, 0, ECX, 22, NONE},
    {"popcnt", 1, 0, ECX, 23, NONE},
    {"aes", 1, 0, ECX, 25, NONE},
    {"xsave", 1, 0, ECX, 26, NONE},
    {"avx", 1, 0, ECX, 28, AVX},
    {"f16c", 1, 0, ECX, 29, AVX},
    {"rdrand", 1, 0, ECX, 30, NONE},
    {"bmi1", 7, 0, EBX, 3, NONE},
    {"avx2", 7, 0, EBX, 5, AVX},
    {"bmi2", 7, 0, EBX, 8, NONE},
    {"erms", 7, 0, EBX, 9, NONE},
    {"avx512f", 7, 0, EBX, 16, AVX512},
    {"avx512dq", 7, 0, EBX, 17, AVX512},
    {"rdseed", 7, 0, EBX, 18, NONE},
    {"adx", 7, 0, EBX, 19, NONE},
    {"avx512ifma", 7, 0, EBX, 21, AVX512},
    {"clflushopt", 7, 0, EBX, 23, NONE},
    {"clwb", 7, 0, EBX, 24, NONE},
    {"avx512cd", 7, 0, EBX, 28, AVX512},
    {"sha_ni", 7, 0, EBX, 29, NONE},
    {"avx512bw", 7, 0, EBX, 30, AVX512},
    {"avx512vl", 7, 0, EBX, 31, AVX512},
    {"avx512vbmi", 7, 0, ECX, 1, AVX512},
    {"avx512_vbmi2", 7, 0, ECX, 6, AVX512},
    {"gfni", 7, 0, ECX, 8, NONE},
    {"vaes", 7, 0, ECX, 9, AVX},
    {"vpclmulqdq", 7, 0, ECX, 10, AVX},
    {"avx512_vnni", 7, 0, ECX, 11, AVX512},
    {"avx512_bitalg", 7, 0, ECX, 12, AVX512},
    {"avx512_vpopcntdq", 7, 0, ECX, 14, AVX512},
    {"movdiri", 7, 0, ECX, 27, NONE},
    {"fsrm", 7, 0, EDX, 4, NONE},
    {"avx512_vp2intersect", 7, 0, EDX, 8, AVX512},
    {"amx_bf16", 7, 0, EDX, 22, AMX},
    {"avx512_fp16", 7, 0, EDX, 23, AVX512},
    {"amx_tile", 7, 0, EDX, 24, AMX},
    {"amx_int8", 7, 0, EDX, 25, AMX},
    {"avx_vnni", 7, 1, EAX, 4, AVX},
    {"avx512_bf16", 7, 1, EAX, 5, AVX512},
    {"lahf_lm", 0x80000001, 0, ECX, 0, NONE},
    {"abm", 0x80000001, 0, ECX, 5, NONE},
    {"sse4a", 0x80000001, 0, ECX, 6, NONE},
    {"fma4", 0x80000001, 0, ECX, 16, AVX},
    {"lm", 0x80000001, 0, EDX, 29, NONE},
};

/* XCR0, or 0 where the operating system does not use it. */
static uint64_t saved_state(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

static bool present(const feature *f)
{
    uint32_t regs[4] = {0};
    if (!__get_cpuid_count(f->leaf, f->subleaf, &regs[EAX], &regs[EBX],
                           &regs[ECX], &regs[EDX]))
        return false;
    return regs[f->reg] >> f->bit & 1 &&
           (!f->state || (saved_state() & f->state) == f->state);
}

static core_feature by_processor(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (core_item_is(name, size, features[i].name))
            return present(&features[i]) ? CORE_FEATURE_PRESENT
                                         : CORE_FEATURE_ABSENT;
    return CORE_FEATURE_UNKNOWN;
}

const char *core_cpu_feature_name(size_t i)
{
    return i < sizeof features / sizeof *features ? features[i].name : NULL;
}

#else

#include <sys/auxv.h>

/* Names of the bits of the two words, from bit 0. */
#if defined(__aarch64__)
static const char *const names[2][32] = {
    {"fp",     "asimd",   "evtstrm",  "aes",     "pmull", "sha1",     "sha2",
     "crc32",  "atomics", "fphp",     "asimdhp", "cpuid", "asimdrdm", "jscvt",
     "fcma",   "lrcpc",   "dcpop",    "sha3",    "sm3",   "sm4",      "asimddp",
     "sha512", "sve",     "asimdfhm", "dit",     "uscat", "ilrcpc",   "flagm",
     "ssbs",   "sb",      "paca",     "pacg"},
    {"dcpodp",    "sve2",     "sveaes",    "svepmull",  "svebitperm",
     "svesha3",   "svesm4",   "flagm2",    "frint",     "svei8mm",
     "svef32mm",  "svef64mm", "svebf16",   "i8mm",      "bf16",
     "dgh",       "rng",      "bti",       "mte",       "ecv",
     "afp",       "rpres",    "mte3",      "sme",       "smei16i64",
     "smef64f64", "smei8i32", "smef16f32", "smeb16f32", "smef32f32",
     "smefa64",   "wfxt"},
};
#else
static const char *const names[2][32];
#endif

static core_feature by_processor(const char *name, size_t size)
{
    const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    for (size_t i = 0; i < 64; i++)
        if (names[i / 32][i % 32] &&
            core_item_is(name, size, names[i / 32][i % 32]))
            return words[i / 32] >> i % 32 & 1 ? CORE_FEATURE_PRESENT
                                               : CORE_FEATURE_ABSENT;
    return CORE_FEATURE_UNKNOWN;
}

const char *core_cpu_feature_name(size_t i)
{
    return i < 64 ? names[i / 32][i % 32] : NULL;
}

#endif

/* ------------------------------------------------------------------------ */
/* What the kernel does not list                                            */

/* The first processor's features in /proc/cpuinfo, between blanks; "" where
 * it cannot be read. */
static char kernel_list[8192];

static void read_kernel_list(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (file && !found && fgets(kernel_list, (int)sizeof kernel_list, file))
        found = !strncmp(kernel_list, "flags", 5) ||
                !strncmp(kernel_list, "Features", 8);
    if (file)
        fclose(file);
    if (!found)
        kernel_list[0] = 0;
}

core_feature core_cpu_feature_of(const char *list, const char *name,
                                 size_t size)
{
    core_feature answer = by_processor(name, size);
    if (answer != CORE_FEATURE_PRESENT || !list[0])
        return answer;
    const char *word;
    size_t n;
    while (core_next_item(&list, " \t\n", &word, &n))
        if (n == size && !memcmp(word, name, n))
            return CORE_FEATURE_PRESENT;
    return CORE_FEATURE_ABSENT;
}

core_feature core_cpu_feature(const char *name, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_kernel_list);
    return core_cpu_feature_of(kernel_list, name, size);
}
