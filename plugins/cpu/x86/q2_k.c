/* Q2_K: 32 bytes have four blocks of two bits. */
#define DTYPE CLV_DTYPE_Q2_K
#define GROUP 16
#define OFFSET 0
#define TOP 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    (void)n;
    return fields(w + offsetof(clv_block_q2_k, q), 2, p);
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    const uint8_t *w = p->w;
    __m128i both = _mm_loadu_si128((const __m128i *)w);
    __m128i mask = _mm_set1_epi8(15);
    scaled_bytes(_mm_and_si128(both, mask),
                 load_f16(w + offsetof(clv_block_q2_k, d)), out->scale);
    scaled_bytes(_mm_and_si128(_mm_srli_epi16(both, 4), mask),
                 load_f16(w + offsetof(clv_block_q2_k, m)), out->minimum);
}

#include "matmul_integers.h"

FORMAT(q2_k)
