/* Q5_0: as Q4_0, with a fifth bit and an offset of 16. */
#define DTYPE CLV_DTYPE_Q5_0
#define GROUP 32
#define OFFSET 16
#define TOP 31

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return vi_or(block_nibbles(w, p, n, 6), block_fifth_bits(w, p, n, 2));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#include "matmul_integers.h"

FORMAT(q5_0)
