/* cleave bench: tokens per second, of prompts and of generation. */
#include "bench.h"
#include "commands.h"
#include "env.h"
#include "interrupt.h"
#include "memory.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_args {
    tool_common common;
    tool_weights weights;
    tool_strings models, plans;
    const char *kv_type, *format;
    tool_ints prompts, generations, depths, sequences;
    int64_t n_batch, n_flight, repetitions;
    bool warm_up, kernels;
} bench_args;

#define AT(member) offsetof(bench_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRINGS('m', "model", "PATH", AT(models),
                     TOOL_MODEL_HELP "; may be repeated"),
    TOOL_OPT_INTS('p', "n-prompt", AT(prompts), 0, 1 << 24,
                  "lengths of prompts to time, 0: none"),
    TOOL_OPT_INTS('n', "n-gen", AT(generations), 0, 1 << 24,
                  "numbers of tokens to generate one by one, 0: none"),
    TOOL_OPT_INTS('d', "n-depth", AT(depths), 0, 1 << 24,
                  "tokens in the context before each test"),
    TOOL_OPT_INTS(0, "sequences", AT(sequences), 1, BENCH_MAX_SEQUENCES,
                  "texts that tokens are generated of at once"),
    TOOL_OPT_INT('b', "batch-size", AT(n_batch), 0, 1 << 24,
                 "tokens of a prompt run at once, 0: 256 to 2048, whichever is "
                 "fastest"),
    TOOL_OPT_INT(0, "flight", AT(n_flight), 0, 8,
                 "batches of a prompt under way at once, where several devices "
                 "work for them, 0: 1, 2 or 4, whichever is fastest"),
    TOOL_OPT_INT('r', "repetitions", AT(repetitions), 1, BENCH_MAX_REPETITIONS,
                 "times each test is run"),
    TOOL_OPT_FLAG(0, "warmup", AT(warm_up),
                  "run each test once before it is timed; --no-warmup does "
                  "not"),
    TOOL_OPT_FLAG(0, "kernels", AT(kernels),
                  "show what the devices' time went to, kernel by kernel, "
                  "instead of speeds"),
    TOOL_OPTIONS_WEIGHTS(bench_args),
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
    .details =
        "pp512 is a prompt of 512 tokens, tg128 the generation of 128, "
        "@ d512 with 512 tokens before them, x 8 of 8 texts at once, whose "
        "tokens are counted together; the tokens are random, the same ones "
        "each time. Values are means and standard deviations "
        "over the repetitions. Where all devices that work are "
        "simulated, times are those of the simulation (clock virtual). "
        "Predicted rates come from profiles; energy is that of all "
        "devices. With --kernels each test is run once more under the "
        "devices' own clocks; GB/s and GFLOP/s are those of the ops' "
        "work, percentages are of the highest in the device's profile. With "
        "--trace, busy is for how long each device worked while the "
        "repetitions ran; the rest are its bubbles.",
    .examples = "  cleave bench -m model.gguf -p 512 -n 128 -r 5\n"
                "  cleave bench -m synth:llama-1b:q8_0 -p 128,512 -n 0 -t 2\n"
                "  cleave bench -m model.gguf -d 0,4096 -o json\n"
                "  cleave bench -m model.gguf -p 0 -n 64 --sequences 1,8,32\n"
                "  cleave bench -m model.gguf -p 512 -n 16 --kernels\n"
                "  cleave bench -m synth:llama3-8b:w4a16:zero -p 256 "
                "--devices npu_sim \\\n"
                "      --conf conf/soc/snapdragon-8gen3.ini "
                "--set npu_sim.compute=off\n",
    .options = options,
    .run = run,
};

typedef struct bench_state {
    const bench_args *args;
    tool_env env;
    char *path;
    clv_model *model;
    clv_session *session;
    clv_watch *watch;
    int32_t *ids; /* [n_ids], random */
    uint32_t n_ids;
    tool_table table;
    bool has_table;
} bench_state;

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

/* With -v. */
static clv_status tell_memory(bench_state *state, uint32_t n_prompt,
                              bool generates)
{
    clv_batches batches = {0};
    tool_memory memory;
    if (n_prompt)
        CLV_TRY(clv_session_batches(state->session, n_prompt, &batches));
    const uint32_t n = n_prompt < batches.n_batch ? n_prompt : batches.n_batch;
    CLV_TRY(tool_memory_look(&state->env, state->model, state->session,
                             generates, n, false, &memory));
    tool_progress_clear(&state->env.progress);
    tool_memory_print(&memory);
    return CLV_OK;
}

static clv_status prepare(bench_state *state, const char *path)
{
    const bench_args *args = state->args;
    uint64_t load_ns;
    clv_status status =
        tool_env_load(&state->env, path, &state->model, &state->path, &load_ns);
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
        .n_flight = (uint32_t)args->n_flight,
        .kv_dtype = tool_kv_dtype(args->kv_type),
        .n_sequences = longest(&args->sequences),
    };
    status = tool_session_create(state->model, &params, &args->plans,
                                 &state->session);
    if (!status)
        status = clv_watch_create(state->env.ctx, &state->watch);
    if (!status)
        tool_interrupt_target(state->session);
    if (!status && state->env.log_level >= CLV_LOG_INFO)
        status = tell_memory(state, p, g > 0);
    return status;
}

/* ------------------------------------------------------------------------ */

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

static double tokens_of(const bench_test *test)
{
    return (double)test->n * test->sequences;
}

/* Unknown figures are null. */
static void record_figure(tool_record *record, const char *key, double value)
{
    tool_record_number(record, key, value > 0 ? value : NAN);
}

static void record_figures(tool_record *record, const bench_state *state,
                           const bench_test *test, const bench_result *result)
{
    uint32_t n = (uint32_t)state->args->repetitions;
    double rates[BENCH_MAX_REPETITIONS];
    double mean_ns = bench_mean(result->ns, n);
    for (uint32_t i = 0; i < n; i++)
        rates[i] = tokens_of(test) * 1e9 / result->ns[i];
    tool_record_number(record, "n_prompt", test->prompt ? test->n : 0);
    tool_record_number(record, "n_gen", test->prompt ? 0 : test->n);
    tool_record_number(record, "n_depth", test->depth);
    tool_record_number(record, "n_sequences", test->sequences);
    tool_record_string(record, "clock",
                       result->is_virtual ? "virtual" : "real");
    tool_record_number(record, "avg_ns", mean_ns);
    tool_record_number(record, "stddev_ns", bench_deviation(result->ns, n));
    tool_record_number(record, "avg_ts", bench_mean(rates, n));
    tool_record_number(record, "stddev_ts", bench_deviation(rates, n));
    record_figure(record, "predicted_ts",
                  tokens_of(test) * 1e9 / result->predicted_ns *
                      (result->predicted_ns > 0));
    record_figure(record, "mj_per_token",
                  result->energy_nj * 1e-6 / tokens_of(test));
    record_figure(record, "watts", result->energy_nj / mean_ns);
    tool_record_numbers(record, "samples_ns", result->ns, n);
    tool_record_numbers(record, "samples_ts", rates, n);
}

static tool_record make_record(const bench_state *state,
                               const bench_result *result, const char *model,
                               const char *devices)
{
    const clv_model_info *info = clv_model_describe(state->model);
    const clv_plan *plan = clv_session_plan(state->session);
    clv_plan_summary summary =
        plan ? clv_plan_summarise(plan) : (clv_plan_summary){0};
    tool_record record = tool_record_begin();
    tool_record_string(&record, "build", clv_version());
    tool_record_string(&record, "model_filename", state->path);
    tool_record_string(&record, "model_type", model);
    tool_record_number(&record, "model_size", (double)info->size);
    tool_record_number(&record, "model_n_params", (double)info->n_params);
    tool_record_string(&record, "devices", devices);
    tool_record_number(&record, "n_threads", n_threads(&state->env));
    tool_record_number(&record, "n_batch", result->batches.n_batch);
    tool_record_number(&record, "n_flight", result->batches.n_flight);
    tool_record_string(&record, "type_kv", state->args->kv_type);
    tool_record_number(&record, "plan_steps", summary.n_steps);
    tool_record_number(&record, "plan_programs", summary.n_programs);
    tool_record_number(&record, "plan_copies", summary.n_copies);
    const clv_program_counts programs = clv_context_programs(state->env.ctx);
    tool_record_number(&record, "programs_compiled", (double)programs.compiled);
    tool_record_number(&record, "programs_loaded", (double)programs.loaded);
    tool_record_number(&record, "programs_ns", (double)programs.real_ns);
    tool_record_number(&record, "programs_virtual_ns",
                       (double)programs.virtual_ns);
    return record;
}

#define CELL_SIZE 64

/* Rates and what goes with them, as people read them; nothing where unknown. */
static void figure_cells(const bench_state *state, const bench_test *test,
                         const bench_result *result, char cells[4][CELL_SIZE])
{
    uint32_t n = (uint32_t)state->args->repetitions;
    double rates[BENCH_MAX_REPETITIONS];
    for (uint32_t i = 0; i < n; i++)
        rates[i] = tokens_of(test) * 1e9 / result->ns[i];
    snprintf(cells[0], CELL_SIZE, "%.2f ± %.2f", bench_mean(rates, n),
             bench_deviation(rates, n));
    cells[1][0] = cells[2][0] = cells[3][0] = 0;
    if (result->predicted_ns > 0)
        snprintf(cells[1], CELL_SIZE, "%.2f",
                 tokens_of(test) * 1e9 / result->predicted_ns);
    if (!(result->energy_nj > 0))
        return;
    snprintf(cells[2], CELL_SIZE, "%.2f",
             result->energy_nj * 1e-6 / tokens_of(test));
    snprintf(cells[3], CELL_SIZE, "%.2f",
             result->energy_nj / bench_mean(result->ns, n));
}

/* Tokens at once where nothing is chosen. */
#define PLAIN_BATCH 512

/* What was chosen for a prompt, if it is not what is plain. */
static void add_batches(const bench_state *state, const bench_test *test,
                        const clv_batches *batches, char *text, size_t size)
{
    const bool longer = clv_session_n_ctx(state->session) >= PLAIN_BATCH;
    const bool chosen =
        (!state->args->n_flight && batches->n_flight > 1) ||
        (!state->args->n_batch && longer && batches->n_batch != PLAIN_BATCH);
    if (test->prompt && chosen)
        snprintf(text, size, ", %u x %u tokens", batches->n_flight,
                 batches->n_batch);
}

static void add_row(bench_state *state, const bench_test *test,
                    const char *name, const bench_result *result,
                    const bench_use *use)
{
    const clv_model_info *info = clv_model_describe(state->model);
    const clv_plan *plan = clv_session_plan(state->session);
    clv_plan_summary summary =
        plan ? clv_plan_summarise(plan) : (clv_plan_summary){0};
    char model[TOOL_MODEL_NAME_MAX], devices[128], threads[16], steps[64];
    char size[TOOL_QUANTITY_MAX], params[TOOL_QUANTITY_MAX];
    char figures[4][CELL_SIZE], bubbles[512];
    tool_model_name(state->model, model);
    tool_device_list(&state->env, devices, sizeof devices);
    snprintf(threads, sizeof threads, "%u", n_threads(&state->env));
    int length =
        snprintf(steps, sizeof steps, "%u program%s, %u cop%s",
                 summary.n_programs, summary.n_programs == 1 ? "" : "s",
                 summary.n_copies, summary.n_copies == 1 ? "y" : "ies");
    add_batches(state, test, &result->batches, steps + length,
                sizeof steps - (size_t)length);
    figure_cells(state, test, result, figures);
    bench_use_text(use, bubbles, sizeof bubbles);
    const char *cells[] = {model,
                           tool_bytes(info->size, size),
                           tool_count(info->n_params, params),
                           devices,
                           threads,
                           steps,
                           result->is_virtual ? "virtual" : "",
                           name,
                           figures[0],
                           figures[1],
                           figures[2],
                           figures[3],
                           bubbles};
    tool_record record = make_record(state, result, model, devices);
    record_figures(&record, state, test, result);
    bench_use_record(use, &record);
    tool_table_add(&state->table, record, cells);
}

/* A prediction that is off by more than a tenth; of runs that were warm, since
 * the first one compiles. */
static void note_difference(const bench_state *state, const char *name,
                            const bench_result *result)
{
    const double ns =
        bench_mean(result->ns, (uint32_t)state->args->repetitions);
    if (!state->args->warm_up || !(result->predicted_ns > 0) ||
        fabs(ns / result->predicted_ns - 1) <= 0.1)
        return;
    clv_log(state->env.ctx, CLV_LOG_WARN,
            "%s took %.0f%% %s than predicted; with -v the log names devices "
            "that were measured wrongly",
            name, 100 * fabs(ns / result->predicted_ns - 1),
            ns > result->predicted_ns ? "longer" : "less");
}

static clv_status run_test(bench_state *state, const bench_test *test)
{
    const bench_rig rig = {
        .ctx = state->env.ctx,
        .session = state->session,
        .watch = state->watch,
        .ids = state->ids,
        .repetitions = (uint32_t)state->args->repetitions,
        .warm_up = state->args->warm_up,
        .progress = &state->env.progress,
    };
    bench_result result;
    char name[64], depth[32] = "", sequences[32] = "";
    if (test->n == 0)
        return CLV_OK;
    if (test->sequences > 1)
        snprintf(sequences, sizeof sequences, " x %u", test->sequences);
    if (test->depth)
        snprintf(depth, sizeof depth, " @ d%u", test->depth);
    snprintf(name, sizeof name, "%s%u%s%s", test->prompt ? "pp" : "tg", test->n,
             sequences, depth);
    if (state->args->kernels) {
        clv_status status = bench_record(state->env.ctx, &rig, test);
        return status ? status
                      : bench_add_kernels(state->env.ctx, name, &state->table);
    }
    bench_use use;
    clv_status status = bench_measure(&rig, test, name, &result);
    if (!status)
        status = bench_use_read(state->env.ctx, &use);
    if (status)
        return status;
    add_row(state, test, name, &result, &use);
    bench_use_finish(&use);
    note_difference(state, name, &result);
    return CLV_OK;
}

/* Prompts are of one text each. */
static clv_status run_list(bench_state *state, const tool_ints *list,
                           uint32_t depth, uint32_t sequences, bool prompt)
{
    clv_status status = CLV_OK;
    for (uint32_t i = 0; !status && i < list->n; i++)
        status = run_test(state, &(bench_test){.n = (uint32_t)list->items[i],
                                               .depth = depth,
                                               .sequences = sequences,
                                               .prompt = prompt});
    return status;
}

static clv_status run_tests(bench_state *state)
{
    const bench_args *args = state->args;
    clv_status status = CLV_OK;
    for (uint32_t d = 0; !status && d < args->depths.n; d++) {
        const uint32_t depth = (uint32_t)args->depths.items[d];
        status = run_list(state, &args->prompts, depth, 1, true);
        for (uint32_t i = 0; !status && i < args->sequences.n; i++)
            status = run_list(state, &args->generations, depth,
                              (uint32_t)args->sequences.items[i], false);
    }
    return status;
}

/* No table is begun where there is nothing to measure. */
static void begin_table(bench_state *state)
{
    static const tool_column columns[] = {
        {"model", false},        {"size", true},     {"params", true},
        {"devices", false},      {"threads", true},  {"plan", false},
        {"clock", false},        {"test", true},     {"t/s", true},
        {"predicted t/s", true}, {"mJ/token", true}, {"W", true},
        {"busy", false}};
    if (state->has_table)
        return;
    if (state->args->kernels)
        tool_table_begin(&state->table, state->args->format,
                         bench_kernel_columns, BENCH_KERNEL_COLUMNS);
    else
        tool_table_begin(&state->table, state->args->format, columns,
                         sizeof columns / sizeof *columns);
    state->has_table = true;
}

/* path: NULL: the bundled one. Each has a context of its own. */
static int measure_model(bench_state *state, const char *path)
{
    tool_env_init(&state->env, &state->args->common);
    state->env.weights = &state->args->weights;
    clv_status status = prepare(state, path);
    if (!status) {
        begin_table(state);
        status = run_tests(state);
    }
    tool_progress_clear(&state->env.progress);
    int code = status ? tool_fail() : TOOL_OK;
    tool_interrupt_target(NULL);
    clv_watch_destroy(state->watch);
    clv_session_destroy(state->session);
    clv_model_destroy(state->model);
    code = tool_env_close(&state->env, code);
    free(state->ids);
    free(state->path);
    *state = (bench_state){.args = state->args,
                           .table = state->table,
                           .has_table = state->has_table};
    return code;
}

/* What was measured is printed, even if a later test fails. */
static int measure(const bench_args *args)
{
    bench_state state = {.args = args};
    uint32_t i = 0;
    int code;
    do
        code = measure_model(&state, args->models.items[i]);
    while (code == TOOL_OK && ++i < args->models.n);
    if (state.has_table && !tool_table_end(&state.table) && code == TOOL_OK)
        code = TOOL_FAILED;
    return code;
}

static int run(int argc, char **argv)
{
    bench_args args = {.weights = {.mmap = true},
                       .kv_type = "f16",
                       .format = "md",
                       .prompts = {{512}, 1},
                       .generations = {{128}, 1},
                       .depths = {{0}, 1},
                       .sequences = {{1}, 1},
                       .repetitions = 5,
                       .warm_up = true};
    uint32_t n;
    int code = tool_parse(&tool_bench, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!longest(&args.prompts) && !longest(&args.generations))
        return tool_usage("-p and -n are both 0, so there is nothing to "
                          "measure; make one of them larger");
    if (args.common.trace && args.models.n > 1)
        return tool_usage("--trace takes one run; give one model");
    return measure(&args);
}
