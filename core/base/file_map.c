/*
 * Files mapped read-only. Where another process cuts a mapped file short, or
 * its disk fails, reading the pages that are gone raises SIGBUS, in whatever
 * thread of the process or of a driver does it. A handler of that signal puts
 * zeros in their place and notes it; who uses the file asks afterwards.
 */
#include "file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_SIZE ((size_t)16 << 20)

/* ------------------------------------------------------------------------ */
/* Mappings                                                                 */

/* A mapping that exists. Signal handlers read the list while it grows, so
 * entries are used again but never freed. */
typedef struct mapping {
    struct mapping *next;
    _Atomic uintptr_t begin, end; /* 0: free */
    int fd;                       /* owned */
    _Atomic bool damaged;
} mapping;

static _Atomic(mapping *) mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t n_mappings;
static bool guarded = true;
static struct sigaction previous;
static uintptr_t page_size;

static mapping *find(uintptr_t address)
{
    for (mapping *m = atomic_load(&mappings); m; m = m->next) {
        const uintptr_t begin = atomic_load(&m->begin);
        const uintptr_t end = atomic_load(&m->end);
        if (begin && address >= begin && address < end &&
            begin == atomic_load(&m->begin))
            return m;
    }
    return NULL;
}

/* ThreadSanitizer takes mmap() for a write of this thread's, and other threads
 * may read there meanwhile: it does not see the system call. */
static bool map_zeros(uintptr_t at, size_t size)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
#ifdef __SANITIZE_THREAD__
    return syscall(SYS_mmap, at, size, PROT_READ, flags, -1, 0) != -1;
#else
    return mmap((void *)at, size, PROT_READ, flags, -1, 0) != MAP_FAILED;
#endif
}

/* The rest of the file at once: each page alone would take a fault, and a
 * mapping of the system. */
bool clv_file_fault(const void *address)
{
    const int saved = errno;
    const uintptr_t at = (uintptr_t)address & ~(page_size - 1);
    mapping *m = find((uintptr_t)address);
    bool done = false;
    if (m) {
        atomic_store(&m->damaged, true);
        done = map_zeros(at, atomic_load(&m->end) - at);
    }
    errno = saved;
    return done;
}

/* ------------------------------------------------------------------------ */
/* The signal                                                               */

/* As if there were no handler of ours. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction before = previous;
    const struct sigaction none = {.sa_handler = SIG_DFL};
    const bool handled =
        before.sa_flags & SA_SIGINFO ||
        (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
    if (!handled || before.sa_flags & (int)SA_RESETHAND)
        sigaction(SIGBUS, &none, NULL);
    if (!handled)
        raise(number); /* ends the process once the handler returns */
    else if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    if (info->si_code <= 0 || !clv_file_fault(info->si_addr))
        pass_on(number, info, context);
}

/* Both under the lock. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

static void uninstall(void)
{
    struct sigaction now;
    if (!sigaction(SIGBUS, NULL, &now) && now.sa_flags & SA_SIGINFO &&
        now.sa_sigaction == on_fault)
        sigaction(SIGBUS, &previous, NULL);
}

void clv_file_guard(bool handle)
{
    pthread_mutex_lock(&lock);
    if (n_mappings && handle && !guarded)
        install();
    if (n_mappings && !handle && guarded)
        uninstall();
    guarded = handle;
    pthread_mutex_unlock(&lock);
}

/* The descriptor is the mapping's from now on. */
static bool add(uintptr_t begin, uint64_t size, int fd)
{
    pthread_mutex_lock(&lock);
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    mapping *m = atomic_load(&mappings);
    while (m && atomic_load(&m->begin))
        m = m->next;
    if (!m && (m = calloc(1, sizeof *m))) {
        m->next = atomic_load(&mappings);
        atomic_store(&mappings, m);
    }
    if (m) {
        m->fd = fd;
        atomic_store(&m->damaged, false);
        atomic_store(&m->end,
                     (begin + size + page_size - 1) & ~(page_size - 1));
        atomic_store(&m->begin, begin);
        if (!n_mappings++ && guarded)
            install();
    }
    pthread_mutex_unlock(&lock);
    return m;
}

static void drop(uintptr_t begin)
{
    pthread_mutex_lock(&lock);
    mapping *m = find(begin);
    if (m) {
        atomic_store(&m->begin, 0);
        close(m->fd);
        if (!--n_mappings && guarded)
            uninstall();
    }
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

clv_status core_open_error(const char *path)
{
    clv_status st = errno == ENOENT || errno == ENOTDIR ? CLV_ERR_NOT_FOUND
                    : errno == EACCES || errno == EPERM ? CLV_ERR_REFUSED
                                                        : CLV_ERR_IO;
    return clv_error(st, "%s: cannot open: %s", path, strerror(errno));
}

int core_file_find(const void *address, core_file_place *out)
{
    const mapping *m = find((uintptr_t)address);
    if (!m)
        return -1;
    *out = (core_file_place){(uintptr_t)address - atomic_load(&m->begin),
                             atomic_load(&m->end) - (uintptr_t)address};
    return m->fd;
}

/* *kept: the descriptor is the mapping's. */
static clv_status map_fd(const char *path, int fd, clv_file_map *out,
                         bool *kept)
{
    struct stat st;
    if (fstat(fd, &st))
        return core_open_error(path);
    if (!S_ISREG(st.st_mode))
        return clv_error(CLV_ERR_IO, "%s: this is %s, not a file", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "a device");
    clv_file_map map = {.size = (uint64_t)st.st_size};
    if (map.size > SIZE_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: %llu bytes do not fit in the address space", path,
                         (unsigned long long)map.size);
    if (map.size) {
        void *data = mmap(NULL, (size_t)map.size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            return clv_error(errno == ENOMEM ? CLV_ERR_NO_MEMORY : CLV_ERR_IO,
                             "%s: cannot map %llu bytes: %s", path,
                             (unsigned long long)map.size, strerror(errno));
        *kept = add((uintptr_t)data, map.size, fd);
        if (!*kept) {
            munmap(data, (size_t)map.size);
            return clv_error(CLV_ERR_NO_MEMORY, "%s: no memory to open it",
                             path);
        }
        map.data = data;
    }
    *out = map;
    return CLV_OK;
}

clv_status clv_file_map_open(const char *path, clv_file_map *out)
{
    *out = (clv_file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return core_open_error(path);
    bool kept = false;
    clv_status st = map_fd(path, fd, out, &kept);
    if (!kept)
        close(fd);
    return st;
}

clv_status clv_file_map_check(const clv_file_map *map, const char *path)
{
    struct stat st;
    const mapping *m = map->data ? find((uintptr_t)map->data) : NULL;
    if (!m || !atomic_load(&m->damaged))
        return CLV_OK;
    if (!stat(path, &st) && (uint64_t)st.st_size < map->size)
        return clv_error(CLV_ERR_IO,
                         "%s: shrank from %llu to %llu bytes while it was in "
                         "use; write a new file and rename it over the old one "
                         "instead",
                         path, (unsigned long long)map->size,
                         (unsigned long long)st.st_size);
    return clv_error(CLV_ERR_IO,
                     "%s: a part could not be read while it was in use: it was "
                     "overwritten, or its disk fails; load it again",
                     path);
}

/* The disk reads the next part while one is copied. Gives back the pages as it
 * goes, so that there are never two of all. */
static void copy_pages(uint8_t *to, const uint8_t *from, size_t size)
{
    uint8_t *pages = (uint8_t *)(uintptr_t)from;
    madvise(to, size, MADV_HUGEPAGE);
    for (size_t at = 0, n, next; at < size; at += n) {
        n = size - at < COPY_SIZE ? size - at : COPY_SIZE;
        next = size - at - n < COPY_SIZE ? size - at - n : COPY_SIZE;
        madvise(pages + at + n, next, MADV_WILLNEED);
        memcpy(to + at, from + at, n);
        madvise(pages + at, n, MADV_DONTNEED);
    }
}

clv_status clv_file_map_copy(const clv_file_map *map, const char *path)
{
    const size_t size = (size_t)map->size;
    void *at = (void *)(uintptr_t)map->data;
    if (!at || !find((uintptr_t)at))
        return CLV_OK; /* there are no pages, or it is a copy */
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "%s: no memory to copy its %llu bytes", path,
                         (unsigned long long)map->size);
    copy_pages(copy, at, size);
    clv_status status = clv_file_map_check(map, path);
    if (!status && (mprotect(copy, size, PROT_READ) ||
                    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                           at) == MAP_FAILED))
        status = clv_error(CLV_ERR_NO_MEMORY, "%s: cannot replace it: %s", path,
                           strerror(errno));
    if (status)
        munmap(copy, size);
    else
        drop((uintptr_t)at);
    return status;
}

clv_status clv_file_map_lock(const clv_file_map *map, const char *path)
{
    struct rlimit limit = {0};
    if (!map->data || !mlock(map->data, (size_t)map->size))
        return CLV_OK;
    const int error = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return clv_error(CLV_ERR_LIMIT,
                     "%s: cannot lock its %llu bytes in memory: %s; the limit "
                     "is %llu (ulimit -l shows it in KiB): raise it or do not "
                     "lock",
                     path, (unsigned long long)map->size, strerror(error),
                     (unsigned long long)limit.rlim_cur);
}

void clv_file_map_close(clv_file_map *map)
{
    if (map->data) {
        drop((uintptr_t)map->data);
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    }
    *map = (clv_file_map){0};
}
