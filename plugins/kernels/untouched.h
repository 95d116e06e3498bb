/* Which tensors of a graph its program does not touch, since it fuses them
 * away.
 */
#pragma once

#include "kernels.h"

#include <cleave/plugin_program.h>

/* clv_program_note_untouched(), of a program that runs the code. */
clv_status gpu_note_untouched(const gpu_code *code, clv_program_base *base);
