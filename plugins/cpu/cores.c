#include "cores.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool cpu_cores_usable(cpu_cores *out)
{
    memset(out, 0, sizeof *out);
    return !sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out) &&
           cpu_cores_count(out);
}

uint32_t cpu_cores_count(const cpu_cores *cores)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < CPU_MAX_CORES / 64; i++)
        n += (uint32_t)__builtin_popcountll(cores->words[i]);
    return n;
}

bool cpu_cores_has(const cpu_cores *cores, uint32_t core)
{
    return core < CPU_MAX_CORES && cores->words[core / 64] >> core % 64 & 1;
}

void cpu_cores_add(cpu_cores *cores, uint32_t core)
{
    cores->words[core / 64] |= UINT64_C(1) << core % 64;
}

uint32_t cpu_cores_nth(const cpu_cores *cores, uint32_t index)
{
    uint32_t core = 0;
    index %= cpu_cores_count(cores);
    while (!cpu_cores_has(cores, core) || index--)
        core++;
    return core;
}

void cpu_cores_and(const cpu_cores *a, const cpu_cores *b, cpu_cores *out)
{
    for (uint32_t i = 0; i < CPU_MAX_CORES / 64; i++)
        out->words[i] = a->words[i] & b->words[i];
}

void cpu_cores_without(const cpu_cores *a, const cpu_cores *b, cpu_cores *out)
{
    for (uint32_t i = 0; i < CPU_MAX_CORES / 64; i++)
        out->words[i] = a->words[i] & ~b->words[i];
}

/* ------------------------------------------------------------------------ */
/* Text                                                                     */

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* The number at p, and where it ends; NULL: there is none. */
static const char *read_core(const char *p, uint32_t *core)
{
    const char *begin = p;
    for (*core = 0; *p >= '0' && *p <= '9'; p++) {
        *core = 10 * *core + (uint32_t)(*p - '0');
        if (*core >= CPU_MAX_CORES)
            *core = CPU_MAX_CORES - 1;
    }
    return p == begin ? NULL : skip_blanks(p);
}

bool cpu_cores_parse(const char *text, cpu_cores *out, size_t *at)
{
    const char *p = text, *end;
    memset(out, 0, sizeof *out);
    do {
        uint32_t first, last;
        p = skip_blanks(p + (p != text)); /* past the comma */
        *at = (size_t)(p - text);
        if (!(end = read_core(p, &first)))
            return false;
        last = first;
        if (*end == '-') {
            p = skip_blanks(end + 1);
            *at = (size_t)(p - text);
            if (!(end = read_core(p, &last)) || last < first)
                return false;
        }
        for (uint32_t i = first; i <= last; i++)
            cpu_cores_add(out, i);
        p = end;
    } while (*p == ',');
    *at = (size_t)(p - text);
    return !*p;
}

const char *cpu_cores_text(const cpu_cores *cores, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < CPU_MAX_CORES && used < size; i++) {
        uint32_t first = i;
        if (!cpu_cores_has(cores, i))
            continue;
        while (cpu_cores_has(cores, i + 1))
            i++;
        int n =
            snprintf(out + used, size - used, first == i ? "%s%u" : "%s%u-%u",
                     used ? "," : "", (unsigned)first, (unsigned)i);
        used += n > 0 ? (size_t)n : size;
    }
    return out;
}

/* ------------------------------------------------------------------------ */
/* The machine                                                              */

bool cpu_core_exists(uint32_t core)
{
    static const char all[] = "/sys/devices/system/cpu";
    char path[64];
    snprintf(path, sizeof path, "%s/cpu%u", all, (unsigned)core);
    return !access(path, F_OK) || access(all, F_OK);
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
        quota / period >= CPU_MAX_CORES)
        return 0;
    return (uint32_t)((quota + period - 1) / period);
}

uint32_t cpu_cores_threads(uint32_t count)
{
    uint32_t quota = quota_cores();
    if (!count) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (uint32_t)online : 1;
    }
    return quota && quota < count ? quota : count;
}
