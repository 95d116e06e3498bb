/*
 * Lengths of runs for devices whose programs have fixed shapes. A run that is
 * longer than its tokens is padded; lengths that the devices have, and sums of
 * them, let the devices work on all of it.
 */
#pragma once

#include <stdint.h>

#define LLM_MAX_TRIED 4

/* Lengths to try for n tokens where there is room for as many rows, best guess
 * first: n itself, and the least sums of one, two and three of the devices'
 * lengths (ascending, positive) that n tokens fit, each once. Beyond the
 * largest one, sums begin with as many of it as are needed. Returns how many: 1
 * to LLM_MAX_TRIED. n <= room. */
uint32_t llm_lengths_to_try(const int64_t *lengths, uint32_t n_lengths,
                            uint32_t n, uint32_t room,
                            uint32_t tried[LLM_MAX_TRIED]);
