/* A directory for one test, which is removed with its contents. */
#pragma once

#include "bytes.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct temp {
    char dir[64];
    unsigned next;
    char path[8][256]; /* of temp_path(), in turn */
} temp;

static inline void temp_init(temp *t)
{
    const char *base = getenv("TMPDIR");
    t->next = 0;
    snprintf(t->dir, sizeof t->dir, "%s/cleave-test-XXXXXX",
             base && strlen(base) < 30 ? base : "/tmp");
    if (!mkdtemp(t->dir))
        abort();
}

static inline int temp_remove_one(const char *path, const struct stat *info,
                                  int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline void temp_finish(temp *t)
{
    nftw(t->dir, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Valid until the eighth call after it. */
static inline const char *temp_path(temp *t, const char *name)
{
    char dir[sizeof t->dir];
    char *path = t->path[t->next++ % 8];
    memcpy(dir, t->dir, sizeof dir);
    snprintf(path, sizeof t->path[0], "%s/%s", dir, name);
    return path;
}

static inline const char *temp_write(temp *t, const char *name,
                                     const void *data, size_t size)
{
    const char *path = temp_path(t, name);
    FILE *f = fopen(path, "wb");
    if (!f || (size && fwrite(data, 1, size, f) != size) || fclose(f))
        abort();
    return path;
}

static inline const char *temp_write_text(temp *t, const char *name,
                                          const char *text)
{
    return temp_write(t, name, text, strlen(text));
}

/* A file of the shared test data; NULL if it is not there. */
static inline const char *shared_path(temp *t, const char *name)
{
    const char *shared = getenv("CLEAVE_TEST_SHARED");
    char *path = t->path[t->next++ % 8];
    if (!shared)
        return NULL;
    snprintf(path, sizeof t->path[0], "%s/%s", shared, name);
    return access(path, F_OK) ? NULL : path;
}
