/* I8: signed bytes, scales beside them. Conversion is the reference's. */
#define DTYPE CLV_DTYPE_I8
#define GROUP 32
#define OFFSET 128
#define TOP 255

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return vi_xor(load_both(first_block(w, p), last_block(w, p, n)),
                  vi_set1_8(-128));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = beside_factors(p);
}

#define TURN(rows, n, out) turn_bytes(rows, n, out, 0)
#include "matmul_integers.h"

FORMAT(i8)
