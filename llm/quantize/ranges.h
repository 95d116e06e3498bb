/* The largest magnitudes that calibration saw of what is multiplied by each
 * weight. */
#pragma once

#include "../base/str.h"

#include <cleave/llm.h>

clv_status llm_ranges_create(clv_ranges **out);
/* Raises the range of a weight to at least this. */
clv_status llm_ranges_add(clv_ranges *ranges, const char *weight,
                          float largest);
/* 0 for a weight that was not seen. */
float llm_ranges_find(const clv_ranges *ranges, llm_str weight);
