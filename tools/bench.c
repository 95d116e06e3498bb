/* cleave bench: tokens per second, of prompts and of generation. */
#include "commands.h"
#include "env.h"
#include "interrupt.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPETITIONS 1000

typedef struct bench_args {
    tool_common common;
    tool_strings plans;
    const char *model, *kv_type, *format;
    tool_ints prompts, generations, depths;
    int64_t n_batch, repetitions;
    bool warm_up;
} bench_args;

#define AT(member) offsetof(bench_args, member)

static const tool_option options[] = {
    TOOL_OPTION_MODEL(bench_args),
    TOOL_OPT_INTS('p', "n-prompt", AT(prompts), 0, 1 << 24,
                  "lengths of prompts to time, 0: none"),
    TOOL_OPT_INTS('n', "n-gen", AT(generations), 0, 1 << 24,
                  "numbers of tokens to generate one by one, 0: none"),
    TOOL_OPT_INTS('d', "n-depth", AT(depths), 0, 1 << 24,
                  "tokens in the context before each test"),
    TOOL_OPT_INT('b', "batch-size", AT(n_batch), 1, 1 << 24,
                 "tokens run at once"),
    TOOL_OPT_INT('r', "repetitions", AT(repetitions), 1, MAX_REPETITIONS,
                 "times each test is run"),
    TOOL_OPT_FLAG(0, "warmup", AT(warm_up),
                  "run each test once before it is timed; --no-warmup does "
                  "not"),
    TOOL_OPTION_KV_TYPE(bench_args),
    TOOL_OPTION_PLAN(bench_args),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), TOOL_FORMATS,
                    "md, csv, json or jsonl"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_bench = {
    .name = "bench",
    .title = "cleave bench",
    .operands = "",
    .summary = "Measures prompt and generation speed.",
    .details = "pp512 is a prompt of 512 tokens, tg128 the generation of 128, "
               "@ d512 with 512 tokens before them; the tokens are random, the "
               "same ones each time. Values are means and standard deviations "
               "over the repetitions.",
    .examples = "  cleave bench -m model.gguf -p 512 -n 128 -r 5\n"
                "  cleave bench -m synth:llama-1b:q8_0 -p 128,512 -n 0 -t 2\n"
                "  cleave bench -m model.gguf -d 0,4096 -o json\n",
    .options = options,
    .run = run,
};

typedef struct bench_state {
    const bench_args *args;
    tool_env env;
    char *path;
    clv_model *model;
    clv_session *session;
    int32_t *ids; /* [n_ids], random */
    uint32_t n_ids;
    tool_table table;
} bench_state;

/* A test: n tokens, all at once (prompt) or one by one, after depth others. */
typedef struct bench_test {
    uint32_t n, depth;
    bool prompt;
} bench_test;

/* ------------------------------------------------------------------------ */

/* SplitMix64 from a fixed seed, so that every run sees the same tokens. */
static clv_status make_ids(bench_state *state)
{
    uint32_t n_vocab = clv_model_describe(state->model)->n_vocab;
    uint64_t x = 1;
    state->ids = malloc(state->n_ids * sizeof *state->ids);
    if (!state->ids)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %u tokens",
                         state->n_ids);
    for (uint32_t i = 0; i < state->n_ids; i++) {
        uint64_t z = x += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        state->ids[i] = (int32_t)((z ^ z >> 31) % n_vocab);
    }
    return CLV_OK;
}

/* The longest of a list. */
static uint32_t longest(const tool_ints *list)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < list->n; i++)
        most = list->items[i] > most ? list->items[i] : most;
    return (uint32_t)most;
}

static clv_status prepare(bench_state *state)
{
    const bench_args *args = state->args;
    uint64_t load_ns;
    clv_status status = tool_env_load(&state->env, args->model, &state->model,
                                      &state->path, &load_ns);
    if (status)
        return status;
    uint32_t p = longest(&args->prompts), g = longest(&args->generations);
    state->n_ids = longest(&args->depths) + (p > g ? p : g);
    status = make_ids(state);
    if (status)
        return status;
    clv_session_params params = {
        .n_ctx = state->n_ids,
        .n_batch = (uint32_t)args->n_batch,
        .kv_dtype = tool_kv_dtype(args->kv_type),
    };
    status = tool_session_create(state->model, &params, &args->plans,
                            &state->session);
    if (!status)
        tool_interrupt_target(state->session);
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status run_once(bench_state *state, const bench_test *test,
                           uint64_t *ns)
{
    const float *logits;
    clv_session *session = state->session;
    const int32_t *ids = state->ids + test->depth;
    clv_status status = clv_session_truncate(session, test->depth);
    uint64_t begin = clv_now_ns();
    if (!status && test->prompt)
        status =
            clv_session_eval(session, ids, test->n, CLV_LOGITS_LAST, &logits);
    for (uint32_t i = 0; !status && !test->prompt && i < test->n; i++)
        status =
            clv_session_eval(session, ids + i, 1, CLV_LOGITS_LAST, &logits);
    *ns = clv_now_ns() - begin;
    return status;
}

/* The context that the test starts from stays in place between its runs. */
static clv_status fill_depth(bench_state *state, const bench_test *test)
{
    const float *logits;
    clv_status status = clv_session_truncate(state->session, 0);
    if (!status && test->depth)
        status = clv_session_eval(state->session, state->ids, test->depth,
                                  CLV_LOGITS_NONE, &logits);
    return status;
}

static clv_status time_test(bench_state *state, const bench_test *test,
                            const char *name, double *ns)
{
    int64_t n = state->args->repetitions;
    uint64_t once;
    clv_status status = fill_depth(state, test);
    if (!status && state->args->warm_up)
        status = run_once(state, test, &once);
    for (int64_t i = 0; !status && i < n; i++) {
        if (tool_progress_report(&state->env.progress, name,
                                 (double)i / (double)n))
            return clv_error(CLV_ERR_CANCELLED, "interrupted");
        status = run_once(state, test, &once);
        ns[i] = once ? (double)once : 1;
    }
    return status;
}

/* ------------------------------------------------------------------------ */

static double mean(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double deviation(const double *x, int64_t n)
{
    double m = mean(x, n), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - m) * (x[i] - m);
    return n > 1 ? sqrt(sum / (double)(n - 1)) : 0;
}

/* Threads of the CPU, as its devices count them. */
static uint32_t n_threads(const tool_env *env)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < clv_context_device_count(env->ctx); i++) {
        const clv_device_info *info =
            clv_device_info_of(clv_context_device(env->ctx, i));
        if (info->kind == CLV_DEVICE_CPU)
            n += info->units;
    }
    return n;
}

static void add_row(bench_state *state, const bench_test *test,
                    const char *name, const double *ns)
{
    const clv_model_info *info = clv_model_describe(state->model);
    const clv_plan *plan = clv_session_plan(state->session);
    clv_plan_summary summary =
        plan ? clv_plan_summarise(plan) : (clv_plan_summary){0};
    int64_t n = state->args->repetitions;
    double rates[MAX_REPETITIONS];
    char model[TOOL_MODEL_NAME_MAX], devices[128], threads[16], steps[64];
    char size[TOOL_QUANTITY_MAX], params[TOOL_QUANTITY_MAX], rate[64];
    for (int64_t i = 0; i < n; i++)
        rates[i] = test->n * 1e9 / ns[i];
    tool_model_name(state->model, model);
    tool_device_list(&state->env, devices, sizeof devices);
    snprintf(threads, sizeof threads, "%u", n_threads(&state->env));
    snprintf(steps, sizeof steps, "%u program%s, %u cop%s", summary.n_programs,
             summary.n_programs == 1 ? "" : "s", summary.n_copies,
             summary.n_copies == 1 ? "y" : "ies");
    snprintf(rate, sizeof rate, "%.2f ± %.2f", mean(rates, n),
             deviation(rates, n));
    const char *cells[] = {model,
                           tool_bytes(info->size, size),
                           tool_count(info->n_params, params),
                           devices,
                           threads,
                           steps,
                           name,
                           rate};

    tool_record record = tool_record_begin();
    tool_record_string(&record, "build", clv_version());
    tool_record_string(&record, "model_filename", state->path);
    tool_record_string(&record, "model_type", model);
    tool_record_number(&record, "model_size", (double)info->size);
    tool_record_number(&record, "model_n_params", (double)info->n_params);
    tool_record_string(&record, "devices", devices);
    tool_record_number(&record, "n_threads", n_threads(&state->env));
    tool_record_number(&record, "n_batch", (double)state->args->n_batch);
    tool_record_string(&record, "type_kv", state->args->kv_type);
    tool_record_number(&record, "plan_steps", summary.n_steps);
    tool_record_number(&record, "plan_programs", summary.n_programs);
    tool_record_number(&record, "plan_copies", summary.n_copies);
    tool_record_number(&record, "n_prompt", test->prompt ? test->n : 0);
    tool_record_number(&record, "n_gen", test->prompt ? 0 : test->n);
    tool_record_number(&record, "n_depth", test->depth);
    tool_record_number(&record, "avg_ns", mean(ns, n));
    tool_record_number(&record, "stddev_ns", deviation(ns, n));
    tool_record_number(&record, "avg_ts", mean(rates, n));
    tool_record_number(&record, "stddev_ts", deviation(rates, n));
    tool_record_numbers(&record, "samples_ns", ns, (uint32_t)n);
    tool_record_numbers(&record, "samples_ts", rates, (uint32_t)n);
    tool_table_add(&state->table, record, cells);
}

static clv_status run_test(bench_state *state, const bench_test *test)
{
    double ns[MAX_REPETITIONS];
    char name[64], depth[32] = "";
    if (test->n == 0)
        return CLV_OK;
    if (test->depth)
        snprintf(depth, sizeof depth, " @ d%u", test->depth);
    snprintf(name, sizeof name, "%s%u%s", test->prompt ? "pp" : "tg", test->n,
             depth);
    clv_status status = time_test(state, test, name, ns);
    if (!status)
        add_row(state, test, name, ns);
    return status;
}

static clv_status run_tests(bench_state *state)
{
    const bench_args *args = state->args;
    const tool_ints *lists[] = {&args->prompts, &args->generations};
    clv_status status = CLV_OK;
    for (uint32_t d = 0; d < args->depths.n; d++)
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t i = 0; !status && i < lists[k]->n; i++)
                status = run_test(state,
                                  &(bench_test){
                                      .n = (uint32_t)lists[k]->items[i],
                                      .depth = (uint32_t)args->depths.items[d],
                                      .prompt = k == 0,
                                  });
    return status;
}

/* What was measured is printed, even if a later test fails. */
static int measure(bench_state *state)
{
    static const tool_column columns[] = {{"model", false},  {"size", true},
                                          {"params", true},  {"devices", false},
                                          {"threads", true}, {"plan", false},
                                          {"test", true},    {"t/s", true}};
    if (prepare(state))
        return tool_fail();
    tool_table_begin(&state->table, state->args->format, columns, 8);
    clv_status status = run_tests(state);
    tool_progress_clear(&state->env.progress);
    bool good = tool_table_end(&state->table);
    if (status)
        return tool_fail();
    return good ? TOOL_OK : TOOL_FAILED;
}

static int run(int argc, char **argv)
{
    bench_args args = {.kv_type = "f16",
                       .format = "md",
                       .prompts = {{512}, 1},
                       .generations = {{128}, 1},
                       .depths = {{0}, 1},
                       .n_batch = 512,
                       .repetitions = 5,
                       .warm_up = true};
    uint32_t n;
    int code = tool_parse(&tool_bench, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!longest(&args.prompts) && !longest(&args.generations))
        return tool_usage("-p and -n are both 0, so there is nothing to "
                          "measure; make one of them larger");
    bench_state state = {.args = &args};
    tool_env_init(&state.env, &args.common);
    code = measure(&state);
    tool_interrupt_target(NULL);
    clv_session_destroy(state.session);
    clv_model_destroy(state.model);
    code = tool_env_close(&state.env, code);
    free(state.ids);
    free(state.path);
    return code;
}
