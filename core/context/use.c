#include "use.h"
#include "../base/names.h"
#include "../base/paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_USES 16 /* at the same time; more are not noted */
#define FILE_SIZE 2048
/* How often a lock is tried, and how long apart: for a second, as a busy disk
 * or machine may keep the other thread waiting. */
#define TRIES 10000
#define TRY_NS 100000

/* The file holds a line that identifies the plugin's file, a line that says
 * what is under way and, after a crash, one that says how it ended. */
struct core_use {
    int fd; /* -1: none */
    char *path;
    atomic_bool ended; /* by a crash: nothing is noted any more */
    atomic_flag busy;  /* locks what follows */
    char what[512];
    size_t size; /* of the first two lines */
};

static _Atomic(core_use *) uses[MAX_USES];

/* Changes with the file. */
static char *identity_of(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return NULL;
    return core_format("%s %llu %llu %lld %lld.%09ld", path,
                       (unsigned long long)st.st_dev,
                       (unsigned long long)st.st_ino, (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* A thread may crash while another one changes the note. False: it crashed in
 * the midst of that itself. */
static bool lock(core_use *use)
{
    const struct timespec pause = {.tv_nsec = TRY_NS};
    for (int i = 0; i < TRIES; i++) {
        if (!atomic_flag_test_and_set(&use->busy))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* ------------------------------------------------------------------------ */
/* A use                                                                     */

static void open_file(clv_context *ctx, core_use *use)
{
    static _Atomic unsigned long counter;
    char *dir = core_context_cache(ctx, "uses");
    use->path = dir && !core_make_dirs(dir)
                    ? core_format("%s/%ld.%lu", dir, (long)getpid(), counter++)
                    : NULL;
    free(dir);
    if (use->path)
        use->fd = open(use->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (use->fd >= 0)
        flock(use->fd, LOCK_EX | LOCK_NB);
}

core_use *core_use_begin(clv_context *ctx)
{
    core_use *use = calloc(1, sizeof *use);
    if (!use)
        return NULL;
    use->fd = -1;
    open_file(ctx, use);
    for (int i = 0; i < MAX_USES; i++) {
        core_use *none = NULL;
        if (atomic_compare_exchange_strong(&uses[i], &none, use))
            break;
    }
    return use;
}

void core_use_end(core_use *use)
{
    if (!use)
        return;
    for (int i = 0; i < MAX_USES; i++) {
        core_use *it = use;
        atomic_compare_exchange_strong(&uses[i], &it, NULL);
    }
    if (use->fd >= 0) {
        unlink(use->path);
        close(use->fd);
    }
    free(use->path);
    free(use);
}

static void write_file(core_use *use, const core_plugin *plugin)
{
    char text[FILE_SIZE];
    char *identity = plugin ? identity_of(plugin->path) : NULL;
    int n = snprintf(text, sizeof text, "%s\n%s\n", identity ? identity : "",
                     use->what);
    free(identity);
    use->size = n > 0 && (size_t)n < sizeof text ? (size_t)n : 0;
    if (pwrite(use->fd, text, use->size, 0) != (ssize_t)use->size ||
        ftruncate(use->fd, (off_t)use->size))
        use->size = 0; /* a full disk: nothing is remembered */
}

void core_use_note(core_use *use, const core_plugin *plugin, const char *fmt,
                   ...)
{
    va_list args;
    if (!use || atomic_load(&use->ended) || !lock(use))
        return;
    va_start(args, fmt);
    vsnprintf(use->what, sizeof use->what, fmt, args);
    va_end(args);
    if (use->fd >= 0)
        write_file(use, plugin);
    atomic_flag_clear(&use->busy);
}

/* ------------------------------------------------------------------------ */
/* Its end with the process                                                  */

static size_t append(char *out, size_t used, size_t size, const char *text)
{
    while (*text && used + 1 < size)
        out[used++] = *text++;
    out[used] = 0;
    return used;
}

static size_t append_number(char *out, size_t used, size_t size, int number)
{
    char digits[] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10),
                     0};
    return append(out, used, size, digits + (number < 10));
}

const char *clv_crash_note(int signal)
{
    static char text[640];
    core_use *use = NULL;
    for (int i = 0; i < MAX_USES && !use; i++)
        use = atomic_load(&uses[i]);
    if (!use)
        return NULL;
    atomic_store(&use->ended, true);
    /* Kept, so that nothing is written over the end. */
    if (!lock(use))
        use->size = 0;
    if (!use->what[0])
        return NULL;
    size_t n = append(text, 0, sizeof text,
                      signal ? "it crashed (signal " : "it ended the process");
    if (signal) {
        const char *name = sigabbrev_np(signal);
        n = append_number(text, n, sizeof text, signal);
        n = append(text, n, sizeof text, ", SIG");
        n = append(text, n, sizeof text, name ? name : "?");
        n = append(text, n, sizeof text, ")");
    }
    n = append(text, n, sizeof text, " in ");
    n = append(text, n, sizeof text, use->what);
    if (use->fd >= 0 && use->size &&
        pwrite(use->fd, text, n, (off_t)use->size) != (ssize_t)n)
        use->size = 0;
    return text;
}

/* ------------------------------------------------------------------------ */
/* At the next start                                                         */

/* "" if it cannot be read. */
static void read_file(int fd, char *out)
{
    ssize_t n = pread(fd, out, FILE_SIZE - 1, 0);
    out[n > 0 ? n : 0] = 0;
}

/* The lines of a file: which plugin's, and how it ended. False: it did not end
 * so that anything is to be learned. */
static bool read_end(char *text, char **identity, char **end)
{
    char *second = strchr(text, '\n');
    char *third = second ? strchr(second + 1, '\n') : NULL;
    if (!third || second == text || !third[1])
        return false;
    *second = 0;
    *identity = text;
    *end = third + 1;
    return true;
}

static bool is_of(const char *identity, const char *path)
{
    const size_t n = strlen(path);
    return !strncmp(identity, path, n) && identity[n] == ' ';
}

static clv_status check_file(int dir, const char *name, const char *path,
                             const char *wanted, const char *dir_name)
{
    char text[FILE_SIZE], *identity, *end;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return CLV_OK;
    const bool in_use = flock(fd, LOCK_EX | LOCK_NB) != 0;
    read_file(fd, text);
    close(fd);
    if (in_use)
        return CLV_OK;
    const bool ended = read_end(text, &identity, &end);
    if (ended && !strcmp(identity, wanted))
        return clv_error(CLV_ERR_REFUSED,
                         "%s at its last use; update it, or remove %s/%s to "
                         "try it again",
                         end, dir_name, name);
    if (!ended || is_of(identity, path))
        unlinkat(dir, name, 0);
    return CLV_OK;
}

clv_status core_use_check(clv_context *ctx, const char *path)
{
    clv_status status = CLV_OK;
    char *dir_name = core_context_cache(ctx, "uses"),
         *identity = identity_of(path);
    DIR *dir = dir_name && identity ? opendir(dir_name) : NULL;
    const struct dirent *entry;
    while (dir && !status && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            status =
                check_file(dirfd(dir), entry->d_name, path, identity, dir_name);
    if (dir)
        closedir(dir);
    free(dir_name);
    free(identity);
    return status;
}
