/* Allocations that fail, in a test linked with --wrap for each function below.
 */
#pragma once

#include "test.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The linker's names for what it wraps, and for what is called instead. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __real_vasprintf(char **out, const char *fmt, va_list args);
CLV_API void *__wrap_malloc(size_t size);
CLV_API void *__wrap_calloc(size_t n, size_t size);
CLV_API void *__wrap_realloc(void *old, size_t size);
CLV_API void *__wrap_reallocarray(void *old, size_t n, size_t size);
CLV_API char *__wrap_strdup(const char *s);
CLV_API char *__wrap_strndup(const char *s, size_t n);
CLV_API int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
CLV_API int __wrap_vasprintf(char **out, const char *fmt, va_list args);

/* Allocations until the one that fails; below 0: none does. */
static atomic_int countdown = -1;

static bool fails(void)
{
    return atomic_load(&countdown) >= 0 && atomic_fetch_sub(&countdown, 1) == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
    return fails() ? NULL : __real_reallocarray(old, n, size);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return fails() ? 12 : __real_posix_memalign(out, alignment, size);
}

int __wrap_vasprintf(char **out, const char *fmt, va_list args)
{
    return fails() ? -1 : __real_vasprintf(out, fmt, args);
}

/* Of a step that succeeds. */
static inline int count_allocations(clv_status (*step)(void *arg), void *arg)
{
    atomic_store(&countdown, INT_MAX);
    clv_status status = step(arg);
    const int n = INT_MAX - atomic_load(&countdown);
    atomic_store(&countdown, -1);
    assert_int_equal(status, CLV_OK);
    return n;
}

/* Runs step with its allocation `first` failing, then the next one..., until
 * none fails. */
static inline void
test_allocations_from(int first, clv_status (*step)(void *arg), void *arg)
{
    int n = first, errors = 0;
    for (;; n++) {
        clv_error(CLV_OK, "nothing was said");
        atomic_store(&countdown, n);
        clv_status status = step(arg);
        bool reached = atomic_load(&countdown) < 0;
        atomic_store(&countdown, -1);
        if (!reached) {
            if (status)
                fail_msg("without a failure: %s", clv_last_error());
            break;
        }
        errors += status != CLV_OK;
        if (!status)
            continue; /* done without, or a plugin was */
        if (status != CLV_ERR_NO_MEMORY && status != CLV_ERR_NOT_FOUND)
            fail_msg("allocation %d: status %d: %s", n, status,
                     clv_last_error());
        if (!strstr(clv_last_error(), "memory") ||
            strchr(clv_last_error(), '\n'))
            fail_msg("allocation %d: %s", n, clv_last_error());
    }
    assert_true(n > first && errors > 0);
}

static inline void test_allocations(clv_status (*step)(void *arg), void *arg)
{
    test_allocations_from(0, step, arg);
}
