#include "file_pages.h"
#include "file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* A request for more is cut to what the disk likes best. */
#define ASK_SIZE ((uint64_t)128 << 10)

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What these cannot do is only slower. */
void core_file_ask(const void *data, uint64_t size)
{
    core_file_place place;
    const int fd = core_file_find(data, &place);
    for (uint64_t at = 0; fd >= 0 && at < size; at += ASK_SIZE)
        posix_fadvise(fd, (off_t)(place.offset + at),
                      (off_t)smaller(size - at, ASK_SIZE), POSIX_FADV_WILLNEED);
}

/* Pages that a process has mapped are not dropped, so they are unmapped
 * first. */
void core_file_give_up(const void *data, uint64_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)data;
    const uintptr_t begin = (first + page - 1) / page * page;
    const uintptr_t end = (uintptr_t)(first + size) / page * page;
    core_file_place place;
    const int fd = core_file_find(data, &place);
    if (fd < 0 || begin >= end)
        return;
    madvise((void *)begin, end - begin, MADV_DONTNEED);
    posix_fadvise(fd, (off_t)(place.offset + (begin - first)),
                  (off_t)(end - begin), POSIX_FADV_DONTNEED);
}

double core_file_speed(const void *data, uint64_t *size)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const volatile uint8_t *bytes = data;
    core_file_place place;
    if (core_file_find(data, &place) < 0)
        return 0;
    *size = smaller(*size, place.left);
    core_file_give_up(data, *size);
    const uint64_t begin = clv_now_ns();
    core_file_ask(data, *size);
    for (uint64_t at = 0; at < *size; at += page)
        (void)bytes[at];
    const uint64_t ns = clv_now_ns() - begin;
    return ns ? (double)*size / (double)ns : 0;
}
