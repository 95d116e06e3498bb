/* Memory in which a device's submits are translated; grows, never shrinks. */
#pragma once

#include "device.h"

typedef struct core_submit_scratch core_submit_scratch;
void core_submit_scratch_destroy(core_submit_scratch *scratch);
