/*
 * What devices hold of weights when a plan's exec is made: copies that execs
 * use, and what the plan that comes before it will bring there
 * (clv_plan_params.after).
 */
#pragma once

#include "plan.h"

/* core_tensor_copy_at(). */
bool core_held_at(const core_plan_device *of, clv_tensor *weight,
                  uint32_t index, core_runs *range);
/* The sum of their bytes. */
uint64_t core_held_bytes(const core_plan_device *of, clv_tensor *weight);
/* core_tensor_has_used_copy(). */
bool core_held_has(const core_plan_device *of, clv_tensor *weight,
                   uint64_t align, uint32_t holding, const core_runs *range);
