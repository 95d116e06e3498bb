/* A sum fused with its RMS_NORM. */
#pragma once

#include "lower/lower.h"

clv_status gpu_lower_add_norm(gpu_lowering *lowering, const gpu_node *add,
                              const gpu_node *norm);
