#include "output.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tool_output_file {
    char *path;
    bool replaces; /* an older file */
};

void tool_output_begin(tool_output *output, const tool_common *common,
                       const char *in)
{
    *output = (tool_output){.quiet = common->quiet, .in = in};
    tool_progress_init(&output->progress, !common->quiet);
}

static clv_status check(const tool_output *output, const char *path,
                        bool *exists)
{
    struct stat from, to;
    *exists = false;
    if (!strcmp(path, "-"))
        return clv_error(CLV_ERR_INVALID,
                         "-: a model is written to a file, not to standard "
                         "output; name one");
    if (stat(path, &to))
        return CLV_OK; /* a new file, or an error that opening it tells */
    if (!stat(output->in, &from) && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino)
        return clv_error(CLV_ERR_INVALID,
                         "%s: is the input too; give the output another name",
                         path);
    if (!S_ISREG(to.st_mode))
        return clv_error(CLV_ERR_INVALID,
                         "%s: is %s, not a file; give the "
                         "output another name",
                         path,
                         S_ISDIR(to.st_mode) ? "a directory" : "a device");
    *exists = true;
    return CLV_OK;
}

clv_status tool_output_add(void *ctx, const char *path)
{
    tool_output *output = ctx;
    tool_output_file file = {0};
    CLV_TRY(check(output, path, &file.replaces));
    tool_output_file *files =
        realloc(output->files, (output->n_files + 1) * sizeof *files);
    if (files)
        output->files = files;
    file.path = files ? strdup(path) : NULL;
    if (!file.path)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    files[output->n_files++] = file;
    return CLV_OK;
}

static void print_size(const tool_output *output, const tool_output_file *file)
{
    struct stat from, to;
    char before[TOOL_QUANTITY_MAX], after[TOOL_QUANTITY_MAX];
    if (stat(file->path, &to))
        return;
    fprintf(stderr, "%s: %s", file->path,
            tool_bytes((uint64_t)to.st_size, after));
    if (!stat(output->in, &from) && S_ISREG(from.st_mode))
        fprintf(stderr, ", was %s", tool_bytes((uint64_t)from.st_size, before));
    fprintf(stderr, "%s\n",
            file->replaces ? "; an older file was replaced" : "");
}

int tool_output_end(tool_output *output, clv_status status)
{
    tool_progress_finish(&output->progress);
    for (uint32_t i = 0; i < output->n_files; i++) {
        if (!status && !output->quiet)
            print_size(output, &output->files[i]);
        free(output->files[i].path);
    }
    free(output->files);
    return status ? tool_fail() : TOOL_OK;
}
