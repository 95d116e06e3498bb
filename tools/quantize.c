/* cleave quantize: a GGUF file with smaller numbers. */
#include "commands.h"
#include "output.h"
#include "score.h"
#include "table.h"
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct quantize_args {
    tool_common common;
    const char *text, *calibrate, *format;
    int64_t n_ctx;
    double prune;
    bool plain, list;
} quantize_args;

#define AT(member) offsetof(quantize_args, member)

static const tool_option options[] = {
    TOOL_OPT_STRING(0, "text", "FILE", AT(text),
                    "measure the perplexity of this text before and after"),
    TOOL_OPT_STRING(0, "calibrate", "FILE", AT(calibrate),
                    "find the scales of activations with this text, for w8a8"),
    TOOL_OPT_FLOAT(0, "prune", AT(prune), 0, 1,
                   "w8a8: part of the layers whose outliers are cut off, "
                   "those to which they matter least; 1: all"),
    TOOL_OPT_FLAG(0, "plain", AT(plain),
                  "w8a8: ranges to the largest activation, and no outliers, "
                  "to compare with"),
    TOOL_OPT_INT('c', "ctx-size", AT(n_ctx), 2, INT32_MAX,
                 "tokens of a window of --text"),
    TOOL_OPT_FLAG(0, "list", AT(list), "list the types"),
    TOOL_OPT_CHOICE('o', "output", "FORMAT", AT(format), TOOL_FORMATS,
                    "md (default; nothing with -q), csv, json or jsonl"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_quantize = {
    .name = "quantize",
    .title = "cleave quantize",
    .operands = "IN.gguf [OUT.gguf] TYPE [THREADS]",
    .summary = "Rewrites a GGUF file in a smaller type.",
    .details =
        "TYPE is a mix of types as llama.cpp has them, such as Q4_K_M, or a "
        "scheme of integers with scales beside them, such as w8a8; --list "
        "tells them all. Without OUT.gguf the name is made from IN.gguf: "
        "model-f16.gguf becomes model-q4_k_m.gguf beside it. The file appears "
        "when it is complete; one of that name is then replaced, which is "
        "said. The input is never overwritten. A table shows the type of each "
        "tensor and its error: the root of the mean square, relative to that "
        "of the values.",
    .examples = "  cleave quantize model-f16.gguf Q4_K_M\n"
                "  cleave quantize model-f16.gguf small.gguf Q5_K_M --text "
                "heldout.txt\n"
                "  cleave quantize model-f16.gguf w8a8 --calibrate text.txt\n"
                "  cleave quantize --list\n",
    .options = options,
    .min_operands = 0,
    .max_operands = 4,
    .run = run,
};

/* What was asked for, and what came of it. */
typedef struct work {
    const quantize_args *args;
    tool_env env;
    tool_output output;
    const char *in;
    char *out;
    clv_quantize_type type;
    uint32_t n_threads;
    clv_ranges *ranges;
    tool_score before, after;
    tool_table table;
    uint64_t elements, size; /* of all tensors */
} work;

/* ------------------------------------------------------------------------ */
/* The table                                                                */

static const tool_column columns[] = {
    {"tensor", false},     {"shape", true},
    {"from", false},       {"to", false},
    {"size", true},        {"error", true},
    {"input scale", true}, {"importance", true},
    {"outliers", true},    {"perplexity before", true},
    {"after", true},
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* "i4 channel" */
static const char *type_name(const clv_quantized_tensor *t, char out[32])
{
    const char *name = clv_dtype_name(t->to);
    if (t->quant == CLV_QUANT_PER_GROUP)
        snprintf(out, 32, "%s group %" PRIu32, name, t->group);
    else
        snprintf(out, 32, "%s%s", name,
                 t->quant == CLV_QUANT_PER_CHANNEL  ? " channel"
                 : t->quant == CLV_QUANT_PER_TENSOR ? " tensor"
                                                    : "");
    return out;
}

/* A row of the table: of a tensor, or of all. */
typedef struct row {
    const char *name, *shape, *from, *to;
    uint64_t elements, size;
    double error, input_scale, importance, outliers; /* NAN: none */
    double before, after;
} row;

/* "" for NAN. */
static const char *number_text(double x, const char *format, char out[32])
{
    out[0] = 0;
    if (isfinite(x))
        snprintf(out, 32, format, x);
    return out;
}

static void add_row(work *w, const row *r)
{
    char size[TOOL_QUANTITY_MAX], numbers[6][32];
    tool_record record = tool_record_begin();
    tool_record_string(&record, "tensor", r->name);
    tool_record_number(&record, "elements", (double)r->elements);
    tool_record_string(&record, "from", r->from);
    tool_record_string(&record, "to", r->to);
    tool_record_number(&record, "bytes", (double)r->size);
    tool_record_number(&record, "error", r->error);
    tool_record_number(&record, "input_scale", r->input_scale);
    tool_record_number(&record, "importance", r->importance);
    tool_record_number(&record, "outliers", r->outliers);
    tool_record_number(&record, "ppl_before", r->before);
    tool_record_number(&record, "ppl_after", r->after);
    const char *cells[N_COLUMNS] = {
        r->name,
        r->shape,
        r->from,
        r->to,
        tool_bytes(r->size, size),
        number_text(r->error, "%.5f", numbers[0]),
        number_text(r->input_scale, "%.5g", numbers[1]),
        number_text(r->importance, "%.2e", numbers[2]),
        number_text(r->outliers, "%.0f", numbers[3]),
        number_text(r->before, "%.4f", numbers[4]),
        number_text(r->after, "%.4f", numbers[5]),
    };
    tool_table_add(&w->table, record, cells);
}

static void on_tensor(void *ctx, const clv_quantized_tensor *t)
{
    work *w = ctx;
    char to[32], shape[48];
    snprintf(shape, sizeof shape, "%" PRIu64 " x %" PRIu64, t->rows,
             t->columns);
    add_row(w,
            &(row){
                .name = t->name,
                .shape = shape,
                .from = clv_dtype_name(t->from),
                .to = type_name(t, to),
                .elements = t->rows * t->columns,
                .size = t->size,
                .error = t->error,
                .input_scale =
                    t->input_scale > 0 ? (double)t->input_scale : (double)NAN,
                .importance = t->input_scale > 0 ? t->importance : (double)NAN,
                .outliers = t->outliers ? t->outliers : (double)NAN,
                .before = (double)NAN,
                .after = (double)NAN,
            });
    w->elements += t->rows * t->columns;
    w->size += t->size;
}

static void add_total(work *w)
{
    char shape[48];
    snprintf(shape, sizeof shape, "%.2f bits each",
             8 * (double)w->size / (double)w->elements);
    add_row(w, &(row){
                   .name = "total",
                   .shape = shape,
                   .from = "",
                   .to = w->type.name,
                   .elements = w->elements,
                   .size = w->size,
                   .error = (double)NAN,
                   .input_scale = (double)NAN,
                   .importance = (double)NAN,
                   .outliers = (double)NAN,
                   .before = w->args->text ? exp(w->before.nll) : (double)NAN,
                   .after = w->args->text ? exp(w->after.nll) : (double)NAN,
               });
}

static int list_types(const quantize_args *args)
{
    static const tool_column titles[] = {{"type", false},
                                         {"what it is", false}};
    clv_quantize_type type;
    tool_table table;
    tool_table_begin(&table, args->format, titles, 2);
    for (uint32_t i = 0; clv_quantize_type_at(i, &type); i++) {
        tool_record record = tool_record_begin();
        tool_record_string(&record, "type", type.name);
        tool_record_string(&record, "summary", type.summary);
        tool_record_bool(&record, "calibrated", type.calibrated);
        tool_table_add(&table, record,
                       (const char *const[]){type.name, type.summary});
    }
    return tool_table_end(&table) ? TOOL_OK : TOOL_FAILED;
}

/* ------------------------------------------------------------------------ */
/* Running models                                                           */

static clv_status load(work *w, const char *path, clv_model **out)
{
    clv_status status =
        clv_model_load(w->env.ctx, path,
                       &(clv_model_params){.progress = tool_progress_report,
                                           .progress_ctx = &w->env.progress},
                       out);
    tool_progress_clear(&w->env.progress);
    return status;
}

static clv_status score(work *w, clv_model *model, const char *path,
                        tool_score *out)
{
    const tool_score_params params = {
        .model = path,
        .file = w->args->text,
        .n_ctx = (uint32_t)w->args->n_ctx,
        .n_batch = 512,
        .kv_dtype = CLV_DTYPE_F16,
        .chunks = -1,
    };
    return w->args->text ? tool_score_text(&w->env, model, &params, out)
                         : CLV_OK;
}

static clv_status calibrate(work *w, const clv_model *model)
{
    int32_t *ids = NULL;
    uint64_t n;
    if (!w->args->calibrate)
        return CLV_OK;
    CLV_TRY(tool_tokenize_file(model, w->in, w->args->calibrate, &ids, &n));
    clv_status status =
        clv_calibrate((clv_model *)model, ids, n, tool_progress_report,
                      &w->env.progress, &w->ranges);
    tool_progress_clear(&w->env.progress);
    clv_tokens_free(ids);
    return status;
}

/* What needs the input as a model. */
static clv_status look_before(work *w)
{
    clv_model *model = NULL;
    if (!w->args->text && !w->args->calibrate)
        return CLV_OK;
    CLV_TRY(tool_env_open(&w->env));
    CLV_TRY(tool_env_need_device(&w->env));
    clv_status status = load(w, w->in, &model);
    if (!status)
        status = score(w, model, w->in, &w->before);
    if (!status)
        status = calibrate(w, model);
    clv_model_destroy(model);
    return status;
}

static clv_status look_after(work *w)
{
    clv_model *model = NULL;
    if (!w->args->text)
        return CLV_OK;
    clv_status status = load(w, w->out, &model);
    if (!status)
        status = score(w, model, w->out, &w->after);
    clv_model_destroy(model);
    return status;
}

/* ------------------------------------------------------------------------ */

/* "dir/model-f16.gguf" and "Q8_0": "dir/model-q8_0.gguf". */
static char *output_name(const char *in, const char *type)
{
    size_t stem = strlen(in), size = stem + strlen(type) + 8;
    clv_quantize_type old;
    char *out = malloc(size);
    if (!out)
        return NULL;
    if (stem > 5 && !strcasecmp(in + stem - 5, ".gguf"))
        stem -= 5;
    for (uint32_t i = 0; clv_quantize_type_at(i, &old); i++) {
        size_t n = strlen(old.name);
        if (stem > n + 1 && in[stem - n - 1] == '-' &&
            !strncasecmp(in + stem - n, old.name, n)) {
            stem -= n + 1;
            break;
        }
    }
    int n = snprintf(out, size, "%.*s-", (int)stem, in);
    for (; *type; type++) /* no new directories for 8/4/4 */
        out[n++] = *type == '/' ? '-' : (char)tolower(*type);
    memcpy(out + n, ".gguf", 6);
    return out;
}

/* A number of threads behind the type, as llama-quantize takes it. */
static bool take_threads(work *w, char **argv, uint32_t *n)
{
    char *end;
    const long threads = *n > 2 ? strtol(argv[*n - 1], &end, 10) : 0;
    w->n_threads = (uint32_t)w->args->common.threads;
    if (*n < 3 || *end || end == argv[*n - 1])
        return true;
    w->n_threads = (uint32_t)threads;
    --*n;
    return threads >= 1 && threads <= 1024;
}

static clv_status quantize(work *w)
{
    const clv_quantize_params params = {
        .type = w->type.name,
        .n_threads = w->n_threads,
        .ranges = w->ranges,
        .plain = w->args->plain,
        .prune = (float)w->args->prune,
        .progress = tool_progress_report,
        .progress_ctx = &w->output.progress,
        .on_tensor = on_tensor,
        .on_tensor_ctx = w,
    };
    return clv_quantize(w->in, w->out, &params);
}

static int make_file(work *w)
{
    tool_table_begin(&w->table, w->args->format, columns, N_COLUMNS);
    tool_output_begin(&w->output, &w->args->common, w->in);
    clv_status status =
        w->out ? tool_output_add(&w->output, w->out)
               : clv_error(CLV_ERR_NO_MEMORY, "no memory for a file name");
    if (!status)
        status = look_before(w);
    if (!status)
        status = quantize(w);
    int code = tool_output_end(&w->output, status);
    if (code == TOOL_OK && look_after(w))
        code = tool_fail();
    if (code == TOOL_OK)
        add_total(w);
    else
        w->table.format = "none"; /* what there is of it is freed only */
    return tool_table_end(&w->table) ? code : TOOL_FAILED;
}

static int run(int argc, char **argv)
{
    quantize_args args = {.n_ctx = 512};
    work w = {.args = &args};
    uint32_t n;
    int code = tool_parse(&tool_quantize, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    if (!args.format)
        args.format = args.common.quiet ? "none" : "md";
    if (args.list)
        return list_types(&args);
    if (!take_threads(&w, argv, &n))
        return tool_usage("'%s' is not a number of threads; give 1 to 1024",
                          argv[n]);
    if (n < 2 || n > 3)
        return tool_usage("give IN.gguf [OUT.gguf] TYPE, or --list");
    if (clv_quantize_type_find(argv[n - 1], &w.type))
        return tool_usage("%s", clv_last_error());
    if (w.type.calibrated != (args.calibrate != NULL))
        return tool_usage(w.type.calibrated
                              ? "%s rounds activations by scales that a text "
                                "gives; give one with --calibrate FILE"
                              : "%s takes activations as they are; leave out "
                                "--calibrate",
                          w.type.name);
    if (!w.type.calibrated && (args.plain || args.prune > 0))
        return tool_usage("%s computes no outliers; leave out --prune and "
                          "--plain",
                          w.type.name);
    if (args.plain && args.prune > 0)
        return tool_usage("--plain computes no outliers; leave out --prune");
    w.in = argv[0];
    w.out = n == 3 ? strdup(argv[1]) : output_name(w.in, w.type.name);
    tool_env_init(&w.env, &args.common);
    code = make_file(&w);
    clv_ranges_destroy(w.ranges);
    free(w.out);
    return tool_env_close(&w.env, code);
}
