#include "cache.h"
#include "hash.h"

#include "names.h"
#include "paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "CLVCACH1";

/* The file: this, the key, the data. */
typedef struct file_header {
    char magic[8];
    uint64_t key_size, data_size;
    uint64_t checksum; /* of sizes, key and data */
} file_header;

static char *file_name(const char *dir, const char *key)
{
    return core_format("%s/%016" PRIx64 ".bin", dir,
                       core_hash(CORE_HASH_SEED, key, strlen(key)));
}

static uint64_t checksum(const file_header *h, const void *key,
                         const void *data)
{
    uint64_t sum = core_hash(CORE_HASH_SEED, &h->key_size, sizeof h->key_size);
    sum = core_hash(sum, &h->data_size, sizeof h->data_size);
    sum = core_hash(sum, key, h->key_size);
    return core_hash(sum, data, h->data_size);
}

/* The data inside the mapped file, if it is sound and of this key. */
static const uint8_t *find_data(const clv_file_map *map, const char *key,
                                uint64_t *size)
{
    file_header h;
    if (map->size < sizeof h)
        return NULL;
    memcpy(&h, map->data, sizeof h);
    uint64_t rest = map->size - sizeof h;
    const uint8_t *stored_key = map->data + sizeof h;
    if (memcmp(h.magic, magic, sizeof magic) || h.key_size != strlen(key) ||
        h.key_size > rest || h.data_size != rest - h.key_size ||
        memcmp(stored_key, key, h.key_size) ||
        checksum(&h, stored_key, stored_key + h.key_size) != h.checksum)
        return NULL;
    *size = h.data_size;
    return stored_key + h.key_size;
}

clv_status core_cache_get(const char *dir, const char *key, void **data,
                          uint64_t *size)
{
    char *path = file_name(dir, key);
    if (!path)
        return CLV_ERR_NO_MEMORY;
    clv_file_map map = {0};
    clv_status st =
        access(path, R_OK) ? CLV_ERR_NOT_FOUND : clv_file_map_open(path, &map);
    if (st == CLV_OK)
        utimensat(AT_FDCWD, path, NULL, 0); /* for core_cache_trim() */
    free(path);
    if (st != CLV_OK)
        return CLV_ERR_NOT_FOUND;
    uint64_t n = 0;
    const uint8_t *found = find_data(&map, key, &n);
    void *copy = found ? malloc(n ? (size_t)n : 1) : NULL;
    if (copy) {
        memcpy(copy, found, (size_t)n);
        *data = copy;
        *size = n;
    } else {
        st = found ? CLV_ERR_NO_MEMORY : CLV_ERR_NOT_FOUND;
    }
    clv_file_map_close(&map);
    return st;
}

bool core_cache_exists(const char *dir, const char *key)
{
    char *path = file_name(dir, key);
    const bool exists = path && !access(path, F_OK);
    free(path);
    return exists;
}

void core_cache_remove(const char *dir, const char *key)
{
    char *path = file_name(dir, key);
    if (path)
        unlink(path);
    free(path);
}

clv_status core_cache_put(const char *dir, const char *key, const void *data,
                          uint64_t size)
{
    file_header h = {.key_size = strlen(key), .data_size = size};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = checksum(&h, key, data);
    char *path = file_name(dir, key);
    if (!path)
        return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory for a cache entry",
                         dir);
    clv_file_writer *w = NULL;
    clv_status st = core_make_dirs(dir);
    if (st == CLV_OK)
        st = clv_file_writer_open(path, &w);
    if (st == CLV_OK)
        st = clv_file_writer_write(w, &h, sizeof h);
    if (st == CLV_OK)
        st = clv_file_writer_write(w, key, h.key_size);
    if (st == CLV_OK)
        st = clv_file_writer_write(w, data, size);
    if (st == CLV_OK)
        st = clv_file_writer_commit(w);
    else
        clv_file_writer_discard(w);
    free(path);
    return st;
}

/* The file of the directory that was not used for the longest time, by name;
 * NULL: there is none. *sum: bytes of all. */
static char *find_oldest(DIR *dir, uint64_t *sum)
{
    char *oldest = NULL;
    struct timespec when = {0};
    *sum = 0;
    rewinddir(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        *sum += (uint64_t)st.st_size;
        const struct timespec t = st.st_mtim;
        if (oldest && (t.tv_sec != when.tv_sec ? t.tv_sec > when.tv_sec
                                               : t.tv_nsec >= when.tv_nsec))
            continue;
        free(oldest);
        oldest = strdup(e->d_name);
        when = t;
    }
    return oldest;
}

clv_status core_cache_trim(const char *dir, uint64_t limit)
{
    DIR *open = opendir(dir);
    if (!open)
        return clv_error(CLV_ERR_IO, "%s: cannot be read", dir);
    uint64_t sum;
    char *oldest;
    while ((oldest = find_oldest(open, &sum)) && sum > limit &&
           !unlinkat(dirfd(open), oldest, 0))
        free(oldest);
    free(oldest);
    closedir(open);
    return CLV_OK;
}
