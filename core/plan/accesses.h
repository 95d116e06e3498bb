/* Which parts of which states the steps of a plan read and write. */
#pragma once

#include "plan.h"

typedef struct core_access {
    uint32_t step;
    clv_value state;
    core_bounds box;
    bool write;
    clv_value ids; /* an input: rows of the box; CLV_NO_TENSOR: all of them */
    int64_t first_id, end_id; /* which of its elements */
    uint32_t rows_symbol;     /* 1 + the symbol that bounds rows; 0: none */
} core_access;

/* Of all steps, by state; *out is the caller's, freed with free(). */
clv_status core_plan_accesses(const clv_plan *plan, core_access **out,
                              uint32_t *n);
