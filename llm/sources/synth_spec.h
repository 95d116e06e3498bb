/* What the names of made-up models ask for. */
#pragma once

#include "../models/arch.h"

/* How numbers are stored: a dtype, and for integers a clv_quant. */
typedef struct llm_synth_type {
    uint32_t dtype, quant;
} llm_synth_type;

typedef struct llm_synth_format {
    const char *name;
    llm_synth_type matrix, table; /* table: token_embd, if it is nothing
                                     else */
} llm_synth_format;

/* What "NAME[:FORMAT][:zero]" asks for. */
typedef struct llm_synth_spec {
    const llm_arch *arch;
    const llm_published *model;
    const llm_synth_format *format;
    bool zero; /* all weights are 0 */
} llm_synth_spec;
clv_status llm_synth_parse(const char *text, llm_synth_spec *out);
