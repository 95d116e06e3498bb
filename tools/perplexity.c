/* cleave perplexity: how well a model predicts a text. */
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

typedef struct ppl_args {
    tool_common common;
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

typedef struct ppl_state {
    const ppl_args *args;
    tool_env env;
    char *path, *text;
    uint64_t length;
    clv_model *model;
    clv_session *session;
    int32_t *ids; /* of the text */
    uint64_t n_ids;
    int32_t *window;                /* [n_ctx] */
    int32_t bos;                    /* -1: none */
    uint64_t n_windows, per_window; /* text tokens of a window */
    uint64_t tokens;                /* scored */
    double nll;                     /* their sum */
    uint64_t begin_ns;
} ppl_state;

/* ------------------------------------------------------------------------ */

/* -log softmax(logits)[id] */
static double surprise(const float *logits /* [n] */, uint32_t n, int32_t id)
{
    float max = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)expf(logits[i] - max);
    return log(sum) + (double)max - (double)logits[id];
}

/* Runs all of the window but its last token, which is only predicted. */
static clv_status score_window(ppl_state *state)
{
    uint32_t n = (uint32_t)state->args->n_ctx - 1;
    uint32_t n_vocab = clv_model_describe(state->model)->n_vocab;
    clv_status status = clv_session_truncate(state->session, 0);
    for (uint32_t i = 0; !status && i < n;) {
        const float *logits; /* [step, n_vocab] */
        uint32_t step = (uint32_t)state->args->n_batch;
        if (step > n - i)
            step = n - i;
        status = clv_session_eval(state->session, state->window + i, step,
                                  CLV_LOGITS_ALL, &logits);
        for (uint32_t k = 0; !status && k < step; k++)
            state->nll += surprise(logits + (uint64_t)k * n_vocab, n_vocab,
                                   state->window[i + k + 1]);
        i += step;
    }
    if (!status)
        state->tokens += n;
    if (!status && !isfinite(state->nll))
        status = clv_error(CLV_ERR_INTERNAL,
                           "%s: predictions that are not "
                           "finite numbers, after %" PRIu64 " tokens",
                           state->path, state->tokens);
    return status;
}

static clv_status score(ppl_state *state)
{
    clv_status status = CLV_OK;
    uint32_t n_bos = state->bos >= 0;
    char what[64] = "perplexity";
    for (uint64_t i = 0; !status && i < state->n_windows; i++) {
        if (tool_progress_report(&state->env.progress, what,
                                 (double)i / (double)state->n_windows))
            return clv_error(CLV_ERR_CANCELLED, "interrupted");
        if (n_bos)
            state->window[0] = state->bos;
        memcpy(state->window + n_bos, state->ids + i * state->per_window,
               state->per_window * sizeof *state->window);
        status = score_window(state);
        if (!status)
            snprintf(what, sizeof what, "perplexity %.4f",
                     exp(state->nll / (double)state->tokens));
    }
    return status;
}

/* ------------------------------------------------------------------------ */

static clv_status tokenize_text(ppl_state *state)
{
    clv_status status = tool_need_tokenizer(state->model, state->path);
    if (status)
        return status;
    const clv_tokenizer *tok = clv_model_tokenizer(state->model);
    status = clv_tokenize(tok, state->text, state->length, 0, &state->ids,
                          &state->n_ids);
    if (status)
        return status;
    uint32_t n_vocab = clv_model_describe(state->model)->n_vocab;
    for (uint64_t i = 0; i < state->n_ids; i++)
        if ((uint32_t)state->ids[i] >= n_vocab)
            return clv_error(CLV_ERR_FORMAT,
                             "%s: the tokenizer gives id %d, "
                             "the model has a vocabulary of %" PRIu32,
                             state->path, state->ids[i], n_vocab);
    uint64_t n_ctx = (uint64_t)state->args->n_ctx;
    state->bos = clv_tokenizer_describe(tok).bos;
    state->per_window = n_ctx - (state->bos >= 0);
    state->n_windows = state->n_ids / state->per_window;
    if (state->n_windows == 0)
        return clv_error(CLV_ERR_INVALID,
                         "%s: has %" PRIu64 " tokens, one "
                         "window takes %" PRIu64 "; take a longer text or a "
                         "smaller -c",
                         state->args->file, state->n_ids, state->per_window);
    if (state->args->chunks >= 0 &&
        (uint64_t)state->args->chunks < state->n_windows)
        state->n_windows = (uint64_t)state->args->chunks;
    state->window = malloc(n_ctx * sizeof *state->window);
    return state->window ? CLV_OK
                         : clv_error(CLV_ERR_NO_MEMORY,
                                     "no memory for a "
                                     "window of %" PRIu64 " tokens",
                                     n_ctx);
}

static clv_status make_session(ppl_state *state)
{
    clv_session_params params = {
        .n_ctx = (uint32_t)state->args->n_ctx,
        .n_batch = (uint32_t)state->args->n_batch,
        .kv_dtype = tool_kv_dtype(state->args->kv_type),
    };
    clv_status status = tool_session_create(
        state->model, &params, &state->args->plans, &state->session);
    if (!status)
        tool_interrupt_target(state->session);
    return status;
}

static int print_result(const ppl_state *state)
{
    static const tool_column columns[] = {
        {"tokens", true}, {"nll", true}, {"ppl", true}};
    double nll = state->nll / (double)state->tokens;
    const char *format = state->args->format;
    char tokens[32], mean[32], ppl[32];
    const char *cells[] = {tokens, mean, ppl};
    if (!strcmp(format, "text")) {
        printf("perplexity %.4f over %" PRIu64 " tokens (nll %.6f)\n", exp(nll),
               state->tokens, nll);
        return TOOL_OK;
    }
    tool_record record = tool_record_begin();
    tool_record_number(&record, "tokens", (double)state->tokens);
    tool_record_number(&record, "nll", nll);
    tool_record_number(&record, "ppl", exp(nll));
    if (!strcmp(format, "json"))
        return tool_record_print(record) ? TOOL_OK : TOOL_FAILED;
    snprintf(tokens, sizeof tokens, "%" PRIu64, state->tokens);
    snprintf(mean, sizeof mean, "%.6f", nll);
    snprintf(ppl, sizeof ppl, "%.4f", exp(nll));
    tool_table table;
    tool_table_begin(&table, format, columns, 3);
    tool_table_add(&table, record, cells);
    return tool_table_end(&table) ? TOOL_OK : TOOL_FAILED;
}

static void print_timings(const ppl_state *state)
{
    char memory[TOOL_QUANTITY_MAX];
    double seconds = (double)(clv_now_ns() - state->begin_ns) * 1e-9;
    if (!state->args->common.quiet)
        fprintf(stderr,
                "%" PRIu64 " windows of %" PRId64 " tokens, %.2f s, "
                "%.2f tok/s, peak memory %s\n",
                state->n_windows, state->args->n_ctx, seconds,
                (double)state->tokens / seconds,
                tool_bytes(tool_peak_memory(), memory));
}

static int measure(ppl_state *state)
{
    uint64_t load_ns;
    clv_status status =
        tool_read_file(state->args->file, &state->text, &state->length);
    if (!status)
        status = tool_env_load(&state->env, state->args->model, &state->model,
                               &state->path, &load_ns);
    if (!status)
        status = tokenize_text(state);
    if (!status)
        status = make_session(state);
    state->begin_ns = clv_now_ns();
    if (!status)
        status = score(state);
    tool_progress_clear(&state->env.progress);
    if (status)
        return tool_fail();
    print_timings(state);
    return print_result(state);
}

static int run(int argc, char **argv)
{
    ppl_args args = {.kv_type = "f16",
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
    ppl_state state = {.args = &args};
    tool_env_init(&state.env, &args.common);
    code = measure(&state);
    tool_interrupt_target(NULL);
    clv_session_destroy(state.session);
    clv_tokens_free(state.ids);
    clv_model_destroy(state.model);
    code = tool_env_close(&state.env, code);
    free(state.window);
    free(state.path);
    free(state.text);
    return code;
}
