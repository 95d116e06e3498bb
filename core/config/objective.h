/* core.objective: what plans are to be low in. */
#pragma once

#include "config.h"

/* "0.5", "2048:64" or both as "0.5,2048:64". What is wrong with another text:
 * with a message that names the key and where its value comes from. */
clv_status core_config_objective(const clv_config *config, clv_objective *out);
