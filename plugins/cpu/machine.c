#include "machine.h"
#include "level.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_CORES 8192

typedef union core_mask {
    cpu_set_t set; /* the first part, for the system's prototypes */
    unsigned char bytes[MAX_CORES / 8];
} core_mask;

static uint32_t count_cores(const core_mask *mask)
{
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof mask->bytes; i++)
        n += (uint32_t)__builtin_popcount(mask->bytes[i]);
    return n;
}

/* Whole cores of the control group's time quota; 0: no quota. */
static uint32_t quota_cores(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file)
        return 0;
    double quota, period;
    int n = fscanf(file, "%lf %lf", &quota, &period);
    fclose(file);
    if (n != 2 || !(quota > 0) || !(period > 0) ||
        quota / period >= MAX_CORES)
        return 0;
    return (uint32_t)((quota + period - 1) / period);
}

uint32_t cpu_usable_cores(void)
{
    core_mask mask;
    memset(&mask, 0, sizeof mask);
    uint32_t n = 0, quota = quota_cores();
    if (!sched_getaffinity(0, sizeof mask, &mask.set))
        n = count_cores(&mask);
    if (!n) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        n = online > 0 ? (uint32_t)online : 1;
    }
    return quota && quota < n ? quota : n;
}

void cpu_pin_thread(uint32_t index)
{
    core_mask mask, one;
    memset(&mask, 0, sizeof mask);
    memset(&one, 0, sizeof one);
    if (sched_getaffinity(0, sizeof mask, &mask.set))
        return;
    index %= count_cores(&mask);
    for (uint32_t i = 0; i < MAX_CORES; i++) {
        unsigned char bit = (unsigned char)(1u << i % 8);
        if (!(mask.bytes[i / 8] & bit) || index--)
            continue;
        one.bytes[i / 8] = bit;
        sched_setaffinity(0, sizeof one, &one.set);
        return;
    }
}

/* The text behind "key :" in a file of such lines. */
static int read_field(const char *path, const char *key, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    char line[512];
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)))
            continue;
        char *text = colon + 1 + strspn(colon + 1, " \t");
        text[strcspn(text, "\n")] = 0;
        found = *text && strlen(text) < size;
        if (found)
            memcpy(out, text, strlen(text) + 1);
    }
    if (file)
        fclose(file);
    return found;
}

void cpu_machine_name(char *out, size_t size)
{
    if (cpu_brand(out, size) ||
        read_field("/proc/cpuinfo", "model name", out, size) ||
        read_field("/proc/cpuinfo", "Model", out, size))
        return;
    snprintf(out, size, "CPU");
}

uint64_t cpu_memory_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

uint64_t cpu_memory_free(void)
{
    char text[64];
    unsigned long long kib;
    if (!read_field("/proc/meminfo", "MemAvailable", text, sizeof text) ||
        sscanf(text, "%llu", &kib) != 1)
        return 0;
    return (uint64_t)kib * 1024;
}

uint64_t cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
