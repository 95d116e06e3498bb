/* IQ4_NL: nibbles that a table turns into signed bytes. */
#define DTYPE CLV_DTYPE_IQ4_NL
#define GROUP 32
#define OFFSET 128
#define TOP 255
#define STRIPS_FROM 3

#include "block.h"

static ALWAYS_INLINE vi weights(const uint8_t *w, int p, int n)
{
    return iq4_bytes(block_nibbles(w, p, n, 2));
}

static ALWAYS_INLINE void read_factors(const piece *p, factors *out)
{
    *out->scale = block_factors(p, 0);
}

#define TURN(rows, n, out) turn_nibbles(rows, n, out, 2, 18, 0, iq4_bytes)
#include "matmul_integers.h"

FORMAT(iq4_nl)
