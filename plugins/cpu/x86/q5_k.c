/* Q5_K: as Q4_K; 32 more bytes have the fifth bits of all blocks. */
#define DTYPE CLV_DTYPE_Q5_K
#define GROUP 32
#define OFFSET 0
#define TOP 31

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    vi high = fields(w + offsetof(clv_block_q5_k, h), 1, p);
    (void)n;
    return vi_or(fields(w + offsetof(clv_block_q5_k, q), 4, p),
                 vi_sll16(high, 4));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    k_factors(p->w, out);
}

#include "matmul_integers.h"

FORMAT(q5_k)
