/*
 * Cross-validation: samples are dealt to folds in the same way in every run,
 * and not in step with the grid on which they may lie.
 */
#pragma once

#include <stdint.h>

#define PLANNER_FOLDS 5

/* Of n samples: each in turn where there are few. */
static inline uint32_t planner_folds(uint32_t n)
{
    return n < PLANNER_FOLDS ? n : PLANNER_FOLDS;
}

/* Every PLANNER_FOLDS neighbours are in as many folds, in an order of their
 * own.
 */
static inline uint32_t planner_fold_of(uint32_t index, uint32_t n_folds)
{
    uint32_t turn = index / PLANNER_FOLDS * 2654435761u >> 16;
    return (index + turn) % n_folds;
}
