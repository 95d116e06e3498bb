#include "machine.h"
#include "level.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
