#include "x86.h"

void ISA(cpu_kernels)(cpu_kernels *table)
{
    ISA(cpu_x86_matmul_f)(table);
    ISA(cpu_x86_matmul_q8_0)(table);
    ISA(cpu_x86_matmul_q4_0)(table);
    ISA(cpu_x86_attention)(table);
    ISA(cpu_x86_rowops)(table);
    ISA(cpu_x86_convert)(table);
}
