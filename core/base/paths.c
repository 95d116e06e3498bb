#include "paths.h"
#include "error.h"

#include "names.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARKER "cleave-uninstalled"

/* Below the directory that variable names, or below home's fallback. Relative
 * paths do not count, nor does a home that does not exist: system users have
 * such ones, and they are not to be made. */
static clv_status user_path(const char *variable, const char *fallback,
                            const char *rest, char **out)
{
    *out = NULL;
    const char *base = secure_getenv(variable), *home = secure_getenv("HOME");
    if (base && base[0] == '/')
        *out = core_format("%s/%s", base, rest);
    else if (home && home[0] == '/' && !access(home, F_OK))
        *out = core_format("%s/%s/%s", home, fallback, rest);
    else
        return CLV_OK;
    return *out ? CLV_OK : core_no_memory("for a path");
}

clv_status core_user_config(char **out)
{
    return user_path("XDG_CONFIG_HOME", ".config", "cleave/cleave.ini", out);
}

clv_status core_user_cache(char **out)
{
    return user_path("XDG_CACHE_HOME", ".cache", "cleave", out);
}

bool core_mapping(const void *address, char line[CORE_MAPPING_SIZE])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = false;
    uintptr_t begin, end;
    while (maps && !found && fgets(line, CORE_MAPPING_SIZE, maps))
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
                (uintptr_t)address >= begin && (uintptr_t)address < end;
    if (maps)
        fclose(maps);
    return found;
}

/* The directory of the object that holds this function, links resolved. The
 * dynamic linker may only know a path relative to the working directory at
 * start, which is of no use. */
static bool library_dir(char out[PATH_MAX])
{
    Dl_info info;
    const void *here = (const void *)&clv_version;
    char mapping[CORE_MAPPING_SIZE];
    const char *path = NULL;
    if (dladdr(here, &info) && info.dli_fname && info.dli_fname[0] == '/')
        path = info.dli_fname;
    else if (core_mapping(here, mapping) && (path = strchr(mapping, '/')))
        mapping[strcspn(mapping, "\n")] = 0;
    if (!path || !realpath(path, out))
        return false;
    *strrchr(out, '/') = 0;
    return true;
}

/* The value of "key=value" in a line of text; NULL and CLV_OK if there is
 * none. */
static clv_status marker_value(const clv_file_map *map, const char *key,
                               char **out)
{
    const char *s = (const char *)map->data, *end = s + map->size;
    size_t n = strlen(key);
    while (s < end) {
        const char *newline = memchr(s, '\n', (size_t)(end - s));
        const char *stop = newline ? newline : end;
        if ((size_t)(stop - s) > n && !memcmp(s, key, n) && s[n] == '=') {
            *out = strndup(s + n + 1, (size_t)(stop - s) - n - 1);
            return *out ? CLV_OK : core_no_memory("for a path");
        }
        s = stop + 1;
    }
    return CLV_OK;
}

/* What the marker beside the library says; NULL without marker or key. */
static clv_status from_marker(const char *dir, const char *key, char **out)
{
    char *path = core_format("%s/" MARKER, dir);
    clv_file_map map;
    if (!path)
        return core_no_memory("for a path");
    clv_status st = CLV_OK;
    if (!access(path, R_OK) && clv_file_map_open(path, &map) == CLV_OK) {
        st = marker_value(&map, key, out);
        clv_file_map_close(&map);
    }
    free(path);
    return st;
}

/* dir/relative, shortened where it exists; relative may be absolute. */
static char *resolve(const char *dir, const char *relative)
{
    char *path = relative[0] == '/' ? strdup(relative)
                                    : core_format("%s/%s", dir, relative);
    char *real = path ? realpath(path, NULL) : NULL;
    if (!real)
        return path;
    free(path);
    return real;
}

/* A path that belongs to this library. */
static clv_status library_path(const char *key, const char *relative,
                               char **out)
{
    char dir[PATH_MAX];
    *out = NULL;
    if (!library_dir(dir))
        return clv_error(CLV_ERR_NOT_FOUND,
                         "libcleave: cannot tell where it lies; set "
                         "core.plugin_dirs and core.data_dir");
    CLV_TRY(from_marker(dir, key, out));
    if (*out)
        return CLV_OK;
    *out = resolve(dir, relative);
    return *out ? CLV_OK : core_no_memory("for a path");
}

clv_status core_library_paths(char **plugin_dirs, char **data_dir)
{
    CLV_TRY(library_path("plugin_dirs", CLV_PLUGINS_FROM_LIB, plugin_dirs));
    clv_status st = library_path("data_dir", CLV_DATA_FROM_LIB, data_dir);
    if (st != CLV_OK) {
        free(*plugin_dirs);
        *plugin_dirs = NULL;
    }
    return st;
}

clv_status core_probe_program(char **out)
{
    return library_path("probe", CLV_PROBE_FROM_LIB, out);
}

clv_status core_make_dirs(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return core_no_memory("for a path");
    clv_status st = CLV_OK;
    for (char *s = copy + 1; st == CLV_OK; s++) {
        char c = *s;
        if (c && c != '/')
            continue;
        *s = 0;
        if (mkdir(copy, 0700) && errno != EEXIST)
            st = clv_error(CLV_ERR_IO, "%s: cannot make the directory: %s",
                           copy, strerror(errno));
        *s = c;
        if (!c)
            break;
    }
    free(copy);
    return st;
}
