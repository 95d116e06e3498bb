/* cleave run: text that continues a prompt. */
#include "chat.h"
#include "commands.h"
#include "env.h"
#include "foreign.h"
#include "interrupt.h"
#include "memory.h"
#include "sampling.h"
#include "text.h"
#include "views/views.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run_args {
    tool_common common;
    tool_weights weights;
    tool_strings plans;
    tool_sampling sampling;
    tool_chat_options chat;
    const char *model, *prompt, *file, *kv_type, *k_type, *v_type;
    int64_t n_predict, n_ctx, n_batch, n_ubatch, n_keep, n_flight;
    bool escape, ignore_eos, display_prompt, special, shift;
} run_args;

#define AT(member) offsetof(run_args, member)

static const tool_option options[] = {
    TOOL_OPT_GROUP("model and prompt"),
    TOOL_OPTION_MODEL(run_args),
    TOOL_OPT_STRING('p', "prompt", "TEXT", AT(prompt),
                    "the text to go on from"),
    TOOL_OPT_STRING('f', "file", "FILE", AT(file),
                    "take the prompt from a file, '-' for standard input, less "
                    "one newline at its end"),
    TOOL_OPT_FLAG('e', "escape", AT(escape),
                  "read \\n, \\t, \\\\, \\xHH and the like in -p as the "
                  "characters they stand for; --no-escape leaves them"),
    TOOL_OPT_FLAG(0, "special|parse-special", AT(special),
                  "recognise special tokens such as <|im_end|> in the prompt; "
                  "--no-special takes them as text"),
    TOOL_OPT_FLAG(0, "display-prompt", AT(display_prompt),
                  "print the prompt before the generated text"),
    TOOL_OPT_GROUP("length and memory"),
    TOOL_OPT_INT('n', "predict|n-predict", AT(n_predict), -1, INT32_MAX,
                 "tokens to generate, -1: until the end of the text or a full "
                 "context"),
    TOOL_OPT_FLAG(0, "ignore-eos", AT(ignore_eos),
                  "go on past the end of the text"),
    TOOL_OPT_INT('c', "ctx-size", AT(n_ctx), 0, INT32_MAX,
                 "positions of the context, 0: the model's, at most 4096"),
    TOOL_OPT_FLAG(0, "context-shift", AT(shift),
                  "when the context is full, forget half of it and go on; what "
                  "stays is evaluated again"),
    TOOL_OPT_INT(0, "keep", AT(n_keep), -1, INT32_MAX,
                 "tokens of the prompt that --context-shift never forgets, -1: "
                 "all"),
    TOOL_OPT_INT('b', "batch-size", AT(n_batch), 0, INT32_MAX,
                 "tokens of the prompt run at once, 0: 256 to 2048, whichever "
                 "is fastest"),
    TOOL_OPT_INT(0, "ubatch-size|-ub", AT(n_ubatch), 0, INT32_MAX,
                 "the same, where it is less"),
    TOOL_OPT_INT(0, "flight", AT(n_flight), 0, 8,
                 "batches of the prompt under way at once, where several "
                 "devices work for them, 0: 1, 2 or 4, whichever is fastest"),
    TOOL_OPTIONS_WEIGHTS(run_args),
    TOOL_OPTION_KV_TYPE(run_args),
    TOOL_OPT_CHOICE(0, "cache-type-k|-ctk", "TYPE", AT(k_type), "f16|f32|q8_0",
                    "the same of the keys alone, which must be that of -ctv"),
    TOOL_OPT_CHOICE(0, "cache-type-v|-ctv", "TYPE", AT(v_type), "f16|f32|q8_0",
                    "the same of the values alone"),
    TOOL_OPTION_PLAN(run_args),
    TOOL_OPTIONS_SAMPLING(run_args),
    TOOL_OPTIONS_CHAT(run_args),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_run = {
    .name = "run",
    .title = "cleave run",
    .operands = "(-p TEXT | -f FILE | -cnv)",
    .summary = "Generates text that continues a prompt, or talks by turns.",
    .details = "The generated text goes to standard output, timings and "
               "messages to standard error. Ctrl-C ends the text early. In a "
               "conversation it ends the answer, Ctrl-D ends the conversation, "
               "and /help lists commands.",
    .examples =
        "  cleave run -p \"def fibonacci(n):\" -n 64 --temp 0\n"
        "  cleave run -m model.gguf -f prompt.txt -c 8192 -s 1\n"
        "  git diff | cleave run -m model.gguf -f - -n 200 2>/dev/null\n"
        "  cleave run -p \"A colour: \" --grammar 'root ::= \"red\" | "
        "\"blue\"'\n"
        "  cleave run -p \"As JSON: \" -j '{\"type\":\"array\"}' -n 100\n"
        "  cleave run -m model.gguf -f book.txt -c 4096 -ctk q8_0 -ctv q8_0\n"
        "  cleave run -p Once -n -1 -c 512 --context-shift --keep -1\n"
        "  cleave run -m model.gguf -cnv -sys \"Answer in one sentence.\"\n",
    .options = options,
    .foreign = tool_llama_flags,
    .run = run,
};

typedef struct run_state {
    const run_args *args;
    tool_env env;
    char *path; /* of the model */
    char *prompt;
    uint64_t prompt_length, seed, load_ns;
    clv_model *model;
    clv_session *session;
    clv_sampler *sampler;
    int32_t *ids;
    uint64_t n_ids;
    tool_memory memory;
    clv_batches batches; /* of the prompt */
    bool write_failed;
} run_state;

/* ------------------------------------------------------------------------ */

static clv_status read_prompt(run_state *state)
{
    const run_args *args = state->args;
    if (args->file) {
        clv_status status =
            tool_read_file(args->file, &state->prompt, &state->prompt_length);
        if (status)
            return status;
        if (state->prompt_length &&
            state->prompt[state->prompt_length - 1] == '\n')
            state->prompt[--state->prompt_length] = 0;
    } else {
        state->prompt = strdup(args->prompt);
        if (!state->prompt)
            return clv_error(CLV_ERR_NO_MEMORY, "no memory for the prompt");
        state->prompt_length = strlen(state->prompt);
        if (args->escape)
            state->prompt_length =
                tool_unescape(state->prompt, state->prompt_length);
    }
    if (state->prompt_length)
        return CLV_OK;
    return clv_error(CLV_ERR_INVALID,
                     "%s: the prompt is empty, and a text "
                     "needs a beginning; give at least one character",
                     args->file ? args->file : "-p");
}

static clv_status tokenize_prompt(run_state *state)
{
    clv_status status = tool_need_tokenizer(state->model, state->path);
    if (status)
        return status;
    const clv_tokenizer *tok = clv_model_tokenizer(state->model);
    uint32_t flags = clv_tokenizer_describe(tok).add_bos ? CLV_TOKENIZE_BOS : 0;
    if (state->args->special)
        flags |= CLV_TOKENIZE_SPECIAL;
    status = clv_tokenize(tok, state->prompt, state->prompt_length, flags,
                          &state->ids, &state->n_ids);
    if (status)
        return status;
    if (state->n_ids == 0)
        return clv_error(CLV_ERR_INVALID, "the prompt holds no token; give at "
                                          "least one character");
    if (state->n_ids > UINT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "the prompt has %" PRIu64 " tokens, at "
                         "most %u are possible; shorten it",
                         state->n_ids, UINT32_MAX);
    return CLV_OK;
}

static clv_status make_sampler(run_state *state)
{
    return tool_sampling_create(&state->args->sampling, state->model,
                                clv_session_n_ctx(state->session), &state->seed,
                                &state->sampler);
}

/* Keys and values have one type. */
static clv_status kv_dtype(const run_args *args, uint32_t *dtype)
{
    const char *k = args->k_type ? args->k_type : args->kv_type;
    const char *v = args->v_type ? args->v_type : args->kv_type;
    if (strcmp(k, v))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "keys of type %s and values of type %s; both must "
                         "have the same one, give it by --kv-type",
                         k, v);
    *dtype = tool_kv_dtype(k);
    return CLV_OK;
}

static uint32_t batch_size(const run_args *args)
{
    const uint32_t batch = (uint32_t)args->n_batch;
    const uint32_t micro = (uint32_t)args->n_ubatch;
    return !batch || (micro && micro < batch) ? micro : batch;
}

static clv_status make_session(run_state *state)
{
    const run_args *args = state->args;
    clv_session_params params = {
        .n_ctx = (uint32_t)args->n_ctx,
        .n_batch = batch_size(args),
        .n_flight = (uint32_t)args->n_flight,
    };
    clv_status status = kv_dtype(args, &params.kv_dtype);
    if (!status)
        status = tool_session_create(state->model, &params, &args->plans,
                                     &state->session);
    if (status)
        return status;
    tool_interrupt_target(state->session);
    uint32_t n_ctx = clv_session_n_ctx(state->session);
    if (state->n_ids > n_ctx)
        return clv_error(CLV_ERR_LIMIT,
                         "the prompt has %" PRIu64 " tokens, "
                         "the context %u positions; raise -c or shorten the "
                         "prompt",
                         state->n_ids, n_ctx);
    return CLV_OK;
}

static void print_devices(const run_state *state)
{
    const clv_context *ctx = state->env.ctx;
    for (uint32_t i = 0; i < clv_context_device_count(ctx); i++) {
        const clv_device *dev = clv_context_device(ctx, i);
        const clv_device_info *info = clv_device_info_of(dev);
        char text[256];
        snprintf(text, sizeof text, "%s: %s, %u units, %s", clv_device_id(dev),
                 info->name, info->units, info->driver);
        char *clean = tool_clean(text);
        fprintf(stderr, "%-8s %s\n", i ? "" : "devices", clean ? clean : "");
        free(clean);
    }
}

/* What the text will be made with. */
static void print_choice(const run_state *state)
{
    char name[TOOL_MODEL_NAME_MAX], size[TOOL_QUANTITY_MAX];
    char kv[TOOL_QUANTITY_MAX];
    if (state->args->common.quiet)
        return;
    fprintf(stderr, "%-8s %s, %s\n", "model",
            tool_model_name(state->model, name),
            tool_bytes(clv_model_describe(state->model)->size, size));
    print_devices(state);
    fprintf(stderr, "%-8s %u positions, %s of KV cache\n", "context",
            clv_session_n_ctx(state->session),
            tool_bytes(clv_session_kv_size(state->session), kv));
    tool_memory_print(&state->memory);
    if (state->n_ids > state->batches.n_batch)
        fprintf(stderr,
                "%-8s %" PRIu64 " tokens in batches of %u, %u at once\n",
                "prompt", state->n_ids, state->batches.n_batch,
                state->batches.n_flight);
    if (state->args->sampling.temperature > 0)
        fprintf(stderr, "%-8s %" PRIu64 "\n", "seed", state->seed);
    fputc('\n', stderr);
}

/* ------------------------------------------------------------------------ */

static int on_token(void *ctx, int32_t id, const char *text, uint32_t length)
{
    (void)id;
    run_state *state = ctx;
    state->write_failed = !tool_write(text, length);
    return state->write_failed || tool_interrupted();
}

static void print_rate(const char *what, uint64_t n, uint64_t ns,
                       bool is_virtual)
{
    double seconds = (double)ns * 1e-9;
    fprintf(stderr, "%-12s %8.2f s  %6" PRIu64 " tokens  %9.2f tok/s%s\n", what,
            seconds, n, seconds > 0 ? (double)n / seconds : 0.0,
            is_virtual ? "  virtual time" : "");
}

static void print_timings(const run_state *state,
                          const clv_generate_stats *stats)
{
    char memory[TOOL_QUANTITY_MAX];
    if (state->args->common.quiet)
        return;
    const clv_program_counts programs = clv_context_programs(state->env.ctx);
    fprintf(stderr,
            "\n%-12s %8.2f s  %6" PRIu64 " programs compiled, %" PRIu64
            " from the cache\n",
            "load", (double)state->load_ns * 1e-9, programs.compiled,
            programs.loaded);
    if (programs.virtual_ns)
        fprintf(stderr, "%-12s %8.2f s  virtual time\n", "programs",
                (double)programs.virtual_ns * 1e-9);
    print_rate("prompt", stats->n_prompt, stats->prompt_ns, stats->is_virtual);
    print_rate("generation", stats->n_generated, stats->generate_ns,
               stats->is_virtual);
    fprintf(stderr, "%-12s %s\n", "peak memory",
            tool_bytes(tool_peak_memory(), memory));
}

/* The plan of the last run: in a line with -v, all of it for debugging. */
static void print_plan(const run_state *state)
{
    const clv_plan *plan = clv_session_plan(state->session);
    char memory[TOOL_QUANTITY_MAX];
    char *text;
    if (!plan || state->env.log_level < CLV_LOG_INFO)
        return;
    clv_plan_summary summary = clv_plan_summarise(plan);
    fprintf(stderr,
            "\nplan         %u steps, %u programs, %u copies, %s of "
            "intermediate values\n",
            summary.n_steps, summary.n_programs, summary.n_copies,
            tool_bytes(summary.transient_size, memory));
    if (state->env.log_level < CLV_LOG_DEBUG || view_plan(plan, "md", &text))
        return;
    fprintf(stderr, "\n%s", text);
    free(text);
}

/* What ended the text, as an exit code. */
static int judge(const run_state *state, clv_status status,
                 const clv_generate_stats *stats)
{
    uint32_t n_ctx = clv_session_n_ctx(state->session);
    if (state->write_failed)
        return TOOL_FAILED;
    if (status || tool_interrupted())
        return tool_fail();
    if (stats->stop != CLV_STOP_CONTEXT)
        return TOOL_OK;
    if (state->args->n_predict < 0) {
        if (!state->args->common.quiet)
            fprintf(stderr,
                    "the context of %u positions is full; -c makes it "
                    "larger\n",
                    n_ctx);
        return TOOL_OK;
    }
    clv_error(CLV_ERR_LIMIT,
              "the context is full after %u of %" PRId64
              " tokens: %u positions, of which the prompt took %u; raise -c",
              stats->n_generated, state->args->n_predict, n_ctx,
              stats->n_prompt);
    return tool_fail();
}

static int generate(run_state *state)
{
    const run_args *args = state->args;
    clv_generate_stats stats = {0};
    clv_generate_params params = {
        .prompt = state->ids,
        .n_prompt = (uint32_t)state->n_ids,
        .n_predict = (int32_t)args->n_predict,
        .ignore_end = args->ignore_eos,
        .shift = args->shift,
        .n_keep = args->n_keep < 0 ? UINT32_MAX : (uint32_t)args->n_keep,
        .on_token = on_token,
        .on_token_ctx = state,
        .progress = tool_progress_report,
        .progress_ctx = &state->env.progress,
    };
    print_choice(state);
    if (args->display_prompt &&
        !tool_write(state->prompt, state->prompt_length))
        return TOOL_FAILED;
    clv_status status =
        clv_generate(state->session, state->sampler, &params, &stats);
    tool_progress_clear(&state->env.progress);
    if (tool_stdout_is_terminal() && !state->write_failed)
        tool_write("\n", 1);
    print_plan(state);
    print_timings(state, &stats);
    return judge(state, status, &stats);
}

/* Measures, plans and compiles what the first batch and the tokens need, so
 * that neither this nor messages about it fall into the text. */
static clv_status prepare(run_state *state)
{
    const uint32_t n_ids = (uint32_t)state->n_ids;
    clv_batches *batches = &state->batches;
    const clv_plan *plan;
    uint64_t begin = clv_now_ns();
    clv_status status =
        n_ids ? clv_session_batches(state->session, n_ids, batches) : CLV_OK;
    const uint32_t n = n_ids < batches->n_batch ? n_ids : batches->n_batch;
    if (!status && n)
        status = clv_session_prepare(state->session, n, &plan);
    if (!status && state->args->n_predict)
        status = clv_session_prepare(state->session, 1, &plan);
    if (!status)
        status = tool_memory_look(&state->env, state->model, state->session,
                                  state->args->n_predict != 0, n, false,
                                  &state->memory);
    state->load_ns += clv_now_ns() - begin;
    return status;
}

static int run_chat(run_state *state)
{
    const tool_chat chat = {
        .options = &state->args->chat,
        .env = &state->env,
        .model = state->model,
        .session = state->session,
        .sampler = state->sampler,
        .prompt = state->prompt,
        .n_predict = (int32_t)state->args->n_predict,
        .ignore_end = state->args->ignore_eos,
    };
    print_choice(state);
    return tool_chat_run(&chat);
}

static bool has_prompt(const run_args *args)
{
    return args->prompt || args->file;
}

/* The text that is gone on from, unless there is a conversation. */
static clv_status need_prompt(run_state *state, bool talks)
{
    if (talks && state->args->shift)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "--context-shift is not for conversations, whose "
                         "turns belong together; raise -c, or /clear");
    if (talks)
        return tool_need_tokenizer(state->model, state->path);
    if (has_prompt(state->args))
        return tokenize_prompt(state);
    return clv_error(CLV_ERR_INVALID,
                     "%s: holds no chat template; give one with "
                     "--chat-template, or a prompt with -p",
                     state->path);
}

static int run_model(run_state *state)
{
    bool talks = false;
    clv_status status = tool_own_stdout();
    if (!status && has_prompt(state->args))
        status = read_prompt(state);
    if (!status)
        status = tool_env_load(&state->env, state->args->model, &state->model,
                               &state->path, &state->load_ns);
    if (!status) {
        talks = tool_chat_is_wanted(&state->args->chat, state->model);
        status = need_prompt(state, talks);
    }
    if (!status)
        status = make_session(state);
    if (!status)
        status = make_sampler(state);
    if (!status)
        status = prepare(state);
    if (status)
        return tool_fail();
    return talks ? run_chat(state) : generate(state);
}

static int run(int argc, char **argv)
{
    run_args args = {
        .weights = {.mmap = true},
        .kv_type = "f16",
        .n_predict = -1,
        .escape = true,
        .special = true,
    };
    uint32_t n;
    tool_sampling_init(&args.sampling);
    int code = tool_parse(&tool_run, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (args.prompt && args.file)
        return tool_usage("give the prompt with -p TEXT or with -f FILE, not "
                          "both");
    if (!has_prompt(&args) && !tool_chat_may_be(&args.chat))
        return tool_usage("give the prompt with -p TEXT or with -f FILE, or "
                          "talk by turns with -cnv");
    if (args.n_keep && !args.shift)
        return tool_usage("--keep is for --context-shift; give that too");
    code = tool_sampling_check(&args.sampling);
    if (code >= 0)
        return code;
    run_state state = {.args = &args};
    tool_env_init(&state.env, &args.common);
    state.env.weights = &args.weights;
    code = run_model(&state);
    tool_interrupt_target(NULL);
    clv_sampler_destroy(state.sampler);
    clv_session_destroy(state.session);
    clv_tokens_free(state.ids);
    clv_model_destroy(state.model);
    code = tool_env_close(&state.env, code);
    free(state.path);
    free(state.prompt);
    return code;
}
