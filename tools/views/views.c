#include "views.h"

#include "md.h"
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clv_status view_plan(const clv_plan *plan, const char *format, char **out)
{
    view_plan_data view;
    char *text = NULL;
    size_t size;
    *out = NULL;
    if (!strcmp(format, "json"))
        return clv_plan_json(plan, out);
    CLV_TRY(view_plan_read(plan, &view));
    FILE *file = open_memstream(&text, &size);
    clv_status status = CLV_OK;
    if (file && !strcmp(format, "md"))
        status = view_plan_md(&view, file);
    else if (file)
        status = view_plan_svg(&view, file);
    if (!status && (!file || ferror(file)))
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    if (file && fclose(file) && !status)
        status = clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    view_plan_finish(&view);
    if (status)
        free(text);
    else
        *out = text;
    return status;
}
