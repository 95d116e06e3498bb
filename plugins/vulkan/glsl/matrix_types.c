#include "matrix_types.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    OP_TYPE_VOID = 19,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_CONSTANT = 43,
    OP_TYPE_MATRIX = 4456,
    HEAD = 5,     /* words before the instructions */
    BOUND = 3,    /* of them, one more than the largest id */
    MATRIX = 7,   /* words of a matrix type */
    NUMBERS = 16, /* different ones that can be */
};

/* Scalar types: a width, and 256 more of integers with signs, as a matrix's
 * first operand is; uint for constants. */
enum { UINT, HALF, FLOAT, BYTE, INT, SCALARS, SIGNED = 256 };
static const uint32_t scalars[SCALARS] = {32, 16, 32, SIGNED | 8, SIGNED | 32};

typedef struct work {
    const uint32_t *in;
    uint32_t *out;
    size_t n_in, n_out;
    uint32_t bound;
    uint32_t scalar_id[SCALARS]; /* 0: none yet */
    uint32_t number[NUMBERS], id[NUMBERS], n_numbers;
} work;

static uint32_t op_at(const work *w, size_t i)
{
    return w->in[i] & 0xffffu;
}
static uint32_t size_at(const work *w, size_t i)
{
    return w->in[i] >> 16;
}

static void put(work *w, uint32_t word)
{
    w->out[w->n_out++] = word;
}

/* The one that is declared there, SCALARS: another or none. */
static int scalar_at(const work *w, size_t i)
{
    const uint32_t op = op_at(w, i), size = size_at(w, i);
    const uint32_t bits = size > 2 ? w->in[i + 2] : 0;
    const uint32_t is_signed = size > 3 && w->in[i + 3] ? SIGNED : 0;
    if (op == OP_TYPE_INT && size == 4 && !is_signed)
        return bits == 32 ? UINT : SCALARS;
    if (op == OP_TYPE_INT && size == 4)
        return bits == 8 ? BYTE : bits == 32 ? INT : SCALARS;
    if (op == OP_TYPE_FLOAT && size == 3)
        return bits == 16 ? HALF : bits == 32 ? FLOAT : SCALARS;
    return SCALARS;
}

/* The one that a matrix's first operand means. */
static int scalar_of(uint32_t operand)
{
    int i = HALF;
    while (i < SCALARS && scalars[i] != operand)
        i++;
    return i;
}

static bool add_number(work *w, uint32_t number)
{
    for (uint32_t i = 0; i < w->n_numbers; i++)
        if (w->number[i] == number)
            return true;
    if (w->n_numbers == NUMBERS)
        return false;
    w->number[w->n_numbers] = number;
    w->id[w->n_numbers++] = w->bound++;
    return true;
}

/* Finds the ids and numbers; *first: the place of the first type. */
static bool survey(work *w, size_t *first, uint32_t *matrices)
{
    bool wanted[SCALARS] = {[UINT] = true};
    *first = 0;
    *matrices = 0;
    for (size_t i = HEAD; i < w->n_in; i += size_at(w, i)) {
        const uint32_t op = op_at(w, i);
        if (!size_at(w, i) || size_at(w, i) > w->n_in - i)
            return false;
        if (op >= OP_TYPE_VOID && op <= OP_CONSTANT && !*first)
            *first = i;
        const int scalar = scalar_at(w, i);
        if (scalar < SCALARS)
            w->scalar_id[scalar] = w->in[i + 1];
        if (op != OP_TYPE_MATRIX)
            continue;
        ++*matrices;
        if (size_at(w, i) != MATRIX || !*first ||
            scalar_of(w->in[i + 2]) == SCALARS)
            return false;
        wanted[scalar_of(w->in[i + 2])] = true;
        for (size_t k = 3; k < MATRIX; k++)
            if (!add_number(w, w->in[i + k]))
                return false;
    }
    for (int i = 0; i < SCALARS; i++)
        if (wanted[i] && !w->scalar_id[i])
            w->scalar_id[i] = w->bound++;
    return true;
}

/* The scalar types and constants that matrices need. */
static void put_front(work *w)
{
    for (int i = 0; i < SCALARS; i++) {
        const bool is_float = i == HALF || i == FLOAT;
        if (!w->scalar_id[i])
            continue;
        put(w, is_float ? 3u << 16 | OP_TYPE_FLOAT : 4u << 16 | OP_TYPE_INT);
        put(w, w->scalar_id[i]);
        put(w, scalars[i] & ~(uint32_t)SIGNED);
        if (!is_float)
            put(w, scalars[i] / SIGNED);
    }
    for (uint32_t i = 0; i < w->n_numbers; i++) {
        put(w, 4u << 16 | OP_CONSTANT);
        put(w, w->scalar_id[UINT]);
        put(w, w->id[i]);
        put(w, w->number[i]);
    }
}

static void put_matrix(work *w, size_t i)
{
    put(w, w->in[i]);
    put(w, w->in[i + 1]);
    put(w, w->scalar_id[scalar_of(w->in[i + 2])]);
    for (size_t k = 3; k < MATRIX; k++)
        for (uint32_t j = 0; j < w->n_numbers; j++)
            if (w->number[j] == w->in[i + k])
                put(w, w->id[j]);
}

static void rewrite(work *w, size_t first)
{
    w->n_out = 0;
    for (size_t i = 0; i < HEAD; i++)
        put(w, w->in[i]);
    for (size_t i = HEAD; i < w->n_in; i += size_at(w, i)) {
        if (i == first)
            put_front(w);
        if (scalar_at(w, i) < SCALARS)
            continue; /* is in front now */
        if (op_at(w, i) == OP_TYPE_MATRIX) {
            put_matrix(w, i);
            continue;
        }
        memcpy(w->out + w->n_out, w->in + i, size_at(w, i) * sizeof *w->in);
        w->n_out += size_at(w, i);
    }
    w->out[BOUND] = w->bound;
}

int vk_matrix_types(uint32_t **words, size_t *n)
{
    work w = {.in = *words, .n_in = *n};
    size_t first;
    uint32_t matrices;
    if (*n < HEAD)
        return -1;
    w.bound = w.in[BOUND];
    if (!survey(&w, &first, &matrices))
        return -1;
    if (!matrices)
        return 0;
    w.out = malloc((*n + 4 * SCALARS + 4 * NUMBERS) * sizeof *w.out);
    if (!w.out)
        return -1;
    rewrite(&w, first);
    free(*words);
    *words = w.out;
    *n = w.n_out;
    return 0;
}
