/* Errors beside those of cleave.h. */
#pragma once

#include <cleave/cleave.h>

/* CLV_ERR_NO_MEMORY, "no memory <purpose>": "for a plan", "to fit a model". */
clv_status core_no_memory(const char *purpose);

/* How often the calling thread has set an error message: tells whether a slot
 * that failed said why. */
uint64_t core_error_serial(void);
