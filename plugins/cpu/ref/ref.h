/* The scalar reference kernels: plain C, every op, every dtype claimed. */
#pragma once

#include "../kernels.h"

/* Each fills the part of the table that is its subject. */
void cpu_ref_matmul(cpu_kernels *table);
void cpu_ref_attention(cpu_kernels *table);
void cpu_ref_elementwise(cpu_kernels *table);
