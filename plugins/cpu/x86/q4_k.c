/* Q4_K: 32 bytes have two blocks of nibbles. */
#define DTYPE CLV_DTYPE_Q4_K
#define GROUP 32
#define OFFSET 0
#define TOP 15
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    (void)n;
    return fields(w + offsetof(clv_block_q4_k, q), 4, p);
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    k_factors(p->w, out);
}

#include "matmul_integers.h"

FORMAT(q4_k)
