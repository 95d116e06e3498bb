/*
 * Checks and times the CPU kernels. Every kernel of every instruction set that
 * this CPU has is compared with the truth, computed in doubles or by the
 * reference; the reference goes through the same checks.
 */
#pragma once

#include "../../plugins/cpu/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct checker {
    const char *variant;      /* instruction set under test */
    const cpu_kernels *ref;   /* the reference */
    const cpu_kernels *under; /* the table under test */
    const cpu_kernels *below; /* of the set below; equal entries are skipped */
    uint64_t random;          /* generator state */
    unsigned checks, failures;
    void *scratch; /* CPU_SCRATCH_SIZE */
} checker;

/* One line of a shapes file: a kernel's name and its numbers. */
typedef struct bench_shape {
    char kernel[16];
    int64_t v[8];
    int n;
} bench_shape;

typedef struct subject {
    const char *name;
    void (*check)(checker *c);
    void (*bench)(checker *c, const bench_shape *shape);
} subject;

extern const subject check_matmul, check_attention, check_rowops, check_convert;

/* Counts a check; where it failed says so, with the kernel's parameters. */
void check_that(checker *c, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint64_t check_random(checker *c);
int64_t check_range(checker *c, int64_t low, int64_t high); /* both included */
float check_normal(checker *c); /* about normal, mean 0, variance 1 */

/* Memory with guard bytes on both sides, `shift` bytes past a 64-byte boundary;
 * filled with bytes that read as NaN. Exits when memory runs out. */
void *check_alloc(size_t size, size_t shift);
/* Frees memory; true if all guards are whole. NULLs are passed over. */
#define check_free(...)                                                        \
    check_free_list((void *[]){__VA_ARGS__},                                   \
                    sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
bool check_free_list(void **memory, size_t n);

/* True for two NaN, equal values, or |a - b| <= bound. */
bool check_near(double a, double b, double bound);

/* Bytes of n elements. */
size_t check_size(int dtype, int64_t n);
const char *check_dtype(int dtype);

/* Runs fn(arg) for a while; the best time in seconds. */
double bench_time(void (*fn)(void *), void *arg);
/* One line: operations and bytes moved a call. */
void bench_report(const checker *c, const char *what, double seconds,
                  double operations, double bytes);
