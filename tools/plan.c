/* cleave plan: which part of which op runs where. */
#include "commands.h"
#include "env.h"
#include "memory.h"
#include "text.h"
#include "views/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_args {
    tool_common common;
    const char *model, *phase, *kv_type, *format, *save;
    tool_strings plans;
    int64_t n_tokens, n_ctx;
} plan_args;

#define AT(member) offsetof(plan_args, member)

static const tool_option options[] = {
    TOOL_OPTION_MODEL(plan_args),
    TOOL_OPT_CHOICE(0, "phase", "PHASE", AT(phase), "prefill|decode",
                    "prefill, of --seq tokens at once, or decode, of one"),
    TOOL_OPT_INT(0, "seq", AT(n_tokens), 2, INT32_MAX,
                 "tokens of the prompt run at once, as run's -b"),
    TOOL_OPT_INT('c', "ctx-size", AT(n_ctx), 0, INT32_MAX,
                 "positions of the context, 0: the model's, at most 4096"),
    TOOL_OPTION_KV_TYPE(plan_args),
    TOOL_OPTION_PLAN(plan_args),
    TOOL_OPT_STRING(0, "save", "FILE", AT(save),
                    "write the plan there as json, for --plan"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), VIEW_PLAN_FORMATS,
                    "md, json, or svg: a picture of the predicted run"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_plan = {
    .name = "plan",
    .title = "cleave plan",
    .operands = "",
    .summary = "Shows which part of which op runs where.",
    .details = "A saved plan can be edited: its pieces say which part of a "
               "node runs on which device; the rest is derived from them. It "
               "serves runs of the same model with the same -c, and the same "
               "-b as --seq. Where a device has static shapes it is for just "
               "--seq tokens, or a few more if padding them takes less time.",
    .examples =
        "  cleave plan -m model.gguf --phase decode\n"
        "  cleave plan -m model.gguf --seq 512 -o svg > prefill.svg\n"
        "  cleave plan -m model.gguf --seq 512 --save prefill.json\n"
        "  cleave run -m model.gguf -b 512 --plan prefill.json -p \"Hello\"\n",
    .options = options,
    .run = run,
};

static clv_status save(const clv_plan *plan, const char *path)
{
    clv_file_writer *writer;
    char *text;
    clv_status status = clv_plan_json(plan, &text);
    if (status)
        return status;
    status = clv_file_writer_open(path, &writer);
    if (!status) {
        status = clv_file_writer_write(writer, text, strlen(text));
        if (status)
            clv_file_writer_discard(writer);
        else
            status = clv_file_writer_commit(writer);
    }
    clv_string_free(text);
    return status;
}

/* Before the plan itself, for people. */
static bool show_title(const clv_plan *plan, const plan_args *args,
                       uint32_t n_tokens)
{
    const double ns = clv_plan_summarise(plan).predicted_ns;
    char text[160];
    int length = snprintf(text, sizeof text, "# %s of %u token%s\n\n",
                          n_tokens > 1 ? "Prefill" : "Decoding", n_tokens,
                          n_tokens > 1 ? "s at once" : "");
    if (strcmp(args->format, "md"))
        return true;
    if (ns > 0)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "%.1f tokens/s predicted with a full context.\n\n",
                           n_tokens * 1e9 / ns);
    return tool_write(text, (uint64_t)length);
}

/* Before the plan itself: a table for people, a field of the plan's object in
 * json. */
static bool show_memory(const tool_memory *memory, const char *format)
{
    const bool json = !strcmp(format, "json");
    tool_table table;
    if ((!json && strcmp(format, "md")) ||
        !tool_memory_table(memory, format, &table))
        return !json || tool_write("{", 1);
    if (json && !tool_write("{\"memory_use\":", 14))
        return false;
    return tool_table_end(&table) && tool_write(json ? "," : "\n", 1);
}

static int show(const clv_plan *plan, const tool_memory *memory,
                const plan_args *args, uint32_t n_tokens)
{
    const bool json = !strcmp(args->format, "json");
    char *text;
    if ((args->save && save(plan, args->save)) ||
        view_plan(plan, args->format, &text))
        return tool_fail();
    bool good = show_title(plan, args, n_tokens) &&
                show_memory(memory, args->format) &&
                tool_write(text + json, strlen(text + json));
    free(text);
    return good ? TOOL_OK : TOOL_FAILED;
}

static int plan_model(tool_env *env, const plan_args *args)
{
    clv_model *model = NULL;
    clv_session *session = NULL;
    const clv_plan *plan;
    tool_memory memory;
    char *path = NULL;
    uint64_t load_ns;
    bool decode = !strcmp(args->phase, "decode");
    clv_status status =
        tool_env_load(env, args->model, &model, &path, &load_ns);
    const uint32_t n = (uint32_t)args->n_tokens, now = decode ? 1 : n;
    const clv_session_params params = {.n_ctx = (uint32_t)args->n_ctx,
                                       .n_batch = n,
                                       .kv_dtype =
                                           tool_kv_dtype(args->kv_type)};
    if (!status)
        status = tool_session_create(model, &params, &args->plans, &session);
    if (!status && !decode && n > clv_session_n_ctx(session))
        status = clv_error(CLV_ERR_LIMIT,
                           "--seq %u is more than the context "
                           "of %u; give a larger -c",
                           n, clv_session_n_ctx(session));
    if (!status)
        status = tool_memory_look(env, model, session, decode, decode ? 0 : n,
                                  strcmp(args->format, "svg") != 0, &memory);
    if (!status)
        status = clv_session_prepare(session, now, &plan);
    int code = status ? tool_fail() : show(plan, &memory, args, now);
    clv_session_destroy(session);
    clv_model_destroy(model);
    free(path);
    return code;
}

static int run(int argc, char **argv)
{
    plan_args args = {
        .phase = "prefill", .kv_type = "f16", .format = "md", .n_tokens = 512};
    uint32_t n;
    int code = tool_parse(&tool_plan, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    tool_env env;
    tool_env_init(&env, &args.common);
    return tool_env_close(&env, plan_model(&env, &args));
}
