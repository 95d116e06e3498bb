/* A directory of a test's own, and files in it. */
#pragma once

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct tmpdir {
    char path[256];
} tmpdir;

static inline bool tmpdir_make(tmpdir *dir)
{
    const char *base = getenv("TMPDIR");
    snprintf(dir->path, sizeof dir->path, "%s/cleave-test-XXXXXX",
             base && base[0] == '/' ? base : "/tmp");
    return mkdtemp(dir->path) != NULL;
}

/* name inside the directory; valid until the eighth next call. */
static inline const char *tmpdir_file(const tmpdir *dir, const char *name)
{
    static char paths[8][1024];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir->path, name);
    return path;
}

static inline const char *tmpdir_write(const tmpdir *dir, const char *name,
                                       const void *data, size_t size)
{
    const char *path = tmpdir_file(dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    return path;
}

static inline const char *tmpdir_text(const tmpdir *dir, const char *name,
                                      const char *text)
{
    return tmpdir_write(dir, name, text, strlen(text));
}

static inline int tmpdir_count(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d)
        closedir(d);
    return n;
}

static inline int tmpdir_remove_one(const char *path, const struct stat *st,
                                    int type, struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

static inline void tmpdir_remove(tmpdir *dir)
{
    nftw(dir->path, tmpdir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
