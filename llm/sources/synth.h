/* Models of a published shape with made-up weights. */
#pragma once

#include "source.h"

/* text: "NAME[:FORMAT][:zero]", after "synth:". */
clv_status llm_source_open_synth(const char *text, clv_progress_fn progress,
                                 void *progress_ctx, llm_source **out);
