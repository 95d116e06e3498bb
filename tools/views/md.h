/* A plan as tables in Markdown. */
#pragma once

#include "plan.h"

#include <stdio.h>

clv_status view_plan_md(const view_plan_data *view, FILE *out);
