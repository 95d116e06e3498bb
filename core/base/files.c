#include <cleave/cleave.h>

#include "file_map.h"
#include "names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE (256u << 10)
#define MAX_TEMP_TRIES 100
#define TEMP_MARK ".cleave-"

struct clv_file_writer {
    char *path;   /* as asked for, for messages */
    char *target; /* path with links resolved; NULL: write in place */
    char *temp;   /* what exists now, until commit */
    int fd;
    uint64_t written; /* to fd */
    size_t used;      /* of buffer */
    uint8_t buffer[BUFFER_SIZE];
};

static clv_status no_memory(const char *path)
{
    return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory to open it", path);
}

/* ------------------------------------------------------------------------ */
/* Writing                                                                  */

static void release(clv_file_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temp)
        unlink(w->temp);
    free(w->path);
    free(w->target);
    free(w->temp);
    free(w);
}

/* The directory that holds the file, for free(). */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
}

/* ".NAME.cleave-PID-N" */
static bool is_temp_name(const char *name)
{
    const char *mark = name[0] == '.' ? name : NULL;
    int end = 0;
    for (const char *next = mark; next; next = strstr(next + 1, TEMP_MARK))
        mark = next;
    return mark && !sscanf(mark, TEMP_MARK "%*u-%*u%n", &end) && end &&
           !mark[end];
}

/* Removes what killed processes have left in the directory. A writer holds a
 * lock on its file, which the system releases when the process ends. */
static void remove_stale(const char *target)
{
    char *path = directory_of(target);
    DIR *dir = path ? opendir(path) : NULL;
    free(path);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (!is_temp_name(e->d_name))
            continue;
        int fd = openat(dirfd(dir), e->d_name,
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (!flock(fd, LOCK_EX | LOCK_NB))
            unlinkat(dirfd(dir), e->d_name, 0);
        close(fd);
    }
    closedir(dir);
}

/* Another process may take a new file for a stale one until it is locked. */
static bool lock_temp(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) || st.st_nlink;
}

/* Makes a file of an unused name beside target. */
static clv_status open_temp(clv_file_writer *w)
{
    static _Atomic unsigned serial;
    const char *slash = strrchr(w->target, '/');
    int dir = slash ? (int)(slash + 1 - w->target) : 0;
    remove_stale(w->target);
    for (int i = 0; i < MAX_TEMP_TRIES; i++) {
        char *name = core_format("%.*s.%s" TEMP_MARK "%ld-%u", dir, w->target,
                                 w->target + dir, (long)getpid(),
                                 atomic_fetch_add(&serial, 1));
        if (!name)
            return no_memory(w->path);
        w->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 && lock_temp(w->fd)) {
            w->temp = name;
            return CLV_OK;
        }
        free(name);
        if (w->fd >= 0)
            close(w->fd);
        else if (errno != EEXIST)
            break;
        w->fd = -1;
    }
    return core_open_error(w->path);
}

static clv_status open_target(clv_file_writer *w)
{
    struct stat st;
    if (stat(w->path, &st)) {
        w->target = strdup(w->path);
        return w->target ? open_temp(w) : no_memory(w->path);
    }
    if (S_ISDIR(st.st_mode))
        return clv_error(CLV_ERR_INVALID,
                         "%s: this is a directory; name a file", w->path);
    if (S_ISREG(st.st_mode)) {
        if (!(w->target = realpath(w->path, NULL)))
            return core_open_error(w->path);
        clv_status status = open_temp(w);
        /* As private as what it replaces; best effort. */
        if (status == CLV_OK && fchmod(w->fd, st.st_mode & 0777))
            errno = 0;
        return status;
    }
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    return w->fd >= 0 ? CLV_OK : core_open_error(w->path);
}

clv_status clv_file_writer_open(const char *path, clv_file_writer **out)
{
    *out = NULL;
    clv_file_writer *w = calloc(1, sizeof *w);
    if (!w)
        return no_memory(path);
    w->fd = -1;
    w->path = strdup(path);
    clv_status st = w->path ? open_target(w) : no_memory(path);
    if (st != CLV_OK) {
        release(w);
        return st;
    }
    *out = w;
    return CLV_OK;
}

static clv_status write_error(clv_file_writer *w, int error)
{
    const char *remedy = error == ENOSPC
                             ? "; free some space or write elsewhere"
                         : error == EDQUOT || error == EFBIG
                             ? "; raise the limit or write elsewhere"
                             : "";
    clv_status st = clv_error(
        CLV_ERR_IO, "%s: writing failed after %llu bytes: %s%s", w->path,
        (unsigned long long)w->written, strerror(error), remedy);
    /* Nothing of it stays; the caller still ends the writer. */
    if (w->temp)
        unlink(w->temp);
    free(w->temp);
    w->temp = NULL;
    close(w->fd);
    w->fd = -1;
    return st;
}

static clv_status write_all(clv_file_writer *w, const uint8_t *data,
                            uint64_t size)
{
    while (size) {
        size_t piece = size < (1u << 30) ? (size_t)size : 1u << 30;
        ssize_t n = write(w->fd, data, piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_error(w, n < 0 ? errno : EIO);
        data += n;
        size -= (uint64_t)n;
        w->written += (uint64_t)n;
    }
    return CLV_OK;
}

static clv_status flush(clv_file_writer *w)
{
    size_t n = w->used;
    w->used = 0;
    return write_all(w, w->buffer, n);
}

static clv_status check_open(const clv_file_writer *w)
{
    if (w->fd >= 0)
        return CLV_OK;
    return clv_error(CLV_ERR_IO, "%s: writing failed earlier", w->path);
}

clv_status clv_file_writer_write(clv_file_writer *w, const void *data,
                                 uint64_t size)
{
    CLV_TRY(check_open(w));
    if (size > BUFFER_SIZE - w->used)
        CLV_TRY(flush(w));
    if (size > BUFFER_SIZE)
        return write_all(w, data, size);
    if (size)
        memcpy(w->buffer + w->used, data, (size_t)size);
    w->used += (size_t)size;
    return CLV_OK;
}

/* Makes the new name survive a power cut; some file systems cannot. */
static void sync_dir(const char *path)
{
    char *dir = directory_of(path);
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

static clv_status finish(clv_file_writer *w)
{
    CLV_TRY(check_open(w));
    CLV_TRY(flush(w));
    if (w->target && fsync(w->fd))
        return write_error(w, errno);
    /* Before its lock ends: others remove files that nobody has locked. */
    if (w->target && rename(w->temp, w->target))
        return clv_error(CLV_ERR_IO, "%s: cannot take its name: %s", w->path,
                         strerror(errno));
    free(w->temp);
    w->temp = NULL;
    const int fd = w->fd;
    w->fd = -1;
    if (close(fd) && errno != EINTR)
        return clv_error(CLV_ERR_IO, "%s: closing it failed: %s", w->path,
                         strerror(errno));
    if (w->target)
        sync_dir(w->target);
    return CLV_OK;
}

clv_status clv_file_writer_commit(clv_file_writer *w)
{
    const clv_status st = finish(w);
    release(w);
    return st;
}

void clv_file_writer_discard(clv_file_writer *w)
{
    release(w);
}
