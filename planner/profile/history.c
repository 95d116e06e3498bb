#include "history.h"

#include "../../core/base/cache.h"
#include "../../core/base/error.h"
#include "../../core/context/context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY "runs of plans, format 1"
#define MOST 512 /* records */

/* Runs are alike if each symbol is in the same of so many classes from a power
 * of two to the next. */
#define CLASSES 8

void planner_history_begin(planner_history *history)
{
    pthread_mutex_init(&history->lock, NULL);
}

static int64_t class_of(int64_t symbol)
{
    return (int64_t)floor(CLASSES * log2((double)(symbol > 1 ? symbol : 1)));
}

static bool is_same(const planner_past *a, const planner_past *b)
{
    bool same = a->plan == b->plan && a->n_symbols == b->n_symbols;
    for (uint32_t i = 0; i < a->n_symbols && same; i++)
        same = class_of(a->symbols[i]) == class_of(b->symbols[i]);
    return same;
}

static planner_past *find_same(const planner_history *history,
                               const planner_past *run)
{
    for (uint32_t i = history->n; i-- > 0;)
        if (is_same(&history->items[i], run))
            return &history->items[i];
    return NULL;
}

/* As the latest one; the oldest one goes. */
static planner_past *append(planner_history *history, const planner_past *past)
{
    if (history->n == history->capacity) {
        planner_past *grown = reallocarray(history->items, MOST, sizeof *grown);
        if (!grown)
            return NULL;
        history->items = grown;
        history->capacity = MOST;
    }
    if (history->n == MOST)
        memmove(history->items, history->items + 1,
                --history->n * sizeof *history->items);
    history->items[history->n] = *past;
    return &history->items[history->n++];
}

/* Records that another process may have written are not trusted. */
static bool is_valid(const planner_past *past)
{
    bool valid = past->runs && past->n_symbols <= PLANNER_PAST_SYMBOLS;
    for (uint32_t i = 0; i < PLANNER_PAST_TIMES && i < past->runs; i++)
        valid = valid && past->ns[i] > 0 && isfinite(past->ns[i]);
    return valid;
}

/* Takes what the file has and memory has not. */
static void load(planner_history *history, const clv_context *ctx)
{
    char *dir = core_context_cache(ctx, "runs");
    void *data = NULL;
    uint64_t size = 0;
    if (dir && !core_cache_get(dir, KEY, &data, &size) &&
        size % sizeof(planner_past) == 0) {
        const planner_past *items = data;
        for (uint64_t i = 0; i < size / sizeof *items; i++)
            if (is_valid(&items[i]) && !find_same(history, &items[i]))
                append(history, &items[i]);
    }
    free(data);
    free(dir);
    history->loaded = true;
}

static void load_once(planner_history *history, const clv_context *ctx)
{
    if (!history->loaded)
        load(history, ctx);
}

void planner_history_save(planner_history *history, clv_context *ctx)
{
    pthread_mutex_lock(&history->lock);
    char *dir = history->changed ? core_context_cache(ctx, "runs") : NULL;
    if (dir) {
        planner_history all = {.n = 0};
        load(&all, ctx); /* what other processes wrote meanwhile */
        for (uint32_t i = 0; i < history->n; i++) {
            planner_past *other = find_same(&all, &history->items[i]);
            if (other)
                *other = history->items[i];
            else
                append(&all, &history->items[i]);
        }
        if (core_cache_put(dir, KEY, all.items, all.n * sizeof *all.items))
            clv_log(ctx, CLV_LOG_WARN, "times of runs are not kept: %s",
                    clv_last_error());
        free(all.items);
        history->changed = false;
    }
    free(dir);
    pthread_mutex_unlock(&history->lock);
}

void planner_history_finish(planner_history *history, clv_context *ctx)
{
    planner_history_save(history, ctx);
    pthread_mutex_destroy(&history->lock);
    free(history->items);
}

clv_status planner_history_add(planner_history *history, clv_context *ctx,
                               const planner_past *run, double ns)
{
    pthread_mutex_lock(&history->lock);
    load_once(history, ctx);
    planner_past *past = find_same(history, run);
    if (!past)
        past = append(history, run);
    if (past) {
        memcpy(past->symbols, run->symbols, sizeof past->symbols);
        past->ns[past->runs++ % PLANNER_PAST_TIMES] = ns;
        history->changed = true;
    }
    pthread_mutex_unlock(&history->lock);
    return past ? CLV_OK : core_no_memory("for the times of runs");
}

uint32_t planner_history_runs(planner_history *history, const clv_context *ctx,
                              const planner_past *run)
{
    pthread_mutex_lock(&history->lock);
    load_once(history, ctx);
    const planner_past *past = find_same(history, run);
    const uint32_t runs = past ? past->runs : 0;
    pthread_mutex_unlock(&history->lock);
    return runs;
}

/* Of ratios of symbols. */
static double distance(const planner_past *past, const int64_t *symbols)
{
    double sum = 0;
    for (uint32_t i = 0; i < past->n_symbols; i++)
        sum += fabs(log((double)symbols[i] / (double)past->symbols[i]));
    return sum;
}

/* The plan's runs whose symbols are nearest; NULL: it has not run. */
static const planner_past *nearest(const planner_history *history,
                                   uint64_t plan, const int64_t *symbols,
                                   uint32_t n_symbols)
{
    const planner_past *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < history->n; i++) {
        const planner_past *past = &history->items[i];
        if (past->plan != plan || past->n_symbols != n_symbols ||
            !(distance(past, symbols) <= least))
            continue;
        least = distance(past, symbols);
        best = past;
    }
    return best;
}

bool planner_history_find(planner_history *history, clv_context *ctx,
                          uint64_t plan, const int64_t *symbols,
                          uint32_t n_symbols, planner_past *out)
{
    pthread_mutex_lock(&history->lock);
    load_once(history, ctx);
    const planner_past *past = nearest(history, plan, symbols, n_symbols);
    if (past)
        *out = *past;
    pthread_mutex_unlock(&history->lock);
    return past;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double planner_past_median(const planner_past *past)
{
    double ns[PLANNER_PAST_TIMES];
    const uint32_t n =
        past->runs < PLANNER_PAST_TIMES ? past->runs : PLANNER_PAST_TIMES;
    memcpy(ns, past->ns, sizeof ns);
    qsort(ns, n, sizeof *ns, compare);
    return n ? ns[n / 2] : 0;
}

/* Of the problem's plans each one once: whether this is its first item. */
static bool is_first(const planner_history *history, uint32_t i,
                     uint64_t problem)
{
    for (uint32_t j = 0; j < i; j++)
        if (history->items[j].plan == history->items[i].plan)
            return false;
    return history->items[i].problem == problem;
}

/* The plan of the i-th item, if it is the first one of the problem's: its
 * median. Else 0. */
static double median_at(const planner_history *history, uint32_t i,
                        const planner_past *run)
{
    if (!is_first(history, i, run->problem))
        return 0;
    const planner_past *past =
        nearest(history, history->items[i].plan, run->symbols, run->n_symbols);
    return past ? planner_past_median(past) : 0;
}

void planner_history_count(planner_history *history, clv_context *ctx,
                           const planner_past *run, double worse,
                           uint32_t *n_plans, uint32_t *n_worse)
{
    double least = INFINITY;
    *n_plans = *n_worse = 0;
    pthread_mutex_lock(&history->lock);
    load_once(history, ctx);
    for (uint32_t i = 0; i < history->n; i++) {
        const double ns = median_at(history, i, run);
        least = ns > 0 ? fmin(least, ns) : least;
        *n_plans += ns > 0;
    }
    for (uint32_t i = 0; i < history->n; i++)
        *n_worse += median_at(history, i, run) > worse * least;
    pthread_mutex_unlock(&history->lock);
}
