#include "split.h"

#include "choice.h"
#include "chunks.h"

/* Lengths of batches to compare: LLM_SPLIT_BATCH, twice and four times as many,
 * and LLM_SPLIT_UNIT. */
#define LONGEST (LLM_SPLIT_BATCH * 4)
#define MAX_LENGTHS 4
/* And two of them with plans for runs in flight. */
#define MAX_BATCHES (MAX_LENGTHS + 2)
/* Of more chunks in flight the first ones tell how long all take. */
#define MAX_CHUNKS 8
/* What takes more memory has to take less time by this part. */
#define GAIN 0.03
#define GAIN_REAL 0.1    /* in real time */
#define GAIN_SHOWN 0.015 /* the same, where runs showed it */
/* Longer batches run once if they should not take longer by more. */
#define TRIAL 0.1

static const uint32_t flights[] = {1, 2, 4};
#define N_FLIGHTS (sizeof flights / sizeof *flights)

/* A length with its plan. */
typedef struct batch {
    uint32_t length;
    llm_runner *runner;
    bool own; /* not one of the runners */
    bool has_run;
    double alone_ns; /* what the text takes, one batch at a time */
} batch;

typedef struct comparison {
    const llm_splits *s;
    llm_runners *r;
    const llm_split_text *text;
    batch batches[MAX_BATCHES];
    uint32_t n_batches;
    uint32_t n;     /* tokens; where graphs of one length are compared in whole
                       units, if there is room */
    llm_split best; /* so far */
    double least;   /* what it takes, ns */
    uint32_t most;  /* tokens at once of it; 0: it is the plain one */
    bool failed;
} comparison;

uint32_t llm_split_most(const llm_splits *s)
{
    return s->n_batch ? s->n_batch : LONGEST;
}

static bool several_devices(const llm_runners *r)
{
    return r->params.devices ? r->params.n_devices > 1
                             : clv_context_device_count(r->model->ctx) > 1;
}

/* ------------------------------------------------------------------------ */
/* Batches to compare                                                        */

static bool has_length(const llm_runners *r, uint32_t length)
{
    for (uint32_t i = 0; i < r->n_lengths; i++)
        if (r->lengths[i] == length)
            return true;
    return false;
}

static bool can_choose_length(const llm_splits *s, const llm_runners *r,
                              const llm_split_text *text)
{
    return !s->n_batch && !r->params.scarce && !r->params.n_plans &&
           text->n >= LLM_SPLIT_BATCH + !r->fixed;
}

/* Where devices take any length, a batch twice as long as the text is for a
 * longer one. */
static bool is_of_use(const comparison *c, uint32_t length)
{
    return c->r->fixed ? has_length(c->r, length) && c->n >= length
                       : c->text->n > length / 2;
}

static bool is_for_flight(const batch *b)
{
    return b->runner->shape.flight;
}

static bool is_chosen(const comparison *c, const batch *b,
                      const llm_split *split)
{
    return split && b->length == split->length &&
           is_for_flight(b) == split->planned &&
           (c->text->n >= b->length || !c->r->fixed);
}

/* The plan that the text begins with is kept, and those of graphs that other
 * texts use, too. split NULL: none is. */
static void finish(comparison *c, const llm_split *split)
{
    for (uint32_t i = 0; i < c->n_batches; i++) {
        const batch *b = &c->batches[i];
        if (!b->own)
            continue;
        if (is_chosen(c, b, split) || (split && !c->r->fixed))
            llm_runners_keep(c->r, b->runner);
        else
            llm_runner_destroy(b->runner);
    }
}

/* Whether devices hold all weights beside the values of so many batches; those
 * that work alone, all that the plan uses. The plain way is taken as it is. */
static bool leaves_room(const comparison *c, const batch *b, uint32_t n_flight)
{
    const clv_plan *plan = b->runner->plan;
    const bool alone = clv_plan_summarise(plan).n_devices == 1;
    const uint64_t size = clv_model_describe(c->r->model)->size;
    clv_device *dev;
    if ((uint64_t)b->length * n_flight <= LLM_SPLIT_BATCH)
        return true;
    for (uint32_t i = 0; (dev = clv_plan_device(plan, i)); i++) {
        const clv_memory_use use = clv_plans_memory(&plan, 1, NULL, dev);
        const uint64_t weights = alone ? use.weights : size;
        if (use.budget &&
            weights + use.states + use.values * n_flight > use.budget)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------ */
/* Comparison                                                                */

/* Of n runs of so many tokens. */
static double time_of(comparison *c, const batch *b, uint32_t n,
                      uint32_t length, uint32_t n_flight, uint32_t position)
{
    const uint32_t some = n < MAX_CHUNKS ? n : MAX_CHUNKS;
    const llm_chunks chunks = {.n = some,
                               .length = length,
                               .position = position,
                               .n_flight = n_flight,
                               .far = c->text->far};
    clv_prediction prediction;
    if (!n)
        return 0;
    if (llm_chunks_predict(b->runner, &chunks, &prediction)) {
        c->failed = true;
        return 0;
    }
    return prediction.ns * n / some;
}

/* The shortest that holds so much, or the batch itself. */
static const batch *batch_for(const comparison *c, const batch *b,
                              uint32_t rest)
{
    const batch *best = b;
    for (uint32_t i = 0; i < c->n_batches; i++)
        if (c->batches[i].length >= rest &&
            c->batches[i].length < best->length &&
            !is_for_flight(&c->batches[i]))
            best = &c->batches[i];
    return best;
}

/* Whole batches in flight, and then what is left. */
static double time_of_text(comparison *c, const batch *b, uint32_t n_flight)
{
    const uint32_t whole = c->text->n / b->length;
    const uint32_t rest =
        c->n > whole * b->length ? c->n - whole * b->length : 0;
    const uint32_t position = c->text->position;
    double ns = time_of(c, b, whole, b->length, n_flight, position);
    if (rest) {
        const batch *last = batch_for(c, b, rest);
        const uint32_t length = c->r->fixed ? last->length : rest;
        const uint32_t at = position + whole * b->length;
        const uint32_t most = c->text->n_ctx - length;
        ns += time_of(c, last, 1, length, 1, at < most ? at : most);
    }
    return ns;
}

/* Whether the best way has this plan, and several batches in flight. */
static bool flies_best(const comparison *c, const batch *b)
{
    return c->best.n_flight > 1 && c->best.length == b->length &&
           c->best.planned == is_for_flight(b);
}

/* What another way than the best so far has to gain. What runs of the plain one
 * took is compared with what runs of others take, not with what models say. */
static double gain_of(const comparison *c, const batch *b, uint32_t n_flight)
{
    if (!llm_runner_is_real(b->runner) || flies_best(c, b))
        return GAIN;
    if (n_flight > 1 || c->r->fixed || !c->batches[0].has_run)
        return GAIN_REAL;
    return b->has_run ? GAIN_SHOWN : -TRIAL;
}

/* What takes less memory than the best so far need not gain anything, unless
 * that is the plain way, or is the first to take a plan for runs in flight. */
static void consider(comparison *c, const batch *b)
{
    const llm_splits *s = c->s;
    const bool flies = clv_plan_summarise(b->runner->plan).n_devices > 1;
    if (!(c->best.plain_ns > 0))
        c->least = c->best.plain_ns = time_of_text(c, b, c->best.n_flight);
    for (uint32_t f = 0; f < (s->n_flight ? 1 : N_FLIGHTS); f++) {
        const uint32_t n_flight = s->n_flight ? s->n_flight : flights[f];
        if (n_flight > 1 && !s->n_flight &&
            (!flies || n_flight > c->text->n / b->length))
            continue;
        if ((n_flight == 1 && is_for_flight(b)) || !leaves_room(c, b, n_flight))
            continue;
        const double gain = gain_of(c, b, n_flight);
        const uint32_t tokens = b->length * n_flight;
        const double ns = time_of_text(c, b, n_flight);
        const bool has_to_gain =
            tokens > c->most || (is_for_flight(b) && !c->best.planned);
        if (ns >= c->least * (has_to_gain ? 1 - gain : 1))
            continue;
        c->least = ns;
        c->most = tokens;
        c->best.length = b->length;
        c->best.n_flight = n_flight;
        c->best.planned = is_for_flight(b);
    }
}

/* Costs that the plan was not made by. In real time runs will tell. */
static clv_status measure(const comparison *c, const batch *b)
{
    const llm_runner_params *p = &c->r->params;
    if (clv_plan_summarise(b->runner->plan).predicted_ns > 0 ||
        llm_runner_is_real(b->runner))
        return CLV_OK;
    return clv_profile_graph(c->r->model->ctx, b->runner->graph,
                             &(clv_profile_params){.devices = p->devices,
                                                   .n_devices = p->n_devices,
                                                   .brief = true});
}

static bool has_run(const comparison *c, const batch *b)
{
    const uint32_t n = b->length < c->text->n ? b->length : c->text->n;
    int64_t symbols[LLM_SYMBOLS];
    clv_prediction prediction;
    const uint32_t n_symbols =
        llm_runner_symbols(b->runner, n, c->text->position, symbols);
    return !clv_plan_predict(b->runner->plan, symbols, n_symbols,
                             &prediction) &&
           prediction.has_run;
}

/* With a plan of its own, which is kept until all are compared. */
static clv_status consider_length(comparison *c, uint32_t length, bool flight)
{
    const llm_split_text *t = c->text;
    const llm_request request = {.n = length,
                                 .n_free = t->n_ctx - t->position,
                                 .prepare = true,
                                 .flight = flight};
    batch *b = &c->batches[c->n_batches];
    CLV_TRY(llm_choice_make(c->r, &request, &b->runner));
    b->length = length;
    b->own = !llm_runners_hold(c->r, b->runner);
    c->n_batches++;
    CLV_TRY(measure(c, b));
    b->has_run = has_run(c, b);
    b->alone_ns = time_of_text(c, b, 1);
    consider(c, b);
    return CLV_OK;
}

/* Whether devices are so much faster together than the plan is. */
static bool may_gain(const batch *b)
{
    const clv_plan_summary s = clv_plan_summarise(b->runner->plan);
    const double gain = llm_runner_is_real(b->runner) ? GAIN_REAL : GAIN;
    return s.together_ns > 0 && s.together_ns < s.predicted_ns * (1 - gain);
}

/* A plan for several runs, in batches of this length. */
static clv_status consider_flight(comparison *c, uint32_t length)
{
    const llm_runner_params *p = &c->r->params;
    bool gains = false;
    for (uint32_t i = 0; i < c->n_batches; i++)
        gains |= c->batches[i].length == length && may_gain(&c->batches[i]);
    if (!gains || p->scarce || p->n_plans || c->s->n_flight == 1 ||
        c->text->n < 2 * length)
        return CLV_OK;
    return consider_length(c, length, true);
}

/* One for which there is no room is none. */
static clv_status try_length(comparison *c, uint32_t length)
{
    const clv_status status = consider_length(c, length, false);
    return status == CLV_ERR_LIMIT || status == CLV_ERR_NO_MEMORY ? CLV_OK
                                                                  : status;
}

/* The longest ones first. If they are faster, shorter ones are not, and if they
 * gain nothing by themselves, shorter ones do not, either. */
static clv_status compare_longer(comparison *c)
{
    const uint32_t n_ctx = c->text->n_ctx;
    for (uint32_t n = LONGEST; n > LLM_SPLIT_BATCH; n /= 2) {
        if (!is_of_use(c, n))
            continue;
        CLV_TRY(try_length(c, n < n_ctx ? n : n_ctx));
        const batch *last = &c->batches[c->n_batches - 1];
        const double gain =
            llm_runner_is_real(last->runner) ? GAIN_SHOWN : GAIN;
        if (c->best.length > LLM_SPLIT_BATCH ||
            (last->length > LLM_SPLIT_BATCH &&
             last->alone_ns >= c->batches[0].alone_ns * (1 - gain)))
            break;
    }
    return CLV_OK;
}

/* What a text in graphs of one length is padded to. */
static clv_status set_units(comparison *c)
{
    const llm_split_text *t = c->text;
    const llm_request any = {.n = LLM_SPLIT_BATCH,
                             .n_free = t->n_ctx - t->position};
    llm_shape shapes[LLM_MAX_TRIED];
    uint32_t n;
    c->n = (t->n + LLM_SPLIT_UNIT - 1) / LLM_SPLIT_UNIT * LLM_SPLIT_UNIT;
    c->n = c->n < any.n_free ? c->n : any.n_free;
    return llm_choice_shapes(c->r, &any, shapes, &n);
}

static clv_status compare_lengths(comparison *c)
{
    c->n = c->text->n;
    if (c->r->fixed)
        CLV_TRY(set_units(c));
    CLV_TRY(consider_length(c, LLM_SPLIT_BATCH, false));
    CLV_TRY(compare_longer(c));
    if (c->best.length <= LLM_SPLIT_BATCH && has_length(c->r, LLM_SPLIT_UNIT))
        CLV_TRY(consider_length(c, LLM_SPLIT_UNIT, false));
    const uint32_t best = c->best.length;
    CLV_TRY(consider_flight(c, best));
    /* Of a few long ones, devices wait longer for the first and the last. */
    return best > LLM_SPLIT_BATCH ? consider_flight(c, LLM_SPLIT_BATCH)
                                  : CLV_OK;
}

/* With the runner that the text needs in any case. */
static clv_status compare_flights(comparison *c)
{
    const llm_split_text *t = c->text;
    const llm_request request = {.n = c->best.length,
                                 .n_free = t->n_ctx - t->position};
    batch *b = &c->batches[0];
    c->n = t->n / request.n * request.n;
    CLV_TRY(llm_runners_get(c->r, &request, &b->runner));
    b->length = request.n;
    c->n_batches = 1;
    if (clv_plan_summarise(b->runner->plan).n_devices < 2 && !may_gain(b))
        return CLV_OK;
    consider(c, b);
    return consider_flight(c, c->best.length);
}

/* Compiles what batches longer than usual need. If memory does not suffice, the
 * plain way is taken. */
static clv_status make_sure(comparison *c, llm_split *split)
{
    const llm_split_text *t = c->text;
    const llm_request request = {.n = split->length,
                                 .n_free = t->n_ctx - t->position,
                                 .flight = split->planned};
    llm_runner *runner;
    if (c->r->fixed || split->length <= c->r->n_batch)
        return CLV_OK;
    const clv_status status = llm_runners_get(c->r, &request, &runner);
    if (status != CLV_ERR_LIMIT && status != CLV_ERR_NO_MEMORY)
        return status;
    clv_log(c->r->model->ctx, CLV_LOG_INFO, "no batches of %u tokens: %s",
            split->length, clv_last_error());
    *split = llm_split_plain(c->s);
    return CLV_OK;
}

clv_status llm_split_choose(llm_splits *s, llm_runners *r,
                            const llm_split_text *text, llm_split *out)
{
    comparison c = {.s = s, .r = r, .text = text, .best = llm_split_plain(s)};
    *out = c.best;
    const bool lengths = can_choose_length(s, r, text);
    const bool several =
        s->n_flight != 1 && several_devices(r) && text->n >= 2 * out->length;
    if (!lengths && !several)
        return CLV_OK;
    if (llm_split_find(s, text, out))
        return CLV_OK;
    const clv_status status =
        lengths ? compare_lengths(&c) : compare_flights(&c);
    if (!status && !c.failed)
        *out = c.best;
    /* The plain way, once it has run, may lead to trials of others. */
    const bool unsure = !r->fixed && lengths && c.n_batches &&
                        llm_runner_is_real(c.batches[0].runner) &&
                        !c.batches[0].has_run &&
                        out->length == c.batches[0].length;
    finish(&c, status ? NULL : out);
    if (status)
        return status;
    CLV_TRY(make_sure(&c, out));
    if (!unsure)
        llm_split_keep(s, text, out);
    clv_log(r->model->ctx, CLV_LOG_INFO,
            "%u tokens run in batches of %u, %u in flight%s", text->n,
            out->length, out->n_flight,
            out->planned ? ", with a plan for that" : "");
    return CLV_OK;
}
