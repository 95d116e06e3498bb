/*
 * What the files of one instruction set share. Each fills its subject's part of
 * the kernel table.
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

void ISA(cpu_x86_convert)(cpu_kernels *table);
void ISA(cpu_x86_float)(cpu_kernels *table);
void ISA(cpu_x86_q8_0)(cpu_kernels *table);
void ISA(cpu_x86_q4_0)(cpu_kernels *table);
void ISA(cpu_x86_q4_1)(cpu_kernels *table);
void ISA(cpu_x86_q5_0)(cpu_kernels *table);
void ISA(cpu_x86_q5_1)(cpu_kernels *table);
void ISA(cpu_x86_q2_k)(cpu_kernels *table);
void ISA(cpu_x86_q3_k)(cpu_kernels *table);
void ISA(cpu_x86_q4_k)(cpu_kernels *table);
void ISA(cpu_x86_q5_k)(cpu_kernels *table);
void ISA(cpu_x86_q6_k)(cpu_kernels *table);
void ISA(cpu_x86_iq4_nl)(cpu_kernels *table);
void ISA(cpu_x86_iq4_xs)(cpu_kernels *table);
void ISA(cpu_x86_i8)(cpu_kernels *table);
void ISA(cpu_x86_i4)(cpu_kernels *table);
void ISA(cpu_x86_attention)(cpu_kernels *table);
void ISA(cpu_x86_elementwise)(cpu_kernels *table);
