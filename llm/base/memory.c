#include "memory.h"

#include <stdio.h>

uint64_t llm_memory_available(void)
{
    char line[128];
    unsigned long long kib;
    uint64_t bytes = UINT64_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && bytes == UINT64_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            bytes = (uint64_t)kib * 1024;
    if (file)
        fclose(file);
    return bytes;
}

clv_status llm_map_copy(const clv_file_map *map, const char *path)
{
    const uint64_t available = llm_memory_available();
    if (map->size > available)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: has %.1f MiB, %.1f MiB of memory are free; let "
                         "it be mapped instead of copied",
                         path, (double)map->size / (1 << 20),
                         (double)available / (1 << 20));
    return clv_file_map_copy(map, path);
}
