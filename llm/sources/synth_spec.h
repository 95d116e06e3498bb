/* What the names of made-up models ask for. */
#pragma once

#include "../models/arch.h"
#include "../quantize/mix.h"

/* What "NAME[:FORMAT][:zero]" asks for. */
typedef struct llm_synth_spec {
    const llm_arch *arch;
    const llm_published *model;
    const llm_mix *mix;       /* the types as files have them; else NULL */
    llm_target matrix, table; /* table: token_embd, if it is nothing else */
    char format[32];
    bool outliers; /* activations are rounded, and some layers have outliers */
    bool zero;     /* all weights are 0 */
} llm_synth_spec;
clv_status llm_synth_parse(const char *text, llm_synth_spec *out);
