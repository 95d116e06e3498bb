#include "x86.h"

void ISA(cpu_kernels)(cpu_kernels *table)
{
    ISA(cpu_x86_q8_0)(table);
    ISA(cpu_x86_q4_0)(table);
    ISA(cpu_x86_q4_1)(table);
    ISA(cpu_x86_q5_0)(table);
    ISA(cpu_x86_q5_1)(table);
    ISA(cpu_x86_q2_k)(table);
    ISA(cpu_x86_q3_k)(table);
    ISA(cpu_x86_q4_k)(table);
    ISA(cpu_x86_q5_k)(table);
    ISA(cpu_x86_q6_k)(table);
    ISA(cpu_x86_iq4_nl)(table);
    ISA(cpu_x86_iq4_xs)(table);
    ISA(cpu_x86_i8)(table);
    ISA(cpu_x86_i4)(table);
#ifndef __AVX512VNNI__
    ISA(cpu_x86_convert)(table);
    ISA(cpu_x86_float)(table);
    ISA(cpu_x86_attention)(table);
    ISA(cpu_x86_elementwise)(table);
#endif
}
