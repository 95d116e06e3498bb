/* Kernels tried on a device that is seen for the first time. */
#pragma once

#include "tune/tune.h"

/*
 * Fills disabled, names separated by ',', with the plugin's option "disabled",
 * and, where its option "trial" wants it, with the kernel variants that do not
 * work on the device. The trial runs small products and attentions, in all
 * formats that gpu_caps() takes, through the plugin's own slots, and compares
 * them with known results. Variants that compute wrongly, or do not build, are
 * added to disabled, and the case is tried again without them; each is logged
 * as a warning. The result is cached. tuner->target->disabled is disabled, and
 * the device compiles by it. An error: the device is lost, or memory ran out.
 */
clv_status gpu_try(const gpu_tuner *tuner, char *disabled, size_t size);
