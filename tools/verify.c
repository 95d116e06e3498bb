/* cleave verify: a model against reference outputs. */
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

#define GOLDEN_FILE "golden.safetensors"

typedef struct verify_args {
    tool_common common;
    const char *model, *format;
    double tolerance;
    int64_t n_batch;
} verify_args;

#define AT(member) offsetof(verify_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING('m', "model", "PATH", AT(model),
                    "compare this model instead of the directory's own"),
    TOOL_OPT_FLOAT(0, "tolerance", AT(tolerance), 0, 1e9,
                   "largest error allowed, as RMS of the error over RMS of the "
                   "reference"),
    TOOL_OPT_INT('b', "batch-size", AT(n_batch), 1, 65536,
                 "tokens run at once"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), "text|" TOOL_FORMATS,
                    "text, md, csv, json or jsonl"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_verify = {
    .name = "verify",
    .title = "cleave verify",
    .operands = "DIR...",
    .summary = "Compares a model's outputs with reference outputs.",
    .details =
        "Each DIR holds a model (config.json, model.safetensors) and "
        "golden.safetensors: for every ids<i>, the token ids of a text, "
        "logits<i>, [tokens, vocabulary], to be met within the tolerance; "
        "greedy<i>, ids that begin with ids<i> (greedy: with ids1), to be "
        "reproduced token by token. Runs with an F32 KV cache. One line a "
        "case; exits with 1 if one fails.",
    .examples = "  cleave verify path/to/model\n"
                "  cleave verify goldens/* --tolerance 1e-4\n"
                "  cleave verify -m model-q8_0.gguf path/to/model "
                "--tolerance 0.05\n",
    .options = options,
    .min_operands = 1,
    .max_operands = UINT32_MAX,
    .run = run,
};

typedef struct verify_state {
    const verify_args *args;
    tool_env env;
    tool_table table;
    uint32_t n_cases, n_failed; /* of all directories */
    /* of the present directory */
    const char *dir;
    char *golden_path;
    clv_arrays *golden;
    clv_model *model;
    clv_session *session;
    uint32_t n_vocab;
} verify_state;

/* One comparison. */
typedef struct verify_case {
    char name[32];
    uint64_t tokens;
    double max_abs, rms; /* of the error; rms relative to the reference's */
    uint64_t matched;    /* greedy: tokens reproduced */
    int32_t wanted, got; /* greedy: at the first difference */
    bool greedy, pass;
} verify_case;

/* ------------------------------------------------------------------------ */
/* Reference arrays                                                         */

/* *ids: freed with free(). Ids are checked against the vocabulary. */
static clv_status read_ids(const verify_state *state, const char *name,
                           int32_t **out, uint32_t *n)
{
    uint64_t count;
    if (!clv_arrays_find(state->golden, name, &count, NULL))
        return clv_error(CLV_ERR_NOT_FOUND, "%s: holds no array '%s'",
                         state->golden_path, name);
    if (count == 0 || count > INT32_MAX)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: array '%s' has %" PRIu64
                         " ids; 1 to %d are possible",
                         state->golden_path, name, count, INT32_MAX);
    int32_t *ids = malloc(count * sizeof *ids);
    if (!ids)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %" PRIu64 " ids",
                         count);
    clv_status status =
        clv_arrays_read(state->golden, name, CLV_DTYPE_I32, ids, count);
    for (uint64_t i = 0; !status && i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= state->n_vocab)
            status =
                clv_error(CLV_ERR_FORMAT,
                          "%s: '%s' holds id %d, the "
                          "model's vocabulary has %" PRIu32,
                          state->golden_path, name, ids[i], state->n_vocab);
    if (status) {
        free(ids);
        return status;
    }
    *out = ids;
    *n = (uint32_t)count;
    return CLV_OK;
}

/* *logits: [n, n_vocab], freed with free(). */
static clv_status read_logits(const verify_state *state, const char *name,
                              uint32_t n, float **out)
{
    uint64_t count, row;
    if (!clv_arrays_find(state->golden, name, &count, &row))
        return clv_error(CLV_ERR_NOT_FOUND, "%s: holds no array '%s'",
                         state->golden_path, name);
    if (row != state->n_vocab || count != (uint64_t)n * row)
        return clv_error(
            CLV_ERR_FORMAT,
            "%s: '%s' has %" PRIu64 " values in "
            "rows of %" PRIu64 ", wanted are %" PRIu32 " rows of %" PRIu32,
            state->golden_path, name, count, row, n, state->n_vocab);
    float *logits = malloc(count * sizeof *logits);
    if (!logits)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for %" PRIu64 " logits",
                         count);
    clv_status status =
        clv_arrays_read(state->golden, name, CLV_DTYPE_F32, logits, count);
    if (status)
        free(logits);
    else
        *out = logits;
    return status;
}

/* The most tokens any array asks of the context. */
static uint64_t context_needed(const verify_state *state, uint32_t n_cases)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i <= n_cases; i++) {
        static const char *const kinds[] = {"ids", "greedy"};
        for (uint32_t k = 0; k < 2; k++) {
            char name[32];
            uint64_t count;
            if (i < n_cases)
                snprintf(name, sizeof name, "%s%u", kinds[k], i);
            else
                snprintf(name, sizeof name, "%s", kinds[k]);
            if (clv_arrays_find(state->golden, name, &count, NULL) &&
                count > most)
                most = count;
        }
    }
    return most;
}

/* ids0, ids1, ...: how many. */
static uint32_t count_cases(const clv_arrays *golden)
{
    char name[32];
    uint32_t n = 0;
    do
        snprintf(name, sizeof name, "ids%u", n);
    while (clv_arrays_find(golden, name, NULL, NULL) && ++n < 1000000);
    return n;
}

/* ------------------------------------------------------------------------ */
/* Comparing                                                                */

typedef struct error_sums {
    double max_abs, error, reference; /* sums of squares */
    bool finite;
} error_sums;

static void add_errors(error_sums *sums, const float *got, const float *wanted,
                       uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)wanted[i];
        if (!isfinite(d))
            sums->finite = false;
        sums->max_abs = fabs(d) > sums->max_abs ? fabs(d) : sums->max_abs;
        sums->error += d * d;
        sums->reference += (double)wanted[i] * (double)wanted[i];
    }
}

static clv_status compare_logits(verify_state *state, const int32_t *ids,
                                 const float *wanted, verify_case *out)
{
    error_sums sums = {.finite = true};
    uint64_t n_batch = (uint64_t)state->args->n_batch;
    clv_status status = clv_session_truncate(state->session, 0);
    for (uint64_t i = 0; !status && i < out->tokens;) {
        const float *got; /* [step, n_vocab] */
        uint64_t left = out->tokens - i;
        uint32_t step = (uint32_t)(left < n_batch ? left : n_batch);
        status = clv_session_eval(state->session, ids + i, step, CLV_LOGITS_ALL,
                                  &got);
        if (!status)
            add_errors(&sums, got, wanted + i * state->n_vocab,
                       (uint64_t)step * state->n_vocab);
        i += step;
    }
    out->max_abs = sums.max_abs;
    out->rms = sums.reference > 0 ? sqrt(sums.error / sums.reference)
                                  : sqrt(sums.error);
    out->pass = sums.finite && out->rms <= state->args->tolerance;
    return status;
}

static int32_t most_likely(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Decodes on from the first n ids; ids: [out->tokens]. */
static clv_status compare_greedy(verify_state *state, const int32_t *ids,
                                 uint32_t n, verify_case *out)
{
    const float *logits;
    clv_status status = clv_session_truncate(state->session, 0);
    if (!status)
        status =
            clv_session_eval(state->session, ids, n, CLV_LOGITS_LAST, &logits);
    for (uint64_t i = n; !status && i < out->tokens; i++) {
        out->wanted = ids[i];
        out->got = most_likely(logits, state->n_vocab);
        if (out->got != out->wanted)
            return CLV_OK;
        out->matched++;
        if (i + 1 < out->tokens)
            status = clv_session_eval(state->session, ids + i, 1,
                                      CLV_LOGITS_LAST, &logits);
    }
    out->pass = true;
    return status;
}

/* ------------------------------------------------------------------------ */
/* Reporting                                                                */

static void report_text(const verify_state *state, const verify_case *c)
{
    char *dir = tool_clean(state->dir);
    printf("%-4s  %s %s: %" PRIu64 " tokens, ", c->pass ? "ok" : "FAIL",
           dir ? dir : "", c->name, c->tokens);
    free(dir);
    if (!c->greedy)
        printf("max abs error %.3g, relative RMS %.3g (at most %g)\n",
               c->max_abs, c->rms, state->args->tolerance);
    else if (c->pass)
        printf("%" PRIu64 " reproduced\n", c->matched);
    else
        printf("%" PRIu64 " reproduced, then %d instead of %d\n", c->matched,
               c->got, c->wanted);
    fflush(stdout);
}

static void report(verify_state *state, const verify_case *c)
{
    state->n_cases++;
    state->n_failed += !c->pass;
    if (!strcmp(state->args->format, "text")) {
        tool_progress_clear(&state->env.progress);
        report_text(state, c);
        return;
    }
    char tokens[24], max_abs[24] = "", rms[24] = "", matched[24] = "";
    const char *cells[] = {state->dir,
                           c->name,
                           tokens,
                           max_abs,
                           rms,
                           matched,
                           c->pass ? "ok" : "FAIL"};
    snprintf(tokens, sizeof tokens, "%" PRIu64, c->tokens);
    tool_record record = tool_record_begin();
    tool_record_string(&record, "model", state->dir);
    tool_record_string(&record, "case", c->name);
    tool_record_number(&record, "tokens", (double)c->tokens);
    if (c->greedy) {
        snprintf(matched, sizeof matched, "%" PRIu64, c->matched);
        tool_record_number(&record, "reproduced", (double)c->matched);
    } else {
        snprintf(max_abs, sizeof max_abs, "%.3g", c->max_abs);
        snprintf(rms, sizeof rms, "%.3g", c->rms);
        tool_record_number(&record, "max_abs", c->max_abs);
        tool_record_number(&record, "relative_rms", c->rms);
        tool_record_number(&record, "tolerance", state->args->tolerance);
    }
    tool_record_bool(&record, "pass", c->pass);
    tool_table_add(&state->table, record, cells);
}

/* ------------------------------------------------------------------------ */
/* Cases                                                                    */

static clv_status verify_logits(verify_state *state, uint32_t index,
                                const int32_t *ids, uint32_t n)
{
    verify_case c = {.tokens = n};
    float *wanted = NULL;
    snprintf(c.name, sizeof c.name, "logits%u", index);
    clv_status status = read_logits(state, c.name, n, &wanted);
    if (status)
        return status;
    status = compare_logits(state, ids, wanted, &c);
    free(wanted);
    if (!status)
        report(state, &c);
    return status;
}

/* name: "greedy" or "greedy<i>", ids whose first n are given. */
static clv_status verify_greedy(verify_state *state, const char *name,
                                const int32_t *ids, uint32_t n)
{
    verify_case c = {.greedy = true};
    int32_t *wanted = NULL;
    uint32_t n_wanted = 0;
    clv_status status = read_ids(state, name, &wanted, &n_wanted);
    if (status)
        return status;
    snprintf(c.name, sizeof c.name, "%s", name);
    c.tokens = n_wanted;
    if (n_wanted < n || memcmp(wanted, ids, n * sizeof *ids))
        status = clv_error(CLV_ERR_FORMAT,
                           "%s: '%s' does not begin with the "
                           "ids it continues",
                           state->golden_path, name);
    else
        status = compare_greedy(state, wanted, n, &c);
    free(wanted);
    c.tokens = n_wanted - n;
    if (!status)
        report(state, &c);
    return status;
}

static clv_status verify_case_at(verify_state *state, uint32_t index)
{
    char name[32];
    int32_t *ids = NULL;
    uint32_t n = 0;
    snprintf(name, sizeof name, "ids%u", index);
    clv_status status = read_ids(state, name, &ids, &n);
    if (status)
        return status;
    status = verify_logits(state, index, ids, n);
    snprintf(name, sizeof name, "greedy%u", index);
    if (!status && clv_arrays_find(state->golden, name, NULL, NULL))
        status = verify_greedy(state, name, ids, n);
    if (!status && index == 1 &&
        clv_arrays_find(state->golden, "greedy", NULL, NULL))
        status = verify_greedy(state, "greedy", ids, n);
    free(ids);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Directories                                                              */

static clv_status open_golden(verify_state *state, uint32_t *n_cases)
{
    size_t size = strlen(state->dir) + sizeof "/" GOLDEN_FILE;
    state->golden_path = malloc(size);
    if (!state->golden_path)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    snprintf(state->golden_path, size, "%s/%s", state->dir, GOLDEN_FILE);
    clv_status status = clv_arrays_open(state->golden_path, &state->golden);
    if (status)
        return status;
    *n_cases = count_cases(state->golden);
    return *n_cases ? CLV_OK
                    : clv_error(CLV_ERR_FORMAT,
                                "%s: holds no array 'ids0', so "
                                "there is nothing to compare",
                                state->golden_path);
}

static clv_status open_model(verify_state *state, uint32_t n_cases)
{
    clv_status status = clv_model_load(
        state->env.ctx, state->args->model ? state->args->model : state->dir,
        &(clv_model_params){.progress = tool_progress_report,
                            .progress_ctx = &state->env.progress},
        &state->model);
    if (status)
        return status;
    state->n_vocab = clv_model_describe(state->model)->n_vocab;
    uint64_t n_ctx = context_needed(state, n_cases);
    if (n_ctx > INT32_MAX)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: an array of %" PRIu64 " ids; at "
                         "most %d are possible",
                         state->golden_path, n_ctx, INT32_MAX);
    clv_session_params params = {.n_ctx = (uint32_t)n_ctx,
                                 .n_batch = (uint32_t)state->args->n_batch,
                                 .kv_dtype = CLV_DTYPE_F32};
    status = clv_session_create(state->model, &params, &state->session);
    if (!status)
        tool_interrupt_target(state->session);
    return status;
}

static clv_status verify_dir(verify_state *state, const char *dir)
{
    uint32_t n_cases = 0;
    state->dir = dir;
    clv_status status = open_golden(state, &n_cases);
    if (!status)
        status = open_model(state, n_cases);
    for (uint32_t i = 0; !status && i < n_cases; i++) {
        if (tool_progress_report(&state->env.progress, dir,
                                 (double)i / n_cases))
            status = clv_error(CLV_ERR_CANCELLED, "interrupted");
        else
            status = verify_case_at(state, i);
    }
    tool_progress_clear(&state->env.progress);
    tool_interrupt_target(NULL);
    clv_session_destroy(state->session);
    clv_model_destroy(state->model);
    clv_arrays_close(state->golden);
    free(state->golden_path);
    state->session = NULL;
    state->model = NULL;
    state->golden = NULL;
    state->golden_path = NULL;
    return status;
}

/* Goes on after a directory that cannot be verified, and fails at the end. */
static int verify_all(verify_state *state, char **dirs, uint32_t n)
{
    static const tool_column columns[] = {
        {"model", false},  {"case", false},        {"tokens", true},
        {"max abs", true}, {"relative RMS", true}, {"reproduced", true},
        {"result", false}};
    if (tool_env_open(&state->env) || tool_env_need_device(&state->env))
        return tool_fail();
    int code = TOOL_OK;
    uint32_t n_broken = 0;
    tool_table_begin(&state->table, state->args->format, columns, 7);
    for (uint32_t i = 0; i < n && !tool_interrupted(); i++)
        if (verify_dir(state, dirs[i])) {
            code = tool_fail();
            n_broken++;
        }
    if (!tool_table_end(&state->table) && code == TOOL_OK)
        code = TOOL_FAILED;
    if (state->n_failed && code == TOOL_OK)
        code = TOOL_FAILED;
    if (!state->args->common.quiet)
        fprintf(stderr, "%u of %u cases pass", state->n_cases - state->n_failed,
                state->n_cases);
    if (!state->args->common.quiet && n_broken)
        fprintf(stderr, ", %u of %u directories cannot be verified", n_broken,
                n);
    if (!state->args->common.quiet)
        fputc('\n', stderr);
    return code;
}

static int run(int argc, char **argv)
{
    verify_args args = {.format = "text", .tolerance = 1e-3, .n_batch = 512};
    uint32_t n;
    int code = tool_parse(&tool_verify, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    verify_state state = {.args = &args};
    tool_env_init(&state.env, &args.common);
    code = verify_all(&state, argv, n);
    return tool_env_close(&state.env, code);
}
