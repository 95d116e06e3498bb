/* cleave convert: a Hugging Face directory to a GGUF file. */
#include "commands.h"
#include "output.h"
#include "text.h"

#include <cleave/llm.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct convert_args {
    tool_common common;
    const char *out, *type, *max_size;
    int64_t max_tensors;
} convert_args;

#define AT(member) offsetof(convert_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING('o', "outfile|output", "FILE", AT(out),
                    "the file to write (default: NAME-TYPE.gguf in the "
                    "directory)"),
    TOOL_OPT_STRING(0, "outtype", "TYPE", AT(type),
                    "auto: each matrix as it is (default), or a type of "
                    "'cleave quantize --list' but the schemes of integers: "
                    "f16, q8_0, q4_k_m, ..."),
    TOOL_OPT_STRING(0, "split-max-size", "SIZE", AT(max_size),
                    "split the model into files of at most so many bytes; K, M "
                    "and G behind the number are powers of 1000"),
    TOOL_OPT_INT(0, "split-max-tensors", AT(max_tensors), 0, INT32_MAX,
                 "split the model into files of at most so many tensors, 0: "
                 "any"),
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
        "name is then replaced, which is said. A model that is split becomes "
        "OUT-00001-of-00003.gguf and so on, of which any is given to other "
        "commands. A tensor is never divided, so a file that holds one alone "
        "may be larger.",
    .examples = "  cleave convert path/to/model -o model-f16.gguf\n"
                "  cleave convert path/to/model --outtype q4_k_m\n"
                "  cleave convert path/to/model -o model.gguf --split-max-size "
                "2G\n",
    .options = options,
    .no_devices = true,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};

/* "path/to/model" and "F16": "path/to/model/model-f16.gguf". */
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
    size_t end = (size_t)snprintf(out, size, "%.*s/%.*s-", (int)length, dir,
                                  (int)n, name);
    for (; *type; type++)
        out[end++] = (char)tolower((unsigned char)*type);
    memcpy(out + end, ".gguf", 6);
    return out;
}

/* "2G": a whole number of bytes, at least 1. */
static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit =
        *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    uint64_t size = number;
    if (!isdigit((unsigned char)*text) || errno || (*end && (!unit || end[1])))
        return false;
    for (; unit && unit >= units; unit--)
        if (__builtin_mul_overflow(size, 1000, &size))
            return false;
    *out = size;
    return size > 0;
}

/* An exit code after a message, or -1. */
static int take_options(const convert_args *args, clv_convert_params *params)
{
    clv_quantize_type type;
    params->max_tensors = (uint64_t)args->max_tensors;
    if (args->max_size && !parse_size(args->max_size, &params->max_size))
        return tool_usage("--split-max-size: '%s' is not a whole number of "
                          "bytes, as 500M or 2G",
                          args->max_size);
    if (!strcasecmp(args->type, "auto"))
        return -1;
    params->type = args->type;
    return clv_quantize_type_find(args->type, &type)
               ? tool_usage("--outtype: %s", clv_last_error())
               : -1;
}

static int run(int argc, char **argv)
{
    convert_args args = {.type = "auto"};
    tool_output output;
    clv_convert_params params = {
        .progress = tool_progress_report,
        .progress_ctx = &output.progress,
        .on_file = tool_output_add,
        .on_file_ctx = &output,
    };
    uint32_t n;
    int code = tool_parse(&tool_convert, &args, argc, argv, &n);
    if (code < 0)
        code = take_options(&args, &params);
    if (code >= 0)
        return code;
    char *out = args.out ? strdup(args.out) : output_name(argv[0], args.type);
    tool_output_begin(&output, &args.common, argv[0]);
    const clv_status status =
        out ? clv_convert(argv[0], out, &params)
            : clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    code = tool_output_end(&output, status);
    free(out);
    return code;
}
