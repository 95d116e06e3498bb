/*
 * Parts of mapped files in another order. Whole pages are mapped from where
 * they are in the file, so they take no memory. Bytes of pages that belong to
 * two parts then, and of parts that would begin elsewhere in a page, are
 * copied; into shared memory, as private pages lose theirs when they are given
 * up.
 */
#include "error.h"
#include "file_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct parts {
    int fd;
    uint64_t offset;     /* of the first part in the file, */
    uint64_t head;       /* and in its first page */
    uint64_t size, page; /* of a part, of a page */
    char *pages;         /* from the page in which the first part begins */
} parts;

static clv_status failed(const char *what)
{
    return clv_error(errno == ENOMEM ? CLV_ERR_NO_MEMORY : CLV_ERR_IO,
                     "the parts of a mapped file cannot be put in order: "
                     "%s: %s; set core.popularity=off",
                     what, strerror(errno));
}

/* n bytes of the file to `to` on in the pages. */
static clv_status copy(const parts *p, uint64_t from, uint64_t to, uint64_t n)
{
    for (ssize_t got; n; n -= (uint64_t)got) {
        got = pread(p->fd, p->pages + to, n, (off_t)from);
        if (got <= 0)
            return failed("reading");
        from += (uint64_t)got;
        to += (uint64_t)got;
    }
    return CLV_OK;
}

/* Part i becomes what part `from` is in the file. */
static clv_status place(const parts *p, uint64_t i, uint64_t from)
{
    const uint64_t begin = p->head + i * p->size, end = begin + p->size;
    const uint64_t source = p->offset + from * p->size;
    uint64_t first = (begin + p->page - 1) / p->page * p->page;
    uint64_t last = end / p->page * p->page;
    if (source % p->page != begin % p->page || first >= last)
        first = last = end;
    CLV_TRY(copy(p, source, begin, first - begin));
    CLV_TRY(copy(p, source + (last - begin), last, end - last));
    if (first < last &&
        mmap(p->pages + first, last - first, PROT_READ, MAP_SHARED | MAP_FIXED,
             p->fd, (off_t)(source + (first - begin))) == MAP_FAILED)
        return failed("mapping");
    return CLV_OK;
}

/* What lies beside the parts in their first and last page stays as it is: it
 * may be of parts that have another order already. beside: room for two pages.
 */
static clv_status place_all(const parts *p, uint32_t n, const uint32_t *order,
                            char *beside)
{
    const uint64_t end = p->head + n * p->size;
    const uint64_t all = (end + p->page - 1) / p->page * p->page;
    memcpy(beside, p->pages, p->head);
    memcpy(beside + p->head, p->pages + end, all - end);
    if (mmap(p->pages, all, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return failed("memory");
    memcpy(p->pages, beside, p->head);
    memcpy(p->pages + end, beside + p->head, all - end);
    for (uint32_t i = 0; i < n; i++)
        CLV_TRY(place(p, i, order[i]));
    return mprotect(p->pages, all, PROT_READ) ? failed("protecting") : CLV_OK;
}

/* Each cycle of the order by itself. */
static clv_status move(char *data, uint64_t size, uint32_t n,
                       const uint32_t *order)
{
    char *first = malloc(size + n);
    if (!first)
        return core_no_memory("to order a weight's parts");
    char *done = memset(first + size, 0, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        if (done[i])
            continue;
        memcpy(first, data + i * size, size);
        for (; order[at] != i; at = order[at]) {
            memcpy(data + at * size, data + order[at] * size, size);
            done[at] = 1;
        }
        memcpy(data + at * size, first, size);
        done[at] = 1;
    }
    free(first);
    return CLV_OK;
}

static clv_status check(uint64_t size, uint32_t n, const uint32_t *order)
{
    bool *seen = calloc(n + 1u, sizeof *seen);
    bool good = size > 0;
    if (!seen)
        return core_no_memory("to order a weight's parts");
    for (uint32_t i = 0; i < n && good; i++) {
        good = order[i] < n && !seen[order[i]];
        if (good)
            seen[order[i]] = true;
    }
    free(seen);
    return good ? CLV_OK
                : clv_error(CLV_ERR_INVALID,
                            "an order of %u parts names one that is not there, "
                            "or one twice",
                            n);
}

clv_status clv_file_reorder(void *data, uint64_t size, uint32_t n,
                            const uint32_t *order)
{
    core_file_place at;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t head = (uintptr_t)data % page;
    CLV_TRY(check(size, n, order));
    parts p = {.fd = core_file_find(data, &at),
               .head = head,
               .size = size,
               .page = page,
               .pages = (char *)data - head};
    if (p.fd < 0)
        return move(data, size, n, order);
    if (at.left / size < n)
        return clv_error(CLV_ERR_INVALID,
                         "%u parts of %llu bytes go beyond their mapped file",
                         n, (unsigned long long)size);
    p.offset = at.offset;
    char *beside = malloc(2 * page);
    const clv_status status = beside
                                  ? place_all(&p, n, order, beside)
                                  : core_no_memory("to order a weight's parts");
    free(beside);
    return status;
}
