/*
 * Runs a harness without libFuzzer: every seed of a directory as it is, then
 * the same number of random mutations on every machine. A smoke test, not a
 * search.
 *
 * fuzz_main CORPUS MUTATIONS; CLEAVE_FUZZ_RUNS overrides MUTATIONS.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEEDS 256
#define MAX_SIZE (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seed {
    uint8_t *data;
    size_t size;
} seed;

static seed seeds[MAX_SEEDS];
static size_t n_seeds;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t random_u64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t below(size_t n)
{
    return n ? (size_t)(random_u64() % n) : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_seed(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f || n_seeds == MAX_SEEDS)
        return 0;
    uint8_t *data = malloc(MAX_SIZE);
    size_t n = data ? fread(data, 1, MAX_SIZE, f) : 0;
    fclose(f);
    if (!data)
        return 0;
    seeds[n_seeds++] = (seed){data, n};
    return 1;
}

static int read_seeds(const char *dir)
{
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, by_name);
    int ok = n >= 0;
    for (int i = 0; i < n; i++) {
        if (ok && entries[i]->d_name[0] != '.')
            ok = read_seed(dir, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return ok && n_seeds > 0;
}

/* Numbers at the edges of what sizes and counts can hold. */
static uint64_t edge(void)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     31,
                                     32,
                                     33,
                                     127,
                                     128,
                                     255,
                                     256,
                                     65535,
                                     65536,
                                     0x7fffffff,
                                     0x80000000u,
                                     0xffffffffu,
                                     0x100000000u,
                                     0x7fffffffffffffffu,
                                     0x8000000000000000u,
                                     0xffffffffffffffffu,
                                     0xfffffffffffffff0u};
    return edges[below(sizeof edges / sizeof *edges)];
}

static size_t erase(uint8_t *data, size_t size)
{
    size_t at = below(size), n = 1 + below(size - at < 64 ? size - at : 64);
    if (n > size - at)
        n = size - at;
    memmove(data + at, data + at + n, size - at - n);
    return size - n;
}

/* Inserts a piece of a seed. */
static size_t splice(uint8_t *data, size_t size)
{
    const seed *from = &seeds[below(n_seeds)];
    size_t begin = below(from->size), at = below(size + 1);
    size_t n = below(from->size - begin < 128 ? from->size - begin : 128);
    if (n > MAX_SIZE - size)
        n = MAX_SIZE - size;
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, from->data + begin, n);
    return size + n;
}

static size_t mutate(uint8_t *data, size_t size)
{
    uint64_t value = edge();
    size_t width = (size_t)1 << below(4);
    switch (below(6)) {
    case 0:
        if (size)
            data[below(size)] ^= (uint8_t)(1u << below(8));
        return size;
    case 1:
        if (size)
            data[below(size)] = (uint8_t)random_u64();
        return size;
    case 2:
        if (size >= width)
            memcpy(data + below(size - width + 1), &value, width);
        return size;
    case 3:
        return size ? erase(data, size) : size;
    case 4:
        return splice(data, size);
    default:
        return below(8) ? size : below(size + 1); /* cut the end off */
    }
}

/* The harness sees a block of just this size, so that reading past its end is
 * noticed by AddressSanitizer. */
static int run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    const char *runs = getenv("CLEAVE_FUZZ_RUNS");
    uint8_t *data = malloc(MAX_SIZE);
    if (argc != 3 || !data || !read_seeds(argv[1])) {
        fprintf(stderr, "usage: %s CORPUS MUTATIONS\n", argv[0]);
        return 2;
    }
    unsigned long n = strtoul(runs ? runs : argv[2], NULL, 10);
    int ok = 1;
    for (size_t i = 0; i < n_seeds && ok; i++)
        ok = run(seeds[i].data, seeds[i].size);
    for (unsigned long i = 0; i < n && ok; i++) {
        const seed *s = &seeds[below(n_seeds)];
        size_t size = s->size;
        memcpy(data, s->data, size);
        for (size_t m = 1 + below(4); m > 0; m--)
            size = mutate(data, size);
        ok = run(data, size);
    }
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].data);
    free(data);
    printf("%zu seeds, %lu mutations\n", n_seeds, n);
    return ok ? 0 : 1;
}
