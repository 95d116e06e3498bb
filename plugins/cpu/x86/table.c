#include "x86.h"

void ISA(cpu_kernels)(cpu_kernels *table)
{
    ISA(cpu_x86_float)(table);
    ISA(cpu_x86_q8_0)(table);
    ISA(cpu_x86_q4_0)(table);
    ISA(cpu_x86_i8)(table);
    ISA(cpu_x86_i4)(table);
    ISA(cpu_x86_attention)(table);
    ISA(cpu_x86_elementwise)(table);
}
