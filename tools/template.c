/* cleave template: the text that a conversation becomes. */
#include "chat_template.h"
#include "commands.h"
#include "env.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct template_args {
    tool_common common;
    const char *model, *file, *chat_template, *chat_variables;
    bool generation_prompt, ids;
} template_args;

#define AT(member) offsetof(template_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING('f', "file", "FILE", AT(file),
                    "the messages in JSON, '-' for standard input: a list, or "
                    "an object with \"messages\", \"tools\" and the like"),
    TOOL_OPTION_MODEL(template_args),
    TOOL_OPTION_CHAT_TEMPLATE_AT(AT(chat_template)),
    TOOL_OPTION_CHAT_VARIABLES_AT(AT(chat_variables)),
    TOOL_OPT_FLAG(0, "generation-prompt", AT(generation_prompt),
                  "end where the model's answer begins; --no-generation-prompt "
                  "ends behind the last message"),
    TOOL_OPT_FLAG(0, "ids", AT(ids),
                  "print the text's token ids, where special tokens come from "
                  "the template only"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_template = {
    .name = "template",
    .title = "cleave template",
    .operands = "-f FILE",
    .summary = "Prints the text that a conversation becomes.",
    .details = "The chat template is the model's, or that of --chat-template. "
               "Known names are chatml, command-r, deepseek, deepseek2, "
               "deepseek3, falcon3, gemma, glm4, granite, llama2, llama3, "
               "llama4, minicpm, mistral-v1, mistral-v3, mistral-v3-tekken, "
               "mistral-v7, openchat, phi3, phi4, vicuna and zephyr.\n"
               "Dates that a template prints are those of "
               "SOURCE_DATE_EPOCH, if that is set.",
    .examples = "  cleave template -m model.gguf -f messages.json\n"
                "  echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' |\n"
                "    cleave template --chat-template chatml -f -\n",
    .options = options,
    .no_devices = true,
    .run = run,
};

static clv_status load_tokenizer(const template_args *args, clv_tokenizer **out)
{
    char *path = NULL;
    if (!args->model && args->chat_template && !args->ids)
        return CLV_OK;
    clv_status status = tool_model_path(args->model, &path);
    if (!status)
        status = clv_tokenizer_load(path, out);
    free(path);
    return status;
}

static bool print_ids(const clv_tokenizer *tok, const clv_chat_text *text)
{
    int32_t *ids;
    uint64_t n;
    if (clv_tokenize_ranges(tok, text->text, text->length, CLV_TOKENIZE_SPECIAL,
                            text->ranges, text->n_ranges, &ids, &n)) {
        tool_fail();
        return false;
    }
    for (uint64_t i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    clv_tokens_free(ids);
    return tool_write("\n", 1);
}

static int run(int argc, char **argv)
{
    template_args args = {.generation_prompt = true};
    uint32_t n;
    int code = tool_parse(&tool_template, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!args.file)
        return tool_usage("give the messages with -f FILE");
    char *messages = NULL;
    uint64_t length = 0;
    clv_tokenizer *tok = NULL;
    clv_chat_template *chat = NULL;
    clv_chat_text text = {0};
    clv_chat_params params = {.variables = args.chat_variables,
                              .no_generation_prompt = !args.generation_prompt};
    clv_status status = tool_read_file(args.file, &messages, &length);
    if (!status)
        status = tool_chat_time(&params.now);
    if (!status)
        status = load_tokenizer(&args, &tok);
    if (!status)
        status = tool_chat_template(args.chat_template, tok, &chat);
    if (!status)
        status =
            clv_chat_template_apply(chat, messages, length, &params, &text);
    if (status)
        code = tool_fail();
    else if (args.ids)
        code = print_ids(tok, &text) ? TOOL_OK : TOOL_FAILED;
    else
        code = tool_write(text.text, text.length) ? TOOL_OK : TOOL_FAILED;
    clv_chat_text_free(&text);
    clv_chat_template_destroy(chat);
    clv_tokenizer_destroy(tok);
    free(messages);
    return code;
}
