/*
 * What the files of one instruction set share. Each fills its subject's part of
 * the kernel table.
 */
#pragma once

#include "vec.h"
#include "../kernels.h"

void ISA(cpu_x86_matmul_f)(cpu_kernels *table);
void ISA(cpu_x86_matmul_q8_0)(cpu_kernels *table);
void ISA(cpu_x86_matmul_q4_0)(cpu_kernels *table);
void ISA(cpu_x86_attention)(cpu_kernels *table);
void ISA(cpu_x86_rowops)(cpu_kernels *table);
void ISA(cpu_x86_convert)(cpu_kernels *table);
