/* The plugin's persistent cache: files in the process's own directory, named by
 * the key in hexadecimal. */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_KEY 100
#define PATH_SIZE (sizeof((kit_host *)0)->cache_dir + 2 * MAX_KEY + 16)

static clv_status fail(kit_host *host, clv_status status, const char *key,
                       const char *why)
{
    char text[KIT_TEXT_SIZE];
    snprintf(text, sizeof text, "cache: '%.100s': %s", key, why);
    return host->api.set_error(host->api.host, status, 0, text);
}

static clv_status path_of(kit_host *host, const char *slot, const char *key,
                          char path[PATH_SIZE])
{
    if (!key || !*key)
        kit_fail(host->k, "host->%s() is given no key", slot);
    if (strlen(key) > MAX_KEY)
        return fail(host, CLV_ERR_LIMIT, key, "longer than 100 bytes");
    int n = snprintf(path, PATH_SIZE, "%s/kit-", host->cache_dir);
    for (const char *c = key; *c; c++)
        n += snprintf(path + n, PATH_SIZE - (size_t)n, "%02x", (uint8_t)*c);
    return CLV_OK;
}

static clv_status read_file(kit_host *host, const char *key, int fd,
                            void **data, uint64_t *size)
{
    struct stat st;
    if (fstat(fd, &st))
        return fail(host, CLV_ERR_IO, key, strerror(errno));
    uint8_t *block = kit_host_alloc(host->api.host, (uint64_t)st.st_size, 16);
    if (!block)
        return fail(host, CLV_ERR_NO_MEMORY, key, "no memory for it");
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = read(fd, block + at, (size_t)(st.st_size - at));
        if (n <= 0) {
            kit_host_free(host->api.host, block);
            return fail(host, CLV_ERR_IO, key, "cannot be read");
        }
        at += n;
    }
    *data = block;
    *size = (uint64_t)st.st_size;
    return CLV_OK;
}

clv_status kit_host_cache_get(clv_host *ctx, const char *key, void **data,
                              uint64_t *size)
{
    kit_host *host = kit_host_enter(ctx, "cache_get");
    char path[PATH_SIZE];
    clv_status status = path_of(host, "cache_get", key, path);
    if (status)
        return status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(host, CLV_ERR_NOT_FOUND, key, "not in the cache");
    status = read_file(host, key, fd, data, size);
    close(fd);
    return status;
}

static bool write_file(const char *path, const void *data, uint64_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const uint8_t *bytes = data;
    bool good = fd >= 0;
    while (good && size) {
        ssize_t n = write(fd, bytes, (size_t)size);
        good = n > 0;
        if (good) {
            bytes += n;
            size -= (uint64_t)n;
        }
    }
    if (fd >= 0)
        good = !close(fd) && good;
    return good;
}

clv_status kit_host_cache_put(clv_host *ctx, const char *key, const void *data,
                              uint64_t size)
{
    kit_host *host = kit_host_enter(ctx, "cache_put");
    char path[PATH_SIZE], temporary[PATH_SIZE + 32];
    clv_status status = path_of(host, "cache_put", key, path);
    if (status)
        return status;
    if (!data && size)
        kit_fail(host->k, "host->cache_put() is given no data");
    snprintf(temporary, sizeof temporary, "%s.%lx", path,
             (unsigned long)pthread_self());
    if (!write_file(temporary, data, size) || rename(temporary, path)) {
        status = fail(host, CLV_ERR_IO, key, strerror(errno));
        unlink(temporary);
    }
    return status;
}

/* Plain files only; whatever else a plugin made is the parent's to remove. */
void kit_host_cache_finish(kit_host *host)
{
    DIR *dir = host->cache_dir[0] ? opendir(host->cache_dir) : NULL;
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(host->cache_dir);
    host->cache_dir[0] = 0;
}
