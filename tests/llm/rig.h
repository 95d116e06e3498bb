/* A context and models on it, for tests that run graphs. */
#pragma once

#include "check.h"
#include "model.h"
#include "tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A context with the plugins of the build; NULL ends the test. */
clv_context *rig_context(void);
/* A tiny model, and its source, which the model owns. */
clv_model *rig_model(clv_context *ctx, const tiny_params *params,
                     llm_source **source);
clv_session *rig_session(clv_model *model, uint32_t n_ctx, uint32_t n_batch,
                         uint32_t kv_dtype);
/* Path of a file of the shared test data; skips the test if it is not there. */
const char *rig_shared(const char *name);
