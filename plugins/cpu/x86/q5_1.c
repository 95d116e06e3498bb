/* Q5_1: as Q4_1, with a fifth bit. */
#define DTYPE CLV_DTYPE_Q5_1
#define GROUP 32
#define OFFSET 0
#define TOP 31

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return vi_or(block_nibbles(w, p, n, 8), block_fifth_bits(w, p, n, 4));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
    /* It is added. */
    *out->minimum = vf_sub(vf_zero(), block_factors(p, 2));
}

#include "matmul_integers.h"

FORMAT(q5_1)
