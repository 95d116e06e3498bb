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

/* "dir/model-f16.gguf" and "q8_0": "dir/model-q8_0.gguf". */
static char *output_name(const char *in, const char *type)
{
    size_t stem = strlen(in), size = stem + strlen(type) + 8;
    char *out = malloc(size);
    if (!out)
        return NULL;
    if (stem > 5 && !strcasecmp(in + stem - 5, ".gguf"))
        stem -= 5;
    clv_quantize_type old;
    for (uint32_t i = 0; clv_quantize_type_at(i, &old); i++) {
        size_t n = strlen(old.name);
        if (stem > n + 1 && in[stem - n - 1] == '-' &&
            !strncasecmp(in + stem - n, old.name, n)) {
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
    clv_quantize_type to;
    if (clv_quantize_type_find(type, &to))
        return tool_usage("%s", clv_last_error());
    char *out = n == 3 ? strdup(argv[1]) : output_name(in, to.name);
    tool_output output;
    tool_output_begin(&output, &args);
    clv_status status =
        out ? tool_output_check(&output, in, out)
            : clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    if (!status)
        status = clv_quantize(in, out,
                              &(clv_quantize_params){
                                  .type = to.name,
                                  .progress = tool_progress_report,
                                  .progress_ctx = &output.progress,
                              });
    code = tool_output_end(&output, in, out, status);
    free(out);
    return code;
}
