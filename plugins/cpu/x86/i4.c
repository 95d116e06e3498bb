/*
 * I4: two's complement nibbles in pairs, scales beside them. Rows of x are
 * prepared with the even elements of a block in front of the odd ones, as the
 * nibbles come. Conversion is the reference's.
 */
#define DTYPE CLV_DTYPE_I4
#define OFFSET 8
#define PREPARE_ROWS ISA(cpu_x86_q8_pair_rows)

#include "block.h"

static ALWAYS_INLINE __m256i block_bytes(const uint8_t *q)
{
    /* Adds 8 to each nibble. */
    return nibbles(_mm256_xor_si256(load_twice(q), _mm256_set1_epi8(-120)));
}

#include "matmul_u8s8.h"

void ISA(cpu_x86_i4)(cpu_kernels *table)
{
    table->formats[DTYPE].matmul = matmul;
    table->formats[DTYPE].prepare = (cpu_prepare){PREPARE_SIZE, PREPARE_ROWS};
}
