/*
 * Lengths of runs for devices whose programs have static shapes. A run that is
 * longer than its tokens is padded. If its length is one of the devices' or a
 * sum of them, the devices can compute all of it.
 */
#pragma once

#include <stdint.h>

#define LLM_MAX_TRIED 4

/* Lengths to try for n tokens, none above most, the best guess first: n itself,
 * and the least sums of one, two and three of the devices' lengths (ascending,
 * positive) that are at least n, each once. If n is above the largest length,
 * the sums begin with as many of that as are needed. Returns their number: 1 to
 * LLM_MAX_TRIED. n <= most. */
uint32_t llm_lengths_to_try(const int64_t *lengths, uint32_t n_lengths,
                            uint32_t n, uint32_t most,
                            uint32_t tried[LLM_MAX_TRIED]);
