/* Q3_K: as Q2_K; 32 more bytes have the third bits of all blocks. */
#define DTYPE CLV_DTYPE_Q3_K
#define GROUP 16
#define OFFSET 4
#define TOP 7

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    vi high = fields(w + offsetof(clv_block_q3_k, h), 1, p);
    (void)n;
    return vi_or(fields(w + offsetof(clv_block_q3_k, q), 2, p),
                 vi_sll16(high, 2));
}

/* Scales of 6 bits; see clv_q3_k_scale(). */
static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    const uint8_t *w = p->w + offsetof(clv_block_q3_k, scales);
    const uint32_t low = 0x0f0f0f0f, high = 0x30303030;
    uint32_t a = (uint32_t)load_32(w), b = (uint32_t)load_32(w + 4),
             c = (uint32_t)load_32(w + 8);
    __m128i scales = _mm_setr_epi32((int)((a & low) | (c << 4 & high)),
                                    (int)((b & low) | (c << 2 & high)),
                                    (int)((a >> 4 & low) | (c & high)),
                                    (int)((b >> 4 & low) | (c >> 2 & high)));
    scaled_bytes(_mm_sub_epi8(scales, _mm_set1_epi8(32)),
                 load_f16(p->w + offsetof(clv_block_q3_k, d)), out->scale);
}

#include "matmul_integers.h"

FORMAT(q3_k)
