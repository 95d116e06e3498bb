/* cleave convert: a Hugging Face directory to a GGUF file. */
#include "commands.h"
#include "output.h"
#include "text.h"

#include <cleave/llm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct convert_args {
    tool_common common;
    const char *out, *type;
} convert_args;

#define AT(member) offsetof(convert_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING('o', "outfile|output", "FILE", AT(out),
                    "the file to write (default: NAME-TYPE.gguf in the "
                    "directory)"),
    TOOL_OPT_CHOICE(0, "outtype", "TYPE", AT(type),
                    "auto|f32|f16|bf16|q8_0|q4_0",
                    "f32, f16, bf16, q8_0, q4_0, or auto: each matrix as it "
                    "is"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_convert = {
    .name = "convert",
    .title = "cleave convert",
    .operands = "DIR [-o OUT.gguf]",
    .summary = "Turns a Hugging Face directory into a GGUF file.",
    .details =
        "DIR holds config.json, model.safetensors or its shards, and "
        "tokenizer.json. The file appears when it is complete; one of that "
        "name is then replaced, which is said.",
    .examples = "  cleave convert path/to/model -o model-f16.gguf\n"
                "  cleave convert path/to/model --outtype q8_0\n",
    .options = options,
    .no_devices = true,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};

/* "path/to/model" and "f16": "path/to/model/model-f16.gguf". */
static char *output_name(const char *dir, const char *type)
{
    size_t length = strlen(dir), size = 2 * length + strlen(type) + 32;
    char *out = malloc(size);
    if (!out)
        return NULL;
    while (length > 1 && dir[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && dir[begin - 1] != '/')
        begin--;
    const char *name = dir + begin;
    size_t n = length - begin;
    if (n == 0 || name[0] == '.') {
        name = "model";
        n = strlen(name);
    }
    snprintf(out, size, "%.*s/%.*s-%s.gguf", (int)length, dir, (int)n, name,
             type);
    return out;
}

static int run(int argc, char **argv)
{
    convert_args args = {.type = "auto"};
    uint32_t n;
    int code = tool_parse(&tool_convert, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    const char *dir = argv[0];
    char *out = args.out ? strdup(args.out) : output_name(dir, args.type);
    tool_output output;
    tool_output_begin(&output, &args.common);
    clv_status status =
        out ? tool_output_check(&output, dir, out)
            : clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    /* "auto" is no element type: NONE, which keeps what the files have. */
    if (!status)
        status = clv_convert(dir, out, clv_dtype_parse(args.type),
                             tool_progress_report, &output.progress);
    code = tool_output_end(&output, dir, out, status);
    free(out);
    return code;
}
