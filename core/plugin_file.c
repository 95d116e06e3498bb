#include "plugin_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEDY "or set core.allow_unsafe_plugins"

static clv_status check_stat(const char *what, const struct stat *st)
{
    if (st->st_mode & S_IWOTH)
        return clv_error(CLV_ERR_REFUSED,
                         "%s is writable by everyone; take that right away "
                         "(chmod o-w), " REMEDY, what);
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return clv_error(CLV_ERR_REFUSED,
                         "%s belongs to user %ld, neither root nor the user "
                         "running this; change its owner, " REMEDY, what,
                         (long)st->st_uid);
    return CLV_OK;
}

/* A cut file kills the process with SIGBUS inside dlopen: the segments are
 * mapped, then touched. Files that are no ELF at all are left to dlopen. */
static clv_status check_whole(int fd, uint64_t size)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    if (pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) ||
        head.e_phentsize != sizeof segment)
        return CLV_OK;
    uint64_t needed = 0;
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        uint64_t at = head.e_phoff + (uint64_t)i * sizeof segment, end;
        if (at > INT64_MAX ||
            pread(fd, &segment, sizeof segment, (off_t)at) != sizeof segment)
            end = at > UINT64_MAX - sizeof segment ? UINT64_MAX
                                                   : at + sizeof segment;
        else if (__builtin_add_overflow((uint64_t)segment.p_offset,
                                        (uint64_t)segment.p_filesz, &end))
            end = UINT64_MAX;
        needed = end > needed ? end : needed;
    }
    if (needed <= size)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "the file is cut off: it has %" PRIu64 " bytes of at "
                     "least %" PRIu64 "; install the plugin again", size,
                     needed);
}

static clv_status check_fd(int fd, const char *path, bool unsafe)
{
    struct stat file, dir;
    if (fstat(fd, &file))
        return clv_error(CLV_ERR_IO, "the file cannot be examined: %s",
                         strerror(errno));
    if (!S_ISREG(file.st_mode))
        return clv_error(CLV_ERR_REFUSED, "this is no file");
    clv_status st = check_whole(fd, (uint64_t)file.st_size);
    if (st != CLV_OK || unsafe)
        return st;
    st = check_stat("the file", &file);
    if (st != CLV_OK)
        return st;
    char parent[PATH_MAX];
    int n = snprintf(parent, sizeof parent, "%.*s",
                     (int)(strrchr(path, '/') - path + 1), path);
    if (n < 0 || (size_t)n >= sizeof parent || stat(parent, &dir))
        return clv_error(CLV_ERR_IO, "its directory cannot be examined");
    return check_stat("its directory", &dir);
}

clv_status core_plugin_file_check(const char *path, bool unsafe)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return clv_error(errno == EACCES ? CLV_ERR_REFUSED : CLV_ERR_IO,
                         "the file cannot be read: %s", strerror(errno));
    clv_status st = check_fd(fd, path, unsafe);
    close(fd);
    return st;
}
