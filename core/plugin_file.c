#include "plugin_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

static clv_status check_fd(int fd, const char *path, bool unsafe)
{
    struct stat file, dir;
    if (fstat(fd, &file))
        return clv_error(CLV_ERR_IO, "the file cannot be examined: %s",
                         strerror(errno));
    if (!S_ISREG(file.st_mode))
        return clv_error(CLV_ERR_REFUSED, "this is no file");
    if (unsafe)
        return CLV_OK;
    clv_status st = check_stat("the file", &file);
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
