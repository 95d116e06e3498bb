/* Measures the graphs that runs may use. */
#pragma once

#include "runners.h"

/* clv_session_profile() for lengths of 1..n_batch. */
clv_status llm_profile(llm_runners *r, const uint32_t *lengths, uint32_t n,
                       uint32_t n_free, const clv_profile_params *params);
