#include "plan_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void core_plan_add_ranges(core_text *text, const core_piece *piece)
{
    for (uint32_t a = 0; a < CORE_AXIS_COUNT; a++)
        if (piece->ranges[a].end)
            core_text_add(text, ", %s %lld..%lld", core_axis_name(a),
                          (long long)piece->ranges[a].begin,
                          (long long)piece->ranges[a].end);
}

void core_plan_add_fixed(core_text *text, double value, int decimals)
{
    long long scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    double scaled = value * (double)scale;
    scaled = scaled > 9e17 ? 9e17 : scaled < -9e17 ? -9e17 : scaled;
    long long whole = llround(scaled);
    long long size = whole < 0 ? -whole : whole;
    core_text_add(text, "%s%lld", whole < 0 ? "-" : "", size / scale);
    if (decimals)
        core_text_add(text, ".%0*lld", decimals, size % scale);
}

void core_plan_add_ms(core_text *text, double ns)
{
    core_plan_add_fixed(text, ns / 1e6, 3);
}

clv_status clv_plan_print(const clv_plan *plan, const char *format, char **out)
{
    core_text text = {0};
    clv_status status = CLV_OK;
    *out = NULL;
    if (!strcmp(format, "md"))
        status = core_plan_add_md(&text, plan);
    else if (!strcmp(format, "json"))
        core_plan_add_json(&text, plan);
    else if (!strcmp(format, "svg"))
        status = core_plan_add_svg(&text, plan);
    else
        status = clv_error(CLV_ERR_INVALID,
                           "plan: format '%s' is unknown; md, "
                           "json and svg are known",
                           format);
    if (status) {
        core_text_finish(&text);
        return status;
    }
    return core_text_take(&text, out);
}
