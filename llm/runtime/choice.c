#include "choice.h"

#include "../base/str.h"

#include <stdlib.h>

/* A runner is used without planning if it pads by no more than 1 / this. */
#define NEAR 16

/* ------------------------------------------------------------------------ */
/* Lengths                                                                  */

/* Asks for the lengths of the devices, once. */
static clv_status ask_lengths(llm_runners *r, const clv_graph *graph)
{
    const clv_plan_params devices = {.devices = r->params.devices,
                                     .n_devices = r->params.n_devices};
    clv_context *ctx = r->model->ctx;
    uint32_t n = 0;
    CLV_TRY(clv_graph_lengths(ctx, graph, &devices, NULL, &n));
    int64_t *lengths = calloc(n + 1, sizeof *lengths);
    if (!lengths)
        return llm_no_memory("lengths");
    uint32_t again = n;
    clv_status status =
        clv_graph_lengths(ctx, graph, &devices, lengths, &again);
    if (status) {
        free(lengths);
        return status;
    }
    r->lengths = lengths;
    r->n_lengths = again < n ? again : n;
    return CLV_OK;
}

static llm_shape fixed_shape(const llm_request *q, uint32_t n)
{
    return (llm_shape){.n_tokens = n,
                       .fixed = true,
                       .all_logits = q->all_logits,
                       .apart = q->apart,
                       .flight = q->flight};
}

static clv_status find_lengths(llm_runners *r, const llm_request *q)
{
    const llm_shape shape = fixed_shape(q, q->n);
    llm_runner *runner;
    if (r->lengths || !r->fixed)
        return CLV_OK;
    CLV_TRY(llm_runner_create(r->model, r->cache, &shape, &runner));
    clv_status status = ask_lengths(r, runner->graph);
    llm_runner_destroy(runner);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Choices                                                                  */

static llm_choice *find_choice(llm_runners *r, const llm_request *q)
{
    for (uint32_t i = 0; i < r->n_choices && i < LLM_MAX_CHOICES; i++)
        if (r->choices[i].n == q->n &&
            r->choices[i].all_logits == q->all_logits &&
            r->choices[i].apart == q->apart &&
            r->choices[i].flight == q->flight)
            return &r->choices[i];
    return NULL;
}

static void note_choice(llm_runners *r, const llm_request *q,
                        const llm_shape *shape, double waste_ns)
{
    llm_choice *choice = find_choice(r, q);
    if (!choice)
        choice = &r->choices[r->n_choices++ % LLM_MAX_CHOICES];
    *choice = (llm_choice){.n = q->n,
                           .all_logits = q->all_logits,
                           .apart = q->apart,
                           .flight = q->flight,
                           .prepared = q->prepare,
                           .shape = *shape,
                           .waste_ns = waste_ns,
                           .wasted_ns = waste_ns};
}

/* The choice of last time for n tokens, if it is still valid. */
static bool choose_again(llm_runners *r, const llm_request *q, llm_shape *out)
{
    llm_choice *choice = find_choice(r, q);
    if (!choice || (q->prepare && !choice->prepared) ||
        (choice->shape.fixed && choice->shape.n_tokens > q->n_free))
        return false;
    if (choice->waste_ns > 0) {
        if (!llm_runners_find(r, &choice->shape) ||
            choice->wasted_ns >= r->compile_ns)
            return false;
        choice->wasted_ns += choice->waste_ns;
    }
    *out = choice->shape;
    return true;
}

static bool may_serve(const llm_runner *runner, const llm_request *q)
{
    return runner->shape.fixed && runner->shape.all_logits == q->all_logits &&
           runner->shape.apart == q->apart &&
           runner->shape.flight == q->flight &&
           runner->shape.n_tokens >= q->n &&
           runner->shape.n_tokens <= q->n_free;
}

/* The shortest runner that pads little. */
static llm_runner *find_near(const llm_runners *r, const llm_request *q)
{
    llm_runner *best = NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        llm_runner *runner = r->items[i];
        if (may_serve(runner, q) &&
            runner->shape.n_tokens - q->n <= q->n / NEAR &&
            (!best || runner->shape.n_tokens < best->shape.n_tokens))
            best = runner;
    }
    return best;
}

/* The existing runner that takes the least time, if compiling the planned one
 * costs more than it gains. */
static llm_runner *find_cheaper(llm_runners *r, const llm_request *q,
                                const llm_runner *planned)
{
    const llm_choice *choice = find_choice(r, q);
    const double best_ns = llm_runner_predicted(planned);
    llm_runner *best = NULL;
    double least = best_ns + r->compile_ns;
    if (best_ns <= 0 || (choice && choice->waste_ns > 0))
        return NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        const double ns = llm_runner_predicted(r->items[i]);
        if (may_serve(r->items[i], q) && ns > 0 && ns < least) {
            best = r->items[i];
            least = ns;
        }
    }
    return best;
}

/* ------------------------------------------------------------------------ */
/* Planning                                                                 */

/* Graphs are for batches of up to so many tokens, of NEXT_LENGTH times as many,
 * and so on, and of n_batch, unless fewer than twice as many as before. They do
 * not go down from n_batch: devices compute few rows, as one token each of up
 * to LEAST_LENGTH texts, by other programs than more. */
#define NEXT_LENGTH 4
#define LEAST_LENGTH 8

uint32_t llm_choice_length(const llm_runners *r, const llm_request *q)
{
    const uint32_t most =
        q->all_logits && q->n <= r->n_rows ? r->n_rows : r->n_batch;
    uint32_t n = LEAST_LENGTH;
    while (n < q->n && n <= most / 2)
        n *= NEXT_LENGTH;
    if (q->n == 1)
        return 1;
    return r->params.n_plans || n > most / 2 ? most : n;
}

/* Of batches that are longer than usual: the shortest graph that is there, or
 * else one of twice as many tokens, or of four times, and so on. */
static uint32_t longer_length(const llm_runners *r, const llm_request *q)
{
    const uint32_t n_ctx = r->cache->n_ctx;
    uint32_t best = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const llm_shape *shape = &r->items[i]->shape;
        if (!shape->fixed && shape->all_logits == q->all_logits &&
            shape->apart == q->apart && shape->flight == q->flight &&
            shape->n_tokens >= q->n && (!best || shape->n_tokens < best))
            best = shape->n_tokens;
    }
    if (best)
        return best;
    for (best = r->n_batch; best < q->n;)
        best *= 2;
    return best < n_ctx ? best : n_ctx;
}

/* The graph for batches of all lengths. */
static llm_shape open_shape(const llm_runners *r, const llm_request *q)
{
    const uint32_t n =
        q->n > r->n_batch ? longer_length(r, q) : llm_choice_length(r, q);
    return (llm_shape){.n_tokens = n,
                       .fixed = n == 1,
                       .all_logits = q->all_logits,
                       .apart = q->apart,
                       .flight = q->flight};
}

static clv_status make_graph(const llm_runners *r, const llm_shape *shape,
                             llm_runner **out)
{
    *out = NULL;
    return llm_runner_create(r->model, r->cache, shape, out);
}

clv_status llm_choice_weigh(const llm_runners *r, const llm_request *q,
                            const clv_device *dev, uint64_t bytes, double *ns)
{
    const llm_shape shape = r->fixed ? fixed_shape(q, q->n) : open_shape(r, q);
    llm_runner *runner;
    CLV_TRY(make_graph(r, &shape, &runner));
    clv_status status = llm_runner_weigh(runner, &r->params, dev, bytes, ns);
    llm_runner_destroy(runner);
    return status;
}

static clv_status make_planned(const llm_runners *r, const llm_shape *shape,
                               llm_runner **out)
{
    clv_status status = make_graph(r, shape, out);
    if (!status)
        status = llm_runner_plan(*out, &r->params);
    if (status) {
        llm_runner_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* The existing runner, or a new one. */
static clv_status obtain(const llm_runners *r, const llm_shape *shape,
                         llm_runner **out)
{
    *out = llm_runners_find(r, shape);
    return *out ? CLV_OK : make_planned(r, shape, out);
}

clv_status llm_choice_shapes(llm_runners *r, const llm_request *q,
                             llm_shape shapes[LLM_MAX_TRIED], uint32_t *n)
{
    uint32_t tried[LLM_MAX_TRIED];
    CLV_TRY(find_lengths(r, q));
    *n = llm_lengths_to_try(r->lengths, r->n_lengths, q->n, q->n_free, tried);
    for (uint32_t i = 0; i < *n; i++)
        shapes[i] = fixed_shape(q, tried[i]);
    return CLV_OK;
}

/* The runner of a shape that a saved plan was made for; *out is NULL if there
 * is none. */
static clv_status find_saved(llm_runners *r, const llm_request *q,
                             const llm_shape *shapes, uint32_t n,
                             llm_runner **out)
{
    const llm_shape open = open_shape(r, q);
    const llm_shape *wanted = r->fixed ? shapes : &open;
    for (uint32_t i = 0; i <= n; i++) {
        const llm_shape *shape = i < n ? &shapes[i] : &open;
        clv_status status = make_graph(r, shape, out);
        if (status)
            return status;
        const bool saved = llm_runner_is_saved(*out, &r->params);
        llm_runner_destroy(*out);
        *out = NULL;
        if (saved)
            return obtain(r, shape, out);
    }
    clv_log(r->model->ctx, CLV_LOG_WARN,
            "no saved plan was made for runs of %s%u token%s over this model "
            "and context; new plans are made",
            wanted->fixed ? "" : "up to ", wanted->n_tokens,
            wanted->n_tokens > 1 ? "s" : "");
    return CLV_OK;
}

/* The plan of the least predicted time, or the first that can be made. */
static clv_status plan_best(llm_runners *r, const llm_shape *shapes, uint32_t n,
                            llm_runner **out)
{
    llm_runner *best = NULL, *next;
    for (uint32_t i = 0; i < n; i++) {
        if (make_planned(r, &shapes[i], &next))
            continue;
        const double ns = llm_runner_predicted(next);
        if (!best || (ns > 0 && ns < llm_runner_predicted(best))) {
            llm_runner_destroy(best);
            best = next;
        } else {
            llm_runner_destroy(next);
        }
        if (llm_runner_predicted(best) <= 0)
            break; /* no predictions to compare */
    }
    *out = best;
    return best ? CLV_OK : make_planned(r, &shapes[0], out); /* its error */
}

/* A runner of the best plan, or an existing one that costs less than compiling
 * it. */
static clv_status choose_fixed(llm_runners *r, const llm_request *q,
                               const llm_shape *shapes, uint32_t n,
                               llm_runner **out)
{
    llm_runner *planned;
    CLV_TRY(plan_best(r, shapes, n, &planned));
    llm_runner *there = llm_runners_find(r, &planned->shape);
    double waste_ns = 0;
    if (!there && !q->prepare) {
        there = find_cheaper(r, q, planned);
        if (there)
            waste_ns =
                llm_runner_predicted(there) - llm_runner_predicted(planned);
    }
    if (there)
        llm_runner_destroy(planned);
    *out = there ? there : planned;
    note_choice(r, q, &(*out)->shape, waste_ns);
    return CLV_OK;
}

clv_status llm_choice_make(llm_runners *r, const llm_request *q,
                           llm_runner **out)
{
    llm_shape shape, shapes[LLM_MAX_TRIED];
    uint32_t n = 0;
    *out = NULL;
    if (choose_again(r, q, &shape))
        return obtain(r, &shape, out);
    shape = open_shape(r, q);
    if (!r->fixed && !r->params.n_plans)
        return obtain(r, &shape, out);
    if (!q->prepare && !r->params.n_plans && (*out = find_near(r, q)))
        return CLV_OK;
    CLV_TRY(llm_choice_shapes(r, q, shapes, &n));
    if (r->params.n_plans)
        CLV_TRY(find_saved(r, q, shapes, n, out));
    if (!*out && r->fixed)
        return choose_fixed(r, q, shapes, n, out);
    if (!*out)
        CLV_TRY(obtain(r, &shape, out));
    note_choice(r, q, &(*out)->shape, 0);
    return CLV_OK;
}
