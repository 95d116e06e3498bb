/* What the tests of the core share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cleave/cleave.h>

#include <string.h>

/* A small generator, so that every run tests the same cases. */
typedef struct test_random {
    uint64_t state;
} test_random;

static inline uint32_t test_bits(test_random *r)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->state >> 33) ^ (uint32_t)(r->state >> 17);
}

/* 0..n-1 */
static inline uint32_t test_below(test_random *r, uint32_t n)
{
    return (uint32_t)(((uint64_t)test_bits(r) * n) >> 32);
}

/* -1..1 */
static inline float test_float(test_random *r)
{
    return (float)((double)test_bits(r) / 2147483648.0 - 1);
}

#define assert_ok(call)                                                        \
    do {                                                                       \
        clv_status status_ = (call);                                           \
        if (status_)                                                           \
            fail_msg("%s: %s", #call, clv_last_error());                       \
    } while (0)

#define assert_error_says(text)                                                \
    do {                                                                       \
        if (!strstr(clv_last_error(), text))                                   \
            fail_msg("'%s' is not in: %s", text, clv_last_error());            \
    } while (0)
