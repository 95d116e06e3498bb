/*
 * What the files of one instruction set share. Each fills its subject's part of
 * the kernel table.
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

void ISA(cpu_x86_float)(cpu_kernels *table);
void ISA(cpu_x86_q8_0)(cpu_kernels *table);
void ISA(cpu_x86_q4_0)(cpu_kernels *table);
void ISA(cpu_x86_i8)(cpu_kernels *table);
void ISA(cpu_x86_i4)(cpu_kernels *table);
void ISA(cpu_x86_attention)(cpu_kernels *table);
void ISA(cpu_x86_elementwise)(cpu_kernels *table);
