/* Q8_0: signed bytes. */
#define DTYPE CLV_DTYPE_Q8_0
#define GROUP 32
#define OFFSET 128
#define TOP 255

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return vi_xor(load_both(first_block(w, p) + 2, last_block(w, p, n) + 2),
                  vi_set1_8(-128));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#define TURN(rows, n, out) turn_bytes(rows, n, out, 2)
#include "matmul_integers.h"

FORMAT(q8_0)
