/*
 * I4: two's complement nibbles in pairs, scales beside them. Rows of x are
 * prepared with the even elements of a block in front of the odd ones, as the
 * nibbles come. Conversion is the reference's.
 */
#define DTYPE CLV_DTYPE_I4
#define GROUP 32
#define OFFSET 8
#define TOP 15
#define STRIPS_FROM 3
#define X_IN_PAIRS 1

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    /* Adds 8 to each nibble. */
    return nibbles(vi_xor(load_twice(first_block(w, p), last_block(w, p, n)),
                          vi_set1_8(-120)));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = beside_factors(p);
}

#define TURN(rows, n, out) turn_nibbles(rows, n, out, 0, 16, 0x88, as_it_is)
#include "matmul_integers.h"

FORMAT(i4)
