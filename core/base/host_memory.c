#include "host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 4096u

/* The files of a control group with its limit, its use, and what of that are
 * pages of files that can be read again. */
typedef struct group_files {
    const char *mount; /* from the root */
    const char *limit, *use;
    const char *pages[2]; /* in memory.stat */
} group_files;

static const group_files version_1 = {
    "/sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    {"total_inactive_file", "total_active_file"}};
static const group_files version_2 = {"/sys/fs/cgroup",
                                      "memory.max",
                                      "memory.current",
                                      {"inactive_file", "active_file"}};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number after a name at the begin of a line, "" for the file's first. */
static bool read_number(const char *path, const char *name, uint64_t *out)
{
    char line[256];
    const size_t n = strlen(name);
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = !strncmp(line, name, n) && strchr(" :\t0123456789", line[n]) &&
                sscanf(line + n + (line[n] == ':'), "%" SCNu64, out) == 1;
    if (file)
        fclose(file);
    return found;
}

static uint64_t number_in(const char *group, const char *file, const char *name)
{
    char path[PATH_SIZE];
    uint64_t value;
    const int n = snprintf(path, sizeof path, "%s/%s", group, file);
    return n > 0 && (size_t)n < sizeof path && read_number(path, name, &value)
               ? value
               : UINT64_MAX;
}

static uint64_t free_in(const group_files *files, const char *group)
{
    const uint64_t limit = number_in(group, files->limit, "");
    uint64_t use = number_in(group, files->use, "");
    if (limit == UINT64_MAX || use == UINT64_MAX)
        return UINT64_MAX; /* no such group, or "max" */
    for (int i = 0; i < 2; i++) {
        const uint64_t pages = number_in(group, "memory.stat", files->pages[i]);
        if (pages != UINT64_MAX)
            use -= smaller(use, pages);
    }
    return limit - smaller(limit, use);
}

/* The group and all that it is in. In a container its path may be that of the
 * machine, of which the mount shows only the end: groups that are not there do
 * not count. */
static uint64_t free_on_path(const char *root, const group_files *files,
                             const char *path)
{
    char group[PATH_SIZE];
    uint64_t least = UINT64_MAX;
    int n = snprintf(group, sizeof group, "%s%s", root, files->mount);
    const size_t top = n > 0 ? (size_t)n : sizeof group;
    if (top >= sizeof group)
        return least;
    n = snprintf(group + top, sizeof group - top, "%s", path);
    if (n < 0 || (size_t)n >= sizeof group - top)
        return least;
    for (char *end = group + top + n;; *end = 0) {
        least = smaller(least, free_in(files, group));
        if (strlen(group) <= top)
            return least;
        end = strrchr(group, '/');
        end = end < group + top ? group + top : end;
    }
}

static bool has_memory(const char *controllers)
{
    const size_t n = strlen("memory");
    for (const char *at = controllers; (at = strstr(at, "memory")); at += n)
        if ((at == controllers || at[-1] == ',') && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* Lines are "number:controllers:path"; version 2 has no controllers. */
static uint64_t free_in_groups(const char *root)
{
    char line[PATH_SIZE];
    uint64_t least = UINT64_MAX;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        if (!controllers[1] || has_memory(controllers + 1))
            least = smaller(
                least,
                free_on_path(root, controllers[1] ? &version_1 : &version_2,
                             path));
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t core_host_memory_free(const char *root)
{
    uint64_t kib, available = UINT64_MAX;
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_number(path, "MemAvailable", &kib) && kib < UINT64_MAX >> 10)
        available = kib << 10;
    return smaller(available, free_in_groups(root));
}
