/* cleave perplexity: how well a model predicts a text. */
#include "commands.h"
#include "score.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ppl_args {
    tool_common common;
    tool_weights weights;
    tool_strings plans;
    const char *model, *file, *kv_type, *format;
    int64_t n_ctx, n_batch, chunks;
} ppl_args;

#define AT(member) offsetof(ppl_args, member)

static const tool_option options[] = {
    TOOL_OPTION_MODEL(ppl_args),
    TOOL_OPT_STRING('f', "file", "FILE", AT(file),
                    "the text, '-' for standard input"),
    TOOL_OPT_INT('c', "ctx-size", AT(n_ctx), 2, INT32_MAX,
                 "tokens of a window"),
    TOOL_OPT_INT('b', "batch-size", AT(n_batch), 1, 65536,
                 "tokens run at once"),
    TOOL_OPT_INT(0, "chunks", AT(chunks), -1, INT32_MAX,
                 "stop after N windows, -1: all"),
    TOOL_OPTIONS_WEIGHTS(ppl_args),
    TOOL_OPTION_KV_TYPE(ppl_args),
    TOOL_OPTION_PLAN(ppl_args),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), "text|" TOOL_FORMATS,
                    "text, md, csv, json or jsonl"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_perplexity = {
    .name = "perplexity",
    .title = "cleave perplexity",
    .operands = "-f FILE",
    .summary = "Measures how well a model predicts a text.",
    .details = "The text is cut into windows of c tokens that do not overlap: "
               "BOS and c-1 tokens of the text. Every prediction is scored; "
               "the remainder of the text is dropped. nll is the mean negative "
               "logarithm of the probability of each token, ppl its "
               "exponential. A model without BOS has c tokens of text in a "
               "window, of which the first is not scored.",
    .examples = "  cleave perplexity -m model.gguf -f heldout.txt -c 512\n"
                "  cleave perplexity -f heldout.txt --chunks 16 -o json\n",
    .options = options,
    .run = run,
};

static int print_result(const ppl_args *args, const tool_score *score)
{
    static const tool_column columns[] = {
        {"tokens", true}, {"nll", true}, {"ppl", true}};
    const double nll = score->nll;
    const char *format = args->format;
    char tokens[32], mean[32], ppl[32];
    const char *cells[] = {tokens, mean, ppl};
    if (!strcmp(format, "text")) {
        printf("perplexity %.4f over %" PRIu64 " tokens (nll %.6f)\n", exp(nll),
               score->tokens, nll);
        return TOOL_OK;
    }
    tool_record record = tool_record_begin();
    tool_record_number(&record, "tokens", (double)score->tokens);
    tool_record_number(&record, "nll", nll);
    tool_record_number(&record, "ppl", exp(nll));
    if (!strcmp(format, "json"))
        return tool_record_print(record) ? TOOL_OK : TOOL_FAILED;
    snprintf(tokens, sizeof tokens, "%" PRIu64, score->tokens);
    snprintf(mean, sizeof mean, "%.6f", nll);
    snprintf(ppl, sizeof ppl, "%.4f", exp(nll));
    tool_table table;
    tool_table_begin(&table, format, columns, 3);
    tool_table_add(&table, record, cells);
    return tool_table_end(&table) ? TOOL_OK : TOOL_FAILED;
}

static void print_timings(const ppl_args *args, const tool_score *score)
{
    char memory[TOOL_QUANTITY_MAX];
    double seconds = (double)score->ns * 1e-9;
    if (!args->common.quiet)
        fprintf(stderr,
                "%" PRIu64 " windows of %" PRId64 " tokens, %.2f s, "
                "%.2f tok/s, peak memory %s\n",
                score->n_windows, args->n_ctx, seconds,
                (double)score->tokens / seconds,
                tool_bytes(tool_peak_memory(), memory));
}

static int measure(const ppl_args *args, tool_env *env)
{
    char *path = NULL;
    clv_model *model = NULL;
    uint64_t load_ns;
    tool_score score = {0};
    clv_status status =
        tool_env_load(env, args->model, &model, &path, &load_ns);
    const tool_score_params params = {
        .model = path,
        .file = args->file,
        .plans = &args->plans,
        .n_ctx = (uint32_t)args->n_ctx,
        .n_batch = (uint32_t)args->n_batch,
        .kv_dtype = tool_kv_dtype(args->kv_type),
        .chunks = args->chunks,
    };
    if (!status)
        status = tool_score_text(env, model, &params, &score);
    clv_model_destroy(model);
    free(path);
    if (status)
        return tool_fail();
    print_timings(args, &score);
    return print_result(args, &score);
}

static int run(int argc, char **argv)
{
    ppl_args args = {.weights = {.mmap = true},
                     .kv_type = "f16",
                     .format = "text",
                     .n_ctx = 512,
                     .n_batch = 512,
                     .chunks = -1};
    uint32_t n;
    int code = tool_parse(&tool_perplexity, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!args.file)
        return tool_usage("give the text with -f FILE");
    if (args.chunks == 0)
        return tool_usage("--chunks: 0 windows leave nothing to measure; give "
                          "at least 1, or -1 for all");
    tool_env env;
    tool_env_init(&env, &args.common);
    env.weights = &args.weights;
    code = measure(&args, &env);
    return tool_env_close(&env, code);
}
