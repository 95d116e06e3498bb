/*
 * Times that are not what a model says, as on real chips. Jitter: the work of a
 * submit takes up to that part longer or shorter, each by itself. Drift: a
 * device becomes up to that part slower and faster, over seconds, as with heat.
 * At drift_at it stands still: the chip is as it is at that time, all the time.
 * Both are random by the seed, the device's name, and which submit it is or
 * when.
 */
#pragma once

#include "settings.h"

/* By how much the work of the device's index-th submit takes longer, at that
 * time. */
double npu_noise(const npu_config *config, const npu_settings *device,
                 uint64_t index, uint64_t at_ns);
