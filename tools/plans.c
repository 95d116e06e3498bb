#include "plans.h"

#include "text.h"

#include <stdlib.h>

/* *text is for free(), also after a failure. */
static clv_status read_plan(const char *path, char **text)
{
    uint64_t length;
    clv_status status = tool_read_file(path, text, &length);
    if (status)
        return status;
    status = clv_plan_check(*text, length);
    return status ? clv_error_prefix(status, "%s", path) : CLV_OK;
}

clv_status tool_session_create(clv_model *model,
                               const clv_session_params *params,
                               const tool_strings *plan_paths,
                               clv_session **out)
{
    char *texts[TOOL_LIST_MAX] = {0};
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < plan_paths->n && !status; i++)
        status = read_plan(plan_paths->items[i], &texts[i]);
    if (!status) {
        clv_session_params with = *params;
        with.plans = (const char *const *)texts;
        with.n_plans = plan_paths->n;
        status = clv_session_create(model, &with, out);
    }
    for (uint32_t i = 0; i < plan_paths->n; i++)
        free(texts[i]);
    return status;
}
