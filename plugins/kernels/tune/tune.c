#include "tune/tune.h"
#include "entry.h"
#include "lower/repack.h"
#include "privates.h"
#include "tune/context.h"
#include "tune/sample.h"

#include <string.h>

#define RUNS 5
#define ENOUGH_NS 20000000u /* of measuring one variant */
#define HOPELESS 4          /* times slower than the best: measured once */
#define FEW_ROWS 16
#define SWEEP_BYTES ((uint64_t)96 << 20) /* more than what devices cache */

/* A node being tuned. */
typedef struct contest {
    const gpu_tuner *t;
    const gpu_context *ctx;
    const gpu_variants *variants;
    gpu_sample sample;
    clv_plugin_buffer *sweep;
    float *want, *out; /* of the preferred variant, of the one that is tried */
    double bound;
    uint64_t best_ns, preferred_ns;
    uint32_t best;
} contest;

void gpu_list_variants(const gpu_target *target, const clv_subgraph *graph,
                       uint32_t i, gpu_variants *out)
{
    gpu_node node;
    out->n = 0;
    gpu_check_node(target, graph, i, &node);
    if (node.caps.answer == CLV_ANSWER_YES && node.op->variants)
        node.op->variants(&node, out);
    if (out->n < 2)
        out->n = 0;
}

/* ------------------------------------------------------------------------ */
/* Measuring                                                                 */

static clv_status compile(const contest *c, uint32_t id,
                          clv_plugin_program **out)
{
    char choice[GPU_KEY_SIZE + 16];
    clv_compile compile = CLV_INIT(clv_compile, CLV_STRUCT_COMPILE);
    snprintf(choice, sizeof choice, "%s=%u", c->variants->key, (unsigned)id);
    compile.graph = &c->sample.graph;
    compile.weights = c->sample.weights;
    compile.n_weights = c->sample.n_weights;
    compile.options = choice;
    return c->t->api->program_compile(c->t->dev, &compile, out);
}

static clv_status run(const contest *c, clv_plugin_program *program,
                      uint64_t *ns)
{
    return c->t->time(c->t->dev, program, c->sample.others, c->sample.n_others,
                      c->sweep, ns);
}

/* The quickest of some runs, the first of which warms up. */
static clv_status measure(const contest *c, clv_plugin_program *program,
                          uint64_t *best)
{
    uint64_t ns, all = 0;
    clv_status status = run(c, program, &ns);
    *best = UINT64_MAX;
    for (int i = 0; i < RUNS && !status && all < ENOUGH_NS; i++) {
        status = run(c, program, &ns);
        all += ns;
        *best = ns < *best ? ns : *best;
        if (c->best_ns && *best / HOPELESS > c->best_ns)
            break;
    }
    return status;
}

/* Whether the variant computes what the preferred one does. */
static bool is_right(contest *c, uint32_t id, clv_status *status)
{
    float *out = id == c->variants->preferred ? c->want : c->out;
    *status = gpu_context_fetch(c->ctx, c->sample.own[c->sample.out], out,
                                c->sample.out_bytes);
    if (*status)
        return false;
    return out == c->want ||
           gpu_result_error(out, c->want, c->sample.out_bytes / 4) <= c->bound;
}

static clv_status try_variant(contest *c, uint32_t id)
{
    clv_plugin_program *program = NULL;
    uint64_t ns = 0;
    bool right = false;
    clv_status status = compile(c, id, &program);
    if (!status)
        status = measure(c, program, &ns);
    if (!status)
        right = is_right(c, id, &status);
    c->t->api->program_destroy(program);
    if (status == CLV_ERR_NO_MEMORY || status == CLV_ERR_DEVICE_LOST)
        return status;
    clv_log(c->t->host, right ? CLV_LOG_DEBUG : CLV_LOG_WARN,
            "%s: tuning %s: variant %u %s, %llu ns", c->t->device,
            c->variants->key, (unsigned)id,
            status  ? "does not run"
            : right ? "runs"
                    : "computes wrongly",
            (unsigned long long)ns);
    if (id == c->variants->preferred)
        c->preferred_ns = ns;
    if (right && (!c->best_ns || ns < c->best_ns)) {
        c->best_ns = ns;
        c->best = id;
    }
    /* Nothing to compare the others with. */
    return status && id == c->variants->preferred ? status : CLV_OK;
}

/* The preferred one first. */
static clv_status try_all(contest *c)
{
    clv_status status = try_variant(c, c->variants->preferred);
    for (uint32_t i = 0; i < c->variants->n && !status; i++)
        if (c->variants->id[i] != c->variants->preferred)
            status = try_variant(c, c->variants->id[i]);
    return status;
}

/* The weights of GEMV come from memory, as in a model that
 * is larger than what the device caches. */
static void get_sweep(contest *c)
{
    const clv_tensor_desc *x = &c->sample.tensors[0];
    if (c->sample.weight_bytes > 1 << 20 && x->dims[0] <= FEW_ROWS &&
        c->t->api->buffer_alloc(c->t->dev, c->ctx->local, SWEEP_BYTES,
                                &c->sweep))
        c->sweep = NULL;
}

static clv_status hold(contest *c, const clv_compile *compile, uint32_t node)
{
    const clv_host_api *host = c->t->host;
    clv_op_caps caps = CLV_INIT(clv_op_caps, CLV_STRUCT_OP_CAPS);
    CLV_TRY(gpu_sample_make(c->ctx, compile, node, &c->sample));
    gpu_caps(c->t->target, &c->sample.graph, &caps, sizeof caps);
    /* Both may differ from the truth by as much, to either side. */
    c->bound = 4 * gpu_result_bound(caps.error_class);
    c->want = clv_new(host, c->sample.out_bytes + 4);
    c->out = clv_new(host, c->sample.out_bytes + 4);
    get_sweep(c);
    return c->want && c->out ? try_all(c) : CLV_ERR_NO_MEMORY;
}

/* The fastest variant of a node; false: it could not be found, or *status. */
static bool find_best(const gpu_tuner *t, const gpu_context *ctx,
                      const clv_compile *compile, uint32_t node,
                      const gpu_variants *variants, uint32_t *id,
                      clv_status *status)
{
    contest *c = clv_new(t->host, sizeof *c);
    *status = c ? CLV_OK : CLV_ERR_NO_MEMORY;
    if (!c)
        return false;
    *c = (contest){.t = t, .ctx = ctx, .variants = variants};
    clv_status held = hold(c, compile, node);
    bool found = !held && c->best_ns;
    *id = c->best;
    if (found)
        clv_log(t->host, CLV_LOG_INFO,
                "%s: tuned %s: variant %u of %u, %llu ns; %llu without tuning",
                t->device, variants->key, (unsigned)*id, (unsigned)variants->n,
                (unsigned long long)c->best_ns,
                (unsigned long long)c->preferred_ns);
    else
        clv_log(t->host, CLV_LOG_INFO, "%s: %s cannot be tuned (status %d)",
                t->device, variants->key, (int)held);
    gpu_sample_free(ctx, &c->sample);
    t->api->buffer_free(c->sweep);
    clv_free(t->host, c->want);
    clv_free(t->host, c->out);
    clv_free(t->host, c);
    if (held == CLV_ERR_DEVICE_LOST)
        *status = held;
    return found;
}

/* ------------------------------------------------------------------------ */
/* The cache                                                                 */

static gpu_entry entry_of(const gpu_tuner *t, const gpu_variants *variants)
{
    return (gpu_entry){t->host, "tune", t->identity, variants->key};
}

static bool recall(const gpu_tuner *t, const gpu_variants *variants,
                   uint32_t *id)
{
    const gpu_entry entry = entry_of(t, variants);
    uint64_t size;
    char *text = gpu_entry_get(&entry, &size);
    bool good = text && gpu_choice_find(text, variants, id);
    clv_free(t->host, text);
    return good;
}

static void remember(const gpu_tuner *t, const gpu_variants *variants,
                     uint32_t id)
{
    const gpu_entry entry = entry_of(t, variants);
    char text[GPU_KEY_SIZE + 32];
    int n = snprintf(text, sizeof text, "%s=%u", variants->key, (unsigned)id);
    gpu_entry_put(&entry, text, (uint64_t)n);
}

/* ------------------------------------------------------------------------ */
/* A graph                                                                   */

static clv_status tune_node(const gpu_tuner *t, const gpu_context *ctx,
                            const clv_compile *compile, uint32_t i,
                            gpu_text *choices)
{
    gpu_variants variants;
    uint32_t id;
    clv_status status = CLV_OK;
    gpu_list_variants(t->target, compile->graph, i, &variants);
    if (!variants.n || gpu_choice_find(choices->data, &variants, &id))
        return CLV_OK;
    bool known = recall(t, &variants, &id);
    if (!known && ctx) {
        known = find_best(t, ctx, compile, i, &variants, &id, &status);
        if (known)
            remember(t, &variants, id);
    }
    if (known)
        gpu_printf(choices, "%s%s=%u", choices->n ? "," : "", variants.key,
                   (unsigned)id);
    return choices->failed ? CLV_ERR_NO_MEMORY : status;
}

static clv_status tune_graph(const gpu_tuner *tuner, const clv_compile *compile,
                             bool measure, char **choices)
{
    gpu_text text = {.host = tuner->host};
    gpu_context ctx;
    measure =
        measure && gpu_context_open(&ctx, tuner->host, tuner->api, tuner->dev);
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < compile->graph->n_nodes && !status; i++)
        status = tune_node(tuner, measure ? &ctx : NULL, compile, i, &text);
    if (status)
        gpu_text_free(&text);
    else
        *choices = text.data;
    return status;
}

clv_status gpu_choose(const gpu_tuner *tuner, const clv_compile *compile,
                      char **choices)
{
    const char *tune = tuner->host->option(tuner->host->host, "tune");
    *choices = NULL;
    if (!tune || !strcmp(tune, "off"))
        return CLV_OK;
    if (!tuner->timed || strcmp(tune, "exhaustive") != 0)
        return tune_graph(tuner, compile, false, choices);
    pthread_mutex_lock(tuner->lock);
    clv_status status = tune_graph(tuner, compile, true, choices);
    pthread_mutex_unlock(tuner->lock);
    return status;
}

clv_status gpu_lower_tuned(const gpu_tuner *tuner, const clv_compile *compile,
                           uint64_t most, gpu_code **out)
{
    gpu_target target = *tuner->target;
    char *choices = NULL;
    if (!compile->options)
        CLV_TRY(gpu_choose(tuner, compile, &choices));
    target.choices = compile->options ? compile->options : choices;
    if (compile->options)
        target.apart = 0; /* so that the two layers of a trial are joined */
    target.n_repacked = gpu_count_repacked(&target, compile->graph, most);
    target.scarce = target.n_repacked < compile->graph->n_nodes;
    clv_status status = gpu_lower(tuner->host, &target, compile->graph, out);
    clv_free(tuner->host, choices);
    return status;
}
