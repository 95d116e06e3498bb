#include "ref.h"

void cpu_kernels_ref(cpu_kernels *table)
{
    cpu_ref_matmul(table);
    cpu_ref_attention(table);
    cpu_ref_elementwise(table);
}
