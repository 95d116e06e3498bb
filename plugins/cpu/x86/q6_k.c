/* Q6_K: 64 bytes have the nibbles of four blocks, 32 others their upper two
 * bits. */
#define DTYPE CLV_DTYPE_Q6_K
#define GROUP 16
#define OFFSET 32
#define TOP 63

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    const int vectors = 64 / (4 * VL); /* of low nibbles, then of high ones */
    vi low = vi_load(w + p / (2 * vectors) * 64 + p % vectors * 4 * VL);
    vi high = fields(w + offsetof(clv_block_q6_k, h), 2, p);
    (void)n;
    if (p / vectors % 2)
        low = vi_srl16(low, 4);
    return vi_or(vi_and(low, vi_set1_8(15)), vi_sll16(high, 4));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    __m128i scales = _mm_loadu_si128(
        (const __m128i *)(p->w + offsetof(clv_block_q6_k, scales)));
    scaled_bytes(scales, load_f16(p->w + offsetof(clv_block_q6_k, d)),
                 out->scale);
}

#include "matmul_integers.h"

FORMAT(q6_k)
