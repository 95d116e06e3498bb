#include "matrix_types.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    OP_TYPE_VOID = 19, OP_TYPE_INT = 21, OP_TYPE_FLOAT = 22, OP_CONSTANT = 43,
    OP_TYPE_MATRIX = 4456,
    HEAD = 5,      /* words before the instructions */
    BOUND = 3,     /* of them, one more than the largest id */
    MATRIX = 7,    /* words of a matrix type */
    NUMBERS = 16,  /* different ones that can be */
};

typedef struct work {
    const uint32_t *in;
    uint32_t *out;
    size_t n_in, n_out;
    uint32_t bound;
    uint32_t uint_id, half_id, float_id; /* 0: none yet */
    uint32_t number[NUMBERS], id[NUMBERS], n_numbers;
} work;

static uint32_t op_at(const work *w, size_t i) { return w->in[i] & 0xffffu; }
static uint32_t size_at(const work *w, size_t i) { return w->in[i] >> 16; }

static void put(work *w, uint32_t word)
{
    w->out[w->n_out++] = word;
}

static bool is_scalar(const work *w, size_t i, uint32_t *w_bits)
{
    const uint32_t op = op_at(w, i), size = size_at(w, i);
    *w_bits = size > 2 ? w->in[i + 2] : 0;
    return (op == OP_TYPE_INT && size == 4 && *w_bits == 32 && !w->in[i + 3]) ||
           (op == OP_TYPE_FLOAT && size == 3 &&
            (*w_bits == 16 || *w_bits == 32));
}

/* Where the id of that type is kept. */
static uint32_t *id_of(work *w, uint32_t op, uint32_t bits)
{
    return op == OP_TYPE_INT ? &w->uint_id
           : bits == 16      ? &w->half_id
                             : &w->float_id;
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
    *first = 0;
    *matrices = 0;
    for (size_t i = HEAD; i < w->n_in; i += size_at(w, i)) {
        uint32_t bits, op = op_at(w, i);
        if (!size_at(w, i) || size_at(w, i) > w->n_in - i)
            return false;
        if (op >= OP_TYPE_VOID && op <= OP_CONSTANT && !*first)
            *first = i;
        if ((op == OP_TYPE_INT || op == OP_TYPE_FLOAT) &&
            is_scalar(w, i, &bits))
            *id_of(w, op, bits) = w->in[i + 1];
        if (op != OP_TYPE_MATRIX)
            continue;
        ++*matrices;
        if (size_at(w, i) != MATRIX || !*first)
            return false;
        for (size_t k = 3; k < MATRIX; k++)
            if (!add_number(w, w->in[i + k]))
                return false;
    }
    return true;
}

/* The scalar types and constants that matrices need. */
static void put_front(work *w)
{
    uint32_t *const ids[] = {&w->uint_id, &w->half_id, &w->float_id};
    for (int i = 0; i < 3; i++)
        if (!*ids[i])
            *ids[i] = w->bound++;
    put(w, 4u << 16 | OP_TYPE_INT);
    put(w, w->uint_id);
    put(w, 32);
    put(w, 0);
    for (int i = 1; i < 3; i++) {
        put(w, 3u << 16 | OP_TYPE_FLOAT);
        put(w, *ids[i]);
        put(w, 16u * (uint32_t)i);
    }
    for (uint32_t i = 0; i < w->n_numbers; i++) {
        put(w, 4u << 16 | OP_CONSTANT);
        put(w, w->uint_id);
        put(w, w->id[i]);
        put(w, w->number[i]);
    }
}

static void put_matrix(work *w, size_t i)
{
    put(w, w->in[i]);
    put(w, w->in[i + 1]);
    put(w, w->in[i + 2] == 16 ? w->half_id : w->float_id);
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
        uint32_t bits, op = op_at(w, i);
        if (i == first)
            put_front(w);
        if ((op == OP_TYPE_INT || op == OP_TYPE_FLOAT) &&
            is_scalar(w, i, &bits))
            continue; /* is in front now */
        if (op == OP_TYPE_MATRIX) {
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
    w.out = malloc((*n + 10 + 4 * NUMBERS) * sizeof *w.out);
    if (!w.out)
        return -1;
    rewrite(&w, first);
    free(*words);
    *words = w.out;
    *n = w.n_out;
    return 0;
}
