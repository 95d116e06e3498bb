/* cleave profile: how fast devices are, and how well that is known. */
#include "commands.h"
#include "env.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

typedef struct profile_args {
    tool_common common;
    const char *model, *kv_type, *format;
    tool_ints lengths;
    int64_t n_ctx;
    bool full, again;
} profile_args;

#define AT(member) offsetof(profile_args, member)

static const tool_option options[] = {
    TOOL_OPTION_MODEL(profile_args),
    TOOL_OPT_INTS(0, "seq", AT(lengths), 1, INT32_MAX,
                  "tokens run at once: 1 to decode, more to read a prompt"),
    TOOL_OPT_INT('c', "ctx-size", AT(n_ctx), 0, INT32_MAX,
                 "positions of the context, 0: the model's, at most 4096"),
    TOOL_OPTION_KV_TYPE(profile_args),
    TOOL_OPT_FLAG(0, "full", AT(full),
                  "measure all shapes, not a choice of them; takes minutes"),
    TOOL_OPT_FLAG(0, "again", AT(again), "measure also what the cache knows"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), "md|json",
                    "md or json"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_profile = {
    .name = "profile",
    .title = "cleave profile",
    .operands = "",
    .summary = "Measures devices at the work of a model.",
    .details =
        "Times the ops of a model on each device, whole and in the parts that "
        "a plan may cut, and fits models to them that predict all other "
        "shapes. What is measured is kept in the cache, for plans made later; "
        "what it has already is not measured again.\n"
        "The table shows for each kind of op how many shapes were measured, "
        "the kind of model, the r^2 of a linear one, and the error of "
        "predictions for shapes held out in turn.",
    .examples =
        "  cleave profile -m model.gguf\n"
        "  cleave profile -m model.gguf --seq 1,300 --full\n"
        "  cleave profile --conf conf/soc/snapdragon-8gen3.ini --devices "
        "npu_sim \\\n"
        "    --set npu_sim.compute=off -m synth:llama3-8b:w4a16:zero\n",
    .options = options,
    .run = run,
};

static uint32_t longest(const tool_ints *list)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < list->n; i++)
        most = list->items[i] > most ? list->items[i] : most;
    return (uint32_t)most;
}

static clv_status measure(tool_env *env, clv_session *session,
                          const profile_args *args)
{
    uint32_t lengths[TOOL_LIST_MAX];
    for (uint32_t i = 0; i < args->lengths.n; i++)
        lengths[i] = (uint32_t)args->lengths.items[i];
    const clv_profile_params params = {.full = args->full,
                                       .again = args->again,
                                       .progress = tool_progress_report,
                                       .progress_ctx = &env->progress};
    clv_status status =
        clv_session_profile(session, lengths, args->lengths.n, &params);
    tool_progress_clear(&env->progress);
    return status;
}

static int show(tool_env *env, const char *format)
{
    char *text;
    if (clv_profile_print(env->ctx, NULL, 0, format, &text))
        return tool_fail();
    bool good = tool_write(text, strlen(text));
    clv_string_free(text);
    return good ? TOOL_OK : TOOL_FAILED;
}

static int profile_model(tool_env *env, const profile_args *args)
{
    clv_model *model = NULL;
    clv_session *session = NULL;
    char *path = NULL;
    uint64_t load_ns;
    uint32_t most = longest(&args->lengths);
    const clv_session_params params = {.n_ctx = (uint32_t)args->n_ctx,
                                       .n_batch = most,
                                       .kv_dtype =
                                           tool_kv_dtype(args->kv_type)};
    clv_status status =
        tool_env_load(env, args->model, &model, &path, &load_ns);
    if (!status)
        status = clv_session_create(model, &params, &session);
    if (!status && most > clv_session_n_ctx(session))
        status = clv_error(CLV_ERR_LIMIT,
                           "--seq %u is more than the context "
                           "of %u; give a larger -c",
                           most, clv_session_n_ctx(session));
    if (!status)
        status = measure(env, session, args);
    int code = status ? tool_fail() : show(env, args->format);
    clv_session_destroy(session);
    clv_model_destroy(model);
    free(path);
    return code;
}

static int run(int argc, char **argv)
{
    profile_args args = {
        .kv_type = "f16", .format = "md", .lengths = {{1, 512}, 2}};
    uint32_t n;
    int code = tool_parse(&tool_profile, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    tool_env env;
    tool_env_init(&env, &args.common);
    return tool_env_close(&env, profile_model(&env, &args));
}
