/* Q4_0: nibbles with an offset of 8, element j beside element j + 16. */
#define DTYPE CLV_DTYPE_Q4_0
#define GROUP 32
#define OFFSET 8
#define TOP 15
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return block_nibbles(w, p, n, 2);
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#define TURN(rows, n, out) turn_nibbles(rows, n, out, 2, 18, 0, as_it_is)
#include "matmul_integers.h"

FORMAT(q4_0)
