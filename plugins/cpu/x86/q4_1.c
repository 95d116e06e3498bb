/* Q4_1: nibbles, element j beside element j + 16, with a minimum. */
#define DTYPE CLV_DTYPE_Q4_1
#define GROUP 32
#define OFFSET 0
#define TOP 15
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return block_nibbles(w, p, n, 4);
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
    /* It is added. */
    *out->minimum = vf_sub(vf_zero(), block_factors(p, 2));
}

#define TURN(rows, n, out) turn_nibbles(rows, n, out, 4, 20, 0, as_it_is)
#include "matmul_integers.h"

FORMAT(q4_1)
