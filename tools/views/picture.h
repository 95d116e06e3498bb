/* A plan's forecast drawn as SVG. */
#pragma once

#include "plan.h"

#include <stdio.h>

/* CLV_ERR_NOT_FOUND: the plan has no forecast. */
clv_status view_plan_svg(const view_plan_data *view, FILE *out);
