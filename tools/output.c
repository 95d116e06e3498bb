#include "output.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void tool_output_begin(tool_output *output, const tool_common *common)
{
    *output = (tool_output){.quiet = common->quiet};
    tool_progress_init(&output->progress, !common->quiet);
}

clv_status tool_output_check(tool_output *output, const char *in,
                             const char *out)
{
    struct stat from, to;
    if (!strcmp(out, "-"))
        return clv_error(CLV_ERR_INVALID,
                         "-: a model is written to a file, not to standard "
                         "output; name one");
    if (stat(out, &to))
        return CLV_OK; /* a new file, or an error that opening it tells */
    if (!stat(in, &from) && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino)
        return clv_error(CLV_ERR_INVALID,
                         "%s: is the input too; give the output another name",
                         out);
    if (!S_ISREG(to.st_mode))
        return clv_error(CLV_ERR_INVALID,
                         "%s: is %s, not a file; give the "
                         "output another name",
                         out, S_ISDIR(to.st_mode) ? "a directory" : "a device");
    output->replaces = true;
    return CLV_OK;
}

static void print_sizes(const tool_output *output, const char *in,
                        const char *out)
{
    struct stat from, to;
    char before[TOOL_QUANTITY_MAX], after[TOOL_QUANTITY_MAX];
    if (stat(out, &to))
        return;
    fprintf(stderr, "%s: %s", out, tool_bytes((uint64_t)to.st_size, after));
    if (!stat(in, &from) && S_ISREG(from.st_mode))
        fprintf(stderr, ", was %s", tool_bytes((uint64_t)from.st_size, before));
    fprintf(stderr, "%s\n",
            output->replaces ? "; an older file was replaced" : "");
}

int tool_output_end(tool_output *output, const char *in, const char *out,
                    clv_status status)
{
    tool_progress_finish(&output->progress);
    if (status)
        return tool_fail();
    if (!output->quiet)
        print_sizes(output, in, out);
    return TOOL_OK;
}
