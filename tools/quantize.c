/* cleave quantize: a GGUF file with smaller numbers. */
#include "commands.h"
#include "output.h"
#include "text.h"

#include <cleave/llm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int run(int argc, char **argv);

const tool_command tool_quantize = {
    .name = "quantize",
    .title = "cleave quantize",
    .operands = "IN.gguf [OUT.gguf] TYPE",
    .summary = "Rewrites a GGUF file in f16, q8_0 or q4_0.",
    .details =
        "Without OUT.gguf the name is made from IN.gguf: model-f16.gguf "
        "becomes model-q8_0.gguf beside it. The file appears when it is "
        "complete; one of that name is then replaced, which is said. The "
        "input is never overwritten. In a q4_0 file the output matrix, or the "
        "embedding that stands for it, is q8_0.",
    .examples = "  cleave quantize model-f16.gguf q8_0\n"
                "  cleave quantize model-f16.gguf small.gguf q4_0\n",
    .no_devices = true,
    .min_operands = 2,
    .max_operands = 3,
    .run = run,
};

static bool is_target(uint32_t dtype)
{
    return dtype != CLV_DTYPE_F32 && clv_dtype_is_writable(dtype);
}

static int refuse_type(const char *type)
{
    char names[256] = "";
    int at = 0;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++)
        if (is_target(i))
            at += snprintf(names + at, sizeof names - (size_t)at, "%s%s",
                           at ? ", " : "", clv_dtype_name(i));
    return tool_usage("'%s' is not a type to quantise to; choose one of %s",
                      type, names);
}

/* "dir/model-f16.gguf" and "q8_0": "dir/model-q8_0.gguf". */
static char *output_name(const char *in, const char *type)
{
    size_t stem = strlen(in), size = stem + strlen(type) + 8;
    char *out = malloc(size);
    if (!out)
        return NULL;
    if (stem > 5 && !strcasecmp(in + stem - 5, ".gguf"))
        stem -= 5;
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++) {
        const char *old = clv_dtype_name(i);
        size_t n = strlen(old);
        if (stem > n + 1 && in[stem - n - 1] == '-' &&
            !strncasecmp(in + stem - n, old, n)) {
            stem -= n + 1;
            break;
        }
    }
    snprintf(out, size, "%.*s-%s.gguf", (int)stem, in, type);
    return out;
}

static int run(int argc, char **argv)
{
    tool_common args = {0};
    uint32_t n;
    int code = tool_parse(&tool_quantize, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    const char *in = argv[0], *type = argv[n - 1];
    uint32_t dtype = clv_dtype_parse(type);
    if (!is_target(dtype))
        return refuse_type(type);
    char *out =
        n == 3 ? strdup(argv[1]) : output_name(in, clv_dtype_name(dtype));
    tool_output output;
    tool_output_begin(&output, &args);
    clv_status status =
        out ? tool_output_check(&output, in, out)
            : clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    if (!status)
        status = clv_quantize(in, out, dtype, tool_progress_report,
                              &output.progress);
    code = tool_output_end(&output, in, out, status);
    free(out);
    return code;
}
