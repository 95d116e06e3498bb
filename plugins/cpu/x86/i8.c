/* I8: signed bytes, scales beside them. Conversion is the reference's. */
#define DTYPE CLV_DTYPE_I8
#define OFFSET 128

#include "block.h"

static ALWAYS_INLINE __m256i block_bytes(const uint8_t *q)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)q),
                            _mm256_set1_epi8(-128));
}

#ifdef __AVX512VNNI__
#include "matmul_u8s8.h"
#else
#include "matmul_s16.h"
#endif

void ISA(cpu_x86_i8)(cpu_kernels *table)
{
    table->formats[DTYPE].matmul = matmul;
    table->formats[DTYPE].prepare = (cpu_prepare){PREPARE_SIZE, PREPARE_ROWS};
}
