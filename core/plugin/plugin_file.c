#include "plugin_file.h"

#include "../base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------------ */
/* Owner and mode                                                           */

/* Notes the first problem; what: "the file", "the directory /a/b". */
static void check_rights(core_plugin_file *f, const char *what,
                         const struct stat *st, bool with_mode)
{
    if (f->problem[0])
        return;
    if (st->st_uid != 0 && st->st_uid != geteuid())
        snprintf(f->problem, sizeof f->problem,
                 "%.300s belongs to user %ld, neither root nor the user "
                 "running this; change its owner",
                 what, (long)st->st_uid);
    else if (with_mode && (st->st_mode & S_IWOTH))
        snprintf(f->problem, sizeof f->problem,
                 "%.300s is writable by everyone; take that right away "
                 "(chmod o-w)",
                 what);
    else if (with_mode && (st->st_mode & S_IWGRP) && st->st_gid != 0 &&
             st->st_gid != getegid())
        snprintf(f->problem, sizeof f->problem,
                 "%.300s is writable by group %ld, neither root's nor the "
                 "user's own; take that right away (chmod g-w)",
                 what, (long)st->st_gid);
}

static void check_directory(core_plugin_file *f, const char *path, size_t size,
                            bool own, const struct stat *st)
{
    char what[PATH_MAX];
    snprintf(what, sizeof what, "%s%.*s", own ? "its directory " : "directory ",
             size ? (int)size : 1, path);
    check_rights(f, what, st, own || !(st->st_mode & S_ISVTX));
}

/* ------------------------------------------------------------------------ */
/* Opening                                                                  */

static clv_status open_error(void)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return clv_error(CLV_ERR_NOT_FOUND, "the file cannot be found: %s",
                         strerror(errno));
    return clv_error(errno == EACCES ? CLV_ERR_REFUSED : CLV_ERR_IO,
                     "the file cannot be read: %s", strerror(errno));
}

/* The directory that holds the file; -1 with errno. Each one is opened from the
 * one above it, which was checked, so nobody can exchange one in between. */
static int open_directory(core_plugin_file *f)
{
    int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t at = 0; /* the path up to here is open */
    while (dir >= 0) {
        struct stat st;
        char name[NAME_MAX + 1];
        const char *next = f->path + at + 1, *slash = strchr(next, '/');
        if (fstat(dir, &st)) {
            close(dir);
            return -1;
        }
        check_directory(f, f->path, at, !slash, &st);
        if (!slash)
            return dir;
        snprintf(name, sizeof name, "%.*s", (int)(slash - next), next);
        int below =
            openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(dir);
        dir = below;
        at = (size_t)(slash - f->path);
    }
    return -1;
}

static clv_status open_file(core_plugin_file *f)
{
    int dir = open_directory(f);
    if (dir < 0)
        return open_error();
    f->fd = openat(dir, strrchr(f->path, '/') + 1,
                   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    int error = errno;
    close(dir);
    errno = error;
    if (f->fd < 0 || fstat(f->fd, &f->stat))
        return open_error();
    if (!S_ISREG(f->stat.st_mode))
        return clv_error(CLV_ERR_REFUSED, "this is no file");
    check_rights(f, "the file", &f->stat, true);
    return CLV_OK;
}

clv_status core_plugin_file_open(const char *path, core_plugin_file *out)
{
    *out = (core_plugin_file){.fd = -1, .path = realpath(path, NULL)};
    if (!out->path)
        return open_error();
    clv_status st = out->path[1]
                        ? open_file(out)
                        : clv_error(CLV_ERR_REFUSED, "this is no file");
    if (st != CLV_OK)
        core_plugin_file_close(out);
    return st;
}

void core_plugin_file_close(core_plugin_file *file)
{
    free(file->path);
    if (file->fd >= 0)
        close(file->fd);
    file->path = NULL;
    file->fd = -1;
}

/* ------------------------------------------------------------------------ */
/* The file mapped is the file checked                                      */

/*
 * The dynamic linker takes paths only. With /proc/self/fd/N, which it keeps as
 * the object's name, $ORIGIN would lead to /proc, and the next file with the
 * same N would be taken for this one. So it gets the path, which only root and
 * the user can change. The mapped file is compared then: a package manager may
 * have replaced the file meanwhile, and an object that was mapped before under
 * this path may be an older file.
 */
clv_status core_plugin_file_recheck(const core_plugin_file *file)
{
    struct stat now;
    if (stat(file->path, &now))
        return open_error();
    if (now.st_dev == file->stat.st_dev && now.st_ino == file->stat.st_ino &&
        now.st_size == file->stat.st_size &&
        now.st_mtim.tv_sec == file->stat.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == file->stat.st_mtim.tv_nsec)
        return CLV_OK;
    return clv_error(CLV_ERR_REFUSED, "the file was replaced while it was "
                                      "checked; start again");
}

/* "device inode" of what is mapped at address. */
static bool mapped_identity(const void *address, char out[64])
{
    char line[CORE_MAPPING_SIZE], device[24], inode[24];
    if (!core_mapping(address, line) ||
        sscanf(line, "%*s %*s %*s %23s %23s", device, inode) != 2)
        return false;
    snprintf(out, 64, "%s %s", device, inode);
    return true;
}

/* Both identities are asked of the same place: some file systems tell stat()
 * another device than they tell here. */
clv_status core_plugin_file_check_mapped(const core_plugin_file *file,
                                         const void *address)
{
    char mapped[64], ours[64];
    void *page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (page == MAP_FAILED)
        return clv_error(CLV_ERR_IO, "the file cannot be mapped: %s",
                         strerror(errno));
    bool known =
        mapped_identity(address, mapped) && mapped_identity(page, ours);
    munmap(page, 1);
    if (!known || !strcmp(mapped, ours)) /* without /proc nothing is known */
        return CLV_OK;
    return clv_error(CLV_ERR_REFUSED,
                     "the file was replaced after this "
                     "process had loaded it; start the program again");
}
