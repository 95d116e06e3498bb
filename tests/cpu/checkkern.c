#include "checkkern.h"
#include "../../plugins/cpu/level.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GUARD 64
#define GUARD_BYTE 0xff

static const subject *const subjects[] = {&check_convert, &check_rowops,
                                          &check_matmul, &check_attention};
#define N_SUBJECTS (sizeof(subjects) / sizeof(*subjects))

/* -------------------------------------------------------------------------- */
/* Instruction sets                                                           */

typedef struct variant {
    const char *name;
    void (*fill)(cpu_kernels *table);
    cpu_level level;
} variant;

static const variant variants[] = {
    {"ref", cpu_kernels_ref, CPU_LEVEL_REF},
#ifdef CPU_HAS_AVX2
    {"avx2", cpu_kernels_avx2, CPU_LEVEL_AVX2},
#endif
#ifdef CPU_HAS_AVX512
    {"avx512", cpu_kernels_avx512, CPU_LEVEL_AVX512},
#endif
#ifdef CPU_HAS_AVX512VNNI
    {"avx512vnni", cpu_kernels_avx512_vnni, CPU_LEVEL_AVX512VNNI},
#endif
#ifdef CPU_HAS_AMX_EMULATED
    {"amx emulated", cpu_kernels_amx_emulated, CPU_LEVEL_AVX512VNNI},
#endif
#ifdef CPU_HAS_AMX
    {"amx", cpu_kernels_amx, CPU_LEVEL_AMX},
#endif
};
#define N_VARIANTS (int)(sizeof(variants) / sizeof(*variants))

/* -------------------------------------------------------------------------- */
/* Helpers of the subjects                                                    */

void check_that(checker *c, bool ok, const char *format, ...)
{
    va_list args;
    c->checks++;
    if (ok)
        return;
    /* A broken kernel fails everywhere; the first cases say enough. */
    if (c->failures++ > 20)
        return;
    fprintf(stderr, "%s: ", c->variant);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

uint64_t check_random(checker *c)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t check_range(checker *c, int64_t low, int64_t high)
{
    return low + (int64_t)(check_random(c) % (uint64_t)(high - low + 1));
}

float check_normal(checker *c)
{
    float sum = -6;
    for (int i = 0; i < 6; i++) {
        uint64_t r = check_random(c);
        sum += (float)((r & 0xffffff) + (r >> 40)) * 0x1p-24f;
    }
    return sum;
}

/* Before the block: its size and the address to free. */
typedef struct guarded {
    void *base;
    size_t size;
} guarded;

void *check_alloc(size_t size, size_t shift)
{
    size_t total = (size + shift + 3 * GUARD + 63) / 64 * 64;
    uint8_t *base = aligned_alloc(64, total);
    if (!base) {
        fprintf(stderr, "checkkern: no memory for %zu bytes\n", total);
        exit(2);
    }
    guarded head = {base, size};
    uint8_t *memory = base + 2 * GUARD + shift;
    memset(base, GUARD_BYTE, total);
    memcpy(memory - GUARD - sizeof(head), &head, sizeof(head));
    return memory;
}

static bool free_one(uint8_t *p)
{
    guarded head;
    bool whole = true;
    memcpy(&head, p - GUARD - sizeof(head), sizeof(head));
    for (int i = 0; i < GUARD; i++)
        whole &= p[i - GUARD] == GUARD_BYTE &&
                 p[head.size + (size_t)i] == GUARD_BYTE;
    free(head.base);
    return whole;
}

bool check_free_list(void **memory, size_t n)
{
    bool whole = true;
    for (size_t i = 0; i < n; i++)
        whole &= !memory[i] || free_one(memory[i]);
    return whole;
}

bool check_near(double a, double b, double bound)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= bound;
}

size_t check_size(int dtype, int64_t n)
{
    const clv_format *f = clv_format_of((uint32_t)dtype);
    return (size_t)n / f->elements * f->bytes;
}

const char *check_dtype(int dtype)
{
    return clv_format_of((uint32_t)dtype)->name;
}

/* -------------------------------------------------------------------------- */
/* Timing                                                                     */

/* The thread's own time: what else runs on the machine disturbs it least. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_time(void (*fn)(void *), void *arg)
{
    double best = 1e9, end = now() + 0.3;
    do {
        int n = 0;
        double begin = now(), last;
        do {
            fn(arg);
            n++;
            last = now();
        } while (last - begin < 1e-3);
        if ((last - begin) / n < best)
            best = (last - begin) / n;
    } while (now() < end);
    return best;
}

void bench_report(const checker *c, const char *what, double seconds,
                  double operations, double bytes)
{
    printf("%-11s %-34s %10.1f us %8.1f GOP/s %7.1f GB/s\n", c->variant, what,
           seconds * 1e6, operations / seconds * 1e-9, bytes / seconds * 1e-9);
    fflush(stdout);
}

static int read_shape(const char *line, bench_shape *s)
{
    int used;
    *s = (bench_shape){0};
    if (sscanf(line, "%15s%n", s->kernel, &used) != 1 || *s->kernel == '#')
        return 0;
    for (line += used; s->n < 8; s->n++, line += used)
        if (sscanf(line, "%" SCNd64 "%n", &s->v[s->n], &used) != 1)
            break;
    return 1;
}

static int bench_file(checker *c, const char *path, const char *only)
{
    char line[256];
    bench_shape shape;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "checkkern: cannot read %s\n", path);
        return 2;
    }
    while (fgets(line, sizeof(line), file))
        if (read_shape(line, &shape))
            for (size_t i = 0; i < N_SUBJECTS; i++)
                if (!only || strstr(subjects[i]->name, only))
                    subjects[i]->bench(c, &shape);
    fclose(file);
    return 0;
}

/* -------------------------------------------------------------------------- */

typedef struct options {
    const char *shapes, *only, *variant;
    uint64_t seed;
} options;

static void usage(FILE *out)
{
    fputs("usage: checkkern [--bench SHAPES] [--variant NAME] [--only SUBJECT] "
          "[--seed N]\n"
          "Compares the CPU kernels with the reference, or times them.\n"
          "  checkkern\n"
          "  checkkern --bench bench/shapes/llama-1b.txt --only matmul\n",
          out);
}

static int read_options(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--bench") && more)
            o->shapes = argv[++i];
        else if (!strcmp(argv[i], "--variant") && more)
            o->variant = argv[++i];
        else if (!strcmp(argv[i], "--only") && more)
            o->only = argv[++i];
        else if (!strcmp(argv[i], "--seed") && more)
            o->seed = strtoull(argv[++i], NULL, 0);
        else
            return strcmp(argv[i], "--help") ? 2 : 1;
    }
    return 0;
}

static int run_variant(const options *o, const variant *v, checker *c)
{
    int status = 0;
    c->variant = v->name;
    c->random = o->seed;
    c->checks = c->failures = 0;
    if (o->shapes)
        return strstr(v->name, "emulated") ? 0
                                           : bench_file(c, o->shapes, o->only);
    for (size_t i = 0; i < N_SUBJECTS; i++)
        if (!o->only || strstr(subjects[i]->name, o->only))
            subjects[i]->check(c);
    printf("%s: %u checks, %u failed\n", v->name, c->checks, c->failures);
    if (c->failures) {
        fprintf(stderr, "%s: again with --variant %s --seed %" PRIu64 "\n",
                v->name, v->name, o->seed);
        status = 1;
    }
    return status;
}

int main(int argc, char **argv)
{
    options o = {.seed = 1};
    cpu_kernels tables[N_VARIANTS + 1] = {0};
    int status = read_options(argc, argv, &o);
    checker c = {.ref = &tables[1]};

    if (status) {
        usage(status == 1 ? stdout : stderr);
        return status == 1 ? 0 : 2;
    }
    c.scratch = check_alloc(CPU_SCRATCH_SIZE, 0);
    for (int i = 0; i < N_VARIANTS && status != 2; i++) {
        if (variants[i].level > cpu_detect_level()) {
            printf("%s: skipped, this CPU does not have it\n",
                   variants[i].name);
            continue;
        }
        /* Each table lies over the one below, as the plugin's dispatch does. */
        tables[i + 1] = tables[i];
        variants[i].fill(&tables[i + 1]);
        c.below = &tables[i];
        c.under = &tables[i + 1];
        if (!o.variant || !strcmp(o.variant, variants[i].name))
            status |= run_variant(&o, &variants[i], &c);
    }
    if (!check_free(c.scratch)) {
        fprintf(stderr, "checkkern: a kernel wrote past its scratch\n");
        status |= 1;
    }
    return status;
}
