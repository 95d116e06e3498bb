/* Saved plans that a command is given by --plan. */
#pragma once

#include "options.h"

#include <cleave/llm.h>

/* clv_session_create() with the plans in these files. */
clv_status tool_session_create(clv_model *model,
                               const clv_session_params *params,
                               const tool_strings *plan_paths,
                               clv_session **out);

/* Option for structs with a member plans. */
#define TOOL_OPTION_PLAN(type)                                                 \
    TOOL_OPT_STRINGS(0, "plan", "FILE", offsetof(type, plans),                 \
                     "follow the plan that 'cleave plan --save' wrote there, " \
                     "in runs it was made for; may be repeated")
