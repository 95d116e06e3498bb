#include "plan_cache.h"

#include "../core/base/cache.h"
#include "../core/base/error.h"
#include "../core/base/hash.h"
#include "../core/base/names.h"
#include "../core/config/config.h"
#include "../core/plan/held.h"
#include "candidates/room.h"
#include "learn.h"
#include "planner.h"
#include "planner_build_id.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bits of a device's memory that a question keeps. */
#define ROOM_BITS 6

/* A plan is searched for again if its forecast is this far from what it was,
 * or if runs made it so much slower than was expected. */
#define CHANGED 0.05
#define SLOWER 0.1

/* Bytes of plans that were searched for. */
#define MOST_BYTES (UINT64_C(64) << 20)

/* ------------------------------------------------------------------------ */
/* The question                                                             */

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = core_hash(*hash, &value, sizeof value);
}

static void mix_text(uint64_t *hash, const char *text)
{
    *hash = core_hash(*hash, text, strlen(text) + 1);
}

typedef struct settings {
    const clv_config *config;
    uint64_t hash;
} settings;

/* Of the core's keys all but those that no plan depends on. */
static void mix_setting(void *ctx, const char *section, const clv_option *o)
{
    settings *s = ctx;
    if (strcmp(section, "core") || !strcmp(o->key, "log_level") ||
        !strcmp(o->key, "cache_dir"))
        return;
    char *key = core_format("core.%s", o->key);
    const char *value = key ? clv_config_get(s->config, key) : NULL;
    mix_text(&s->hash, o->key);
    mix_text(&s->hash, value ? value : "");
    free(key);
}

static uint64_t rounded(uint64_t bytes)
{
    uint32_t bits = 0;
    while (bits < 64 && bytes >> bits)
        bits++;
    return bits > ROOM_BITS ? bytes >> (bits - ROOM_BITS) << (bits - ROOM_BITS)
                            : bytes;
}

/* Of a weight's parts that the device holds, in any order: copies that are
 * there, and those that the plan before will bring there. */
static uint64_t held_of(const core_plan_device *of, clv_tensor *weight)
{
    uint64_t sum = 0;
    core_runs range;
    for (uint32_t i = 0; core_held_at(of, weight, i, &range); i++) {
        uint64_t hash = CORE_HASH_SEED;
        mix(&hash, range.offset);
        mix(&hash, range.bytes);
        mix(&hash, range.pitch);
        mix(&hash, range.n);
        sum += hash;
    }
    return sum;
}

static void mix_held(uint64_t *hash, const clv_graph *graph,
                     const core_plan_device *of)
{
    for (uint32_t v = 0; v < graph->n_tensors; v++)
        if (graph->values[v].weight)
            mix(hash, held_of(of, graph->values[v].weight));
}

static void mix_device(uint64_t *hash, const clv_graph *graph,
                       const core_plan_device *of)
{
    const double share = core_device_max_share(of->dev);
    const bool scarce = planner_is_scarce(graph, of);
    *hash = core_hash(*hash, &share, sizeof share);
    mix(hash, scarce);
    if (!scarce)
        return;
    mix(hash, rounded(of->room));
    mix(hash, of->given);
    mix(hash, of->states);
    mix(hash, of->reserve);
    mix(hash, of->reserve_values);
    mix_held(hash, graph, of);
}

uint64_t planner_question(const clv_plan *plan, planner_strategy strategy)
{
    settings s = {plan->ctx->config, CORE_HASH_SEED};
    mix_text(&s.hash, BUILD_ID);
    core_config_each(s.config, mix_setting, &s);
    mix(&s.hash, strategy);
    mix(&s.hash, planner_problem_of(plan));
    mix(&s.hash, plan->flight.n);
    for (uint32_t i = 0;
         plan->flight.symbols && i < plan->flight.n * plan->source->n_symbols;
         i++)
        mix(&s.hash, (uint64_t)plan->flight.symbols[i]);
    for (uint32_t d = 0; d < plan->n_devices; d++)
        mix_device(&s.hash, plan->source, &plan->devices[d]);
    return s.hash ? s.hash : 1;
}

/* ------------------------------------------------------------------------ */
/* Entries                                                                  */

/* In the cache: this, then core_plan_decisions_json(). */
typedef struct entry {
    uint64_t identity;
    double forecast_ns, expected_ns, together_ns; /* when it was kept */
} entry;

typedef struct place {
    char *dir, *key; /* finish_place() frees them */
} place;

/* False: there is no cache, or no memory. */
static bool find_place(const clv_context *ctx, const char *folder,
                       const char *what, uint64_t hash, place *out)
{
    out->dir = core_context_cache(ctx, folder);
    out->key = core_format("%s %016" PRIx64 ", format 2", what, hash);
    return out->dir && out->key;
}

static bool place_of_best(const clv_context *ctx, uint64_t problem, place *out)
{
    return find_place(ctx, "runs", "best plan of", problem, out);
}

static bool place_of_found(const clv_context *ctx, uint64_t question,
                           place *out)
{
    return find_place(ctx, "plans", "plan for", question, out);
}

static void finish_place(place *p)
{
    free(p->dir);
    free(p->key);
}

/* *out is for free(); *size: with the JSON. */
static bool load(const place *p, entry **out, uint64_t *size)
{
    void *data = NULL;
    if (core_cache_get(p->dir, p->key, &data, size))
        return false;
    if (*size <= sizeof **out) {
        free(data);
        return false;
    }
    *out = data;
    return true;
}

static clv_status save(const place *p, const clv_plan *plan)
{
    char *json;
    CLV_TRY(core_plan_decisions_json(plan, &json));
    const size_t length = strlen(json);
    entry *e = malloc(sizeof *e + length);
    clv_status status = e ? CLV_OK : core_no_memory("to keep a plan");
    if (!status) {
        *e = (entry){.identity = plan->identity,
                     .forecast_ns =
                         plan->forecast ? plan->forecast->makespan_ns : 0,
                     .expected_ns = core_plan_expected_ns(plan),
                     .together_ns = plan->together_ns};
        memcpy(e + 1, json, length);
        status = core_cache_put(p->dir, p->key, e, sizeof *e + length);
    }
    free(e);
    clv_string_free(json);
    return status;
}

static void warn_not_kept(const clv_plan *plan, clv_status status)
{
    if (status)
        clv_log(plan->ctx, CLV_LOG_WARN, "a plan is not kept: %s",
                clv_last_error());
}

/* *out is NULL, and nothing is said, where it cannot be made any more. */
static clv_status make(const clv_plan *plan, clv_graph *graph, const entry *e,
                       uint64_t size, clv_plan **out)
{
    clv_device **devices = calloc(plan->n_devices + 1u, sizeof *devices);
    const clv_plan_params params = {.devices = devices,
                                    .n_devices = plan->n_devices,
                                    .n_flight = plan->flight.n,
                                    .flight_symbols = plan->flight.symbols};
    const char *json = (const char *)(e + 1);
    *out = NULL;
    if (!devices)
        return core_no_memory("for a plan");
    for (uint32_t d = 0; d < plan->n_devices; d++)
        devices[d] = plan->devices[d].dev;
    clv_status status = planner_from_json(plan->ctx, graph, &params, json,
                                          size - sizeof *e, out);
    if (!status)
        status = core_plan_read_choices(*out, json, size - sizeof *e);
    if (!status) {
        (*out)->together_ns = e->together_ns;
    } else {
        clv_plan_destroy(*out);
        *out = NULL;
    }
    free(devices);
    return status == CLV_ERR_NO_MEMORY || status == CLV_ERR_CANCELLED ? status
                                                                      : CLV_OK;
}

/* The plan of the entry in the place, which may be NULL, if it is still good.
 */
static clv_status find_plan(const clv_plan *plan, clv_graph *graph,
                            const place *p,
                            bool (*is_good)(const clv_plan *, const entry *),
                            clv_plan **out)
{
    entry *e;
    uint64_t size;
    *out = NULL;
    if (!p || !load(p, &e, &size))
        return CLV_OK;
    const clv_status status = make(plan, graph, e, size, out);
    if (*out && is_good && !is_good(*out, e)) {
        clv_plan_destroy(*out);
        *out = NULL;
    }
    free(e);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Plans that were searched for                                             */

static bool costs_hold(const clv_plan *plan, const entry *e)
{
    return plan->forecast && e->forecast_ns > 0 &&
           fabs(plan->forecast->makespan_ns / e->forecast_ns - 1) <= CHANGED &&
           core_plan_expected_ns(plan) <= (1 + SLOWER) * e->expected_ns;
}

clv_status planner_plan_cache_find(const clv_plan *plan, clv_graph *graph,
                                   uint64_t question, clv_plan **out)
{
    place p;
    const bool has_place = place_of_found(plan->ctx, question, &p);
    const clv_status status =
        find_plan(plan, graph, has_place ? &p : NULL, costs_hold, out);
    if (*out)
        (*out)->question = question;
    finish_place(&p);
    return status;
}

void planner_plan_cache_keep(const clv_plan *plan)
{
    place p;
    clv_status status = CLV_OK;
    if (place_of_found(plan->ctx, plan->question, &p)) {
        status = save(&p, plan);
        if (!status)
            status = core_cache_trim(p.dir, MOST_BYTES);
    }
    warn_not_kept(plan, status);
    finish_place(&p);
}

void planner_plan_cache_forget(const clv_plan *plan)
{
    place p;
    if (place_of_found(plan->ctx, plan->question, &p))
        core_cache_remove(p.dir, p.key);
    finish_place(&p);
}

/* ------------------------------------------------------------------------ */
/* Plans that did best                                                      */

clv_status planner_plan_cache_find_best(const clv_plan *plan, clv_graph *graph,
                                        uint64_t problem, clv_plan **out)
{
    place p;
    const bool has_place = place_of_best(plan->ctx, problem, &p);
    const clv_status status =
        find_plan(plan, graph, has_place ? &p : NULL, NULL, out);
    finish_place(&p);
    return status;
}

bool planner_plan_cache_best(const clv_context *ctx, uint64_t problem,
                             uint64_t *identity)
{
    place p;
    entry *e = NULL;
    uint64_t size;
    const bool found = place_of_best(ctx, problem, &p) && load(&p, &e, &size);
    if (found)
        *identity = e->identity;
    free(e);
    finish_place(&p);
    return found;
}

void planner_plan_cache_keep_best(const clv_plan *plan)
{
    place p;
    if (place_of_best(plan->ctx, plan->problem, &p))
        warn_not_kept(plan, save(&p, plan));
    finish_place(&p);
}
