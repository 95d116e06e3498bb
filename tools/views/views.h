/* Views of a plan for people. */
#pragma once

#include <cleave/cleave.h>

#define VIEW_PLAN_FORMATS "md|json|svg"

/*
 * "md": tables in Markdown, in which what repeats is written once. "svg": a
 * picture of the predicted run; CLV_ERR_NOT_FOUND where costs are not known.
 * "json": clv_plan_json(). *out is the caller's, for free().
 */
clv_status view_plan(const clv_plan *plan, const char *format, char **out);
