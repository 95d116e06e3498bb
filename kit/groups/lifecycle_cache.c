/* What a plugin keeps in the host's cache comes from a disk: none of it may be
 * believed. */
#include "../plugin/child.h"
#include "lifecycle.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST (16u << 20) /* bytes of an entry that are damaged */

typedef enum damage {
    NONE,
    LAST_BYTE,
    SOME_BYTE,
    EVERY_BYTE, /* of the second half */
    HALF,
    EMPTY,
    MORE,
    N_DAMAGES,
} damage;

static const char *const names[] = {
    "as they were",      "with another last byte",
    "with another byte", "with a wrong end",
    "cut in half",       "empty",
    "with bytes behind",
};

/* The new size. */
static size_t damage_bytes(kit *k, uint8_t *bytes, size_t size, damage how)
{
    if (!size || how == NONE || how == EMPTY)
        return how == NONE ? size : 0;
    if (how == LAST_BYTE)
        bytes[size - 1] ^= 0xff;
    if (how == SOME_BYTE)
        bytes[kit_random_below(k, (uint32_t)size)] ^= 0x55;
    for (size_t i = size / 2; i < size && how == EVERY_BYTE; i++)
        bytes[i] = (uint8_t)kit_random_below(k, 256);
    if (how == MORE)
        memset(bytes + size, 'x', 100);
    return how == HALF ? size / 2 : how == MORE ? size + 100 : size;
}

static void damage_file(kit *k, int dir, const char *name, damage how)
{
    uint8_t *bytes = malloc(MOST + 100);
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
    KIT_CHECK(k, bytes && fd >= 0, "no memory, or no access to the cache");
    ssize_t n = read(fd, bytes, MOST);
    KIT_CHECK(k, n >= 0, "an entry of the cache cannot be read");
    size_t size = damage_bytes(k, bytes, (size_t)n, how);
    KIT_CHECK(k,
              pwrite(fd, bytes, size, 0) == (ssize_t)size &&
                  !ftruncate(fd, (off_t)size),
              "an entry of the cache cannot be written");
    close(fd);
    free(bytes);
}

/* All entries; how many there are. */
static int damage_cache(kit *k, const char *path, damage how)
{
    int n = 0;
    DIR *dir = opendir(path);
    KIT_CHECK(k, dir, "no access to the cache");
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            damage_file(k, dirfd(dir), entry->d_name, how);
            n++;
        }
    closedir(dir);
    return n;
}

/* The same work each time: the output's bytes, free(), or NULL. */
static uint8_t *work(kit *k, kit_plugin *p, uint32_t device, uint64_t *size)
{
    kit_graph g;
    uint32_t output;
    uint8_t *bytes = NULL;
    char reason[KIT_TEXT_SIZE];
    k->random = kit_seed(k) | 1;
    kit_plugin_open(p, device);
    if (kit_any_graph(k, p, &g, 0, &output, reason)) {
        kit_run(&g, 0);
        *size = g.tensors[output].size;
        bytes = malloc(*size);
        KIT_CHECK(k, bytes, "no memory for the case");
        memcpy(bytes, g.tensors[output].data, *size);
        kit_graph_free(&g);
    }
    kit_plugin_close(p);
    return bytes;
}

static void try_device(kit *k, kit_plugin *p, uint32_t device, int *entries)
{
    uint64_t size, again;
    uint8_t *right = work(k, p, device, &size);
    for (damage how = NONE; how < N_DAMAGES && right; how++) {
        *entries += damage_cache(k, p->host.cache_dir, how);
        uint8_t *bytes = work(k, p, device, &again);
        KIT_CHECK(
            k, bytes && again == size && !memcmp(bytes, right, size),
            "device %u has other results when the entries that it kept in "
            "the cache are %s",
            (unsigned)device, names[how]);
        free(bytes);
    }
    free(right);
}

static void run_cache(kit *k, const void *arg)
{
    kit_plugin p;
    int entries = 0;
    (void)arg;
    kit_drop_under_test(k);
    lifecycle_make(k, &p);
    for (uint32_t i = 0; i < p.n_devices; i++)
        try_device(k, &p, i, &entries);
    lifecycle_end(&p);
    if (!entries)
        kit_skip(k, "the plugin keeps nothing in the cache");
    kit_note(k, "%d times an entry was damaged", entries);
}

void lifecycle_list_cache(kit_list *l)
{
    kit_add(l, KIT_PER_PLUGIN, 0, run_cache, NULL, "cache_damaged");
}
