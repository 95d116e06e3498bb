/* Measurements as JSON, and back. Works are lists of numbers, in the order of
 * their structs. */
#include "../../core/base/text.h"
#include "../../core/base/error.h"
#include "store.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_KIND 8                           /* numbers of a kind, */
#define N_SAMPLE 7                         /* of a sample, */
#define N_NOISY 8                          /* of one whose time is random, */
#define N_PROGRAM 8                        /* of a program, */
#define N_MODEL (8 + PLANNER_FIT_FEATURES) /* and of a model */
#define MAX_NUMBER 1e18
#define MAX_COST 1e60 /* what models are made of */

/* ------------------------------------------------------------------------ */
/* Writing                                                                  */

static void add_overheads(core_text *text, const planner_overheads *o)
{
    core_text_add(text,
                  ",\n\"overheads\":[%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,"
                  "%.9g,%.9g],\n\"learned\":[%u]",
                  o->submit, o->submit_idle, o->dispatch, o->wait_poll,
                  o->wait_block, o->copy, o->copy_byte, o->copy_out,
                  o->copy_byte_out, o->copy_row, o->learned);
}

static void add_samples(core_text *text, const planner_profile_device *dev,
                        const planner_workload_kind *kind)
{
    const char *comma = "";
    core_text_add(text, ",\"samples\":[");
    for (uint32_t i = 0; i < dev->n_samples; i++) {
        const planner_sample *s = &dev->samples[i];
        if (memcmp(&s->workload.kind, kind, sizeof *kind))
            continue;
        core_text_add(text, "%s\n[%lld,%lld,%lld,%lld,%.9g,%.9g,%.4g", comma,
                      (long long)s->workload.n, (long long)s->workload.in,
                      (long long)s->workload.out, (long long)s->workload.depth,
                      s->ns, s->energy_nj, s->spread);
        if (s->drifts > 0)
            core_text_add(text, ",%.4g", s->drifts);
        core_text_add(text, "]");
        comma = ",";
    }
    core_text_add(text, "]");
}

/* Fitting takes longer than reading. */
static void add_model(core_text *text, const planner_profile_kind *k)
{
    const planner_fit *fit = &k->fit;
    const planner_linear *m = &fit->linear;
    core_text_add(text, ",\"model\":[%u,%u,%.17g,%.17g,%.17g,%u,%.17g,%.17g",
                  fit->n_samples, fit->n_features, k->nj_ns,
                  fit->held_out.median, fit->held_out.p90, fit->held_out.n,
                  m->r2, m->alpha);
    for (uint32_t i = 0; i < PLANNER_FIT_FEATURES; i++)
        core_text_add(text, ",%.17g", m->beta[i]);
    core_text_add(text, "]");
    for (uint32_t i = 0; fit->tree && i < planner_tree_rows(fit->tree); i++) {
        double row[PLANNER_TREE_ROW];
        planner_tree_row(fit->tree, i, row);
        core_text_add(text, i ? ",\n[" : ",\"tree\":[\n[");
        for (uint32_t j = 0; j < PLANNER_TREE_ROW; j++)
            core_text_add(text, "%s%.17g", j ? "," : "", row[j]);
        core_text_add(text, "]");
    }
    core_text_add(text, fit->tree ? "]" : "");
}

static void add_kind(core_text *text, const planner_profile_device *dev,
                     const planner_profile_kind *k)
{
    core_text_add(text, "{\"kind\":[%u,%u,%u,%u,%u,%u,%u,%u]", k->kind.op,
                  k->kind.variant, k->kind.detail, k->kind.span, k->kind.dtype,
                  k->kind.weight_dtype, k->kind.quant, k->kind.group);
    if (k->kind.way)
        core_text_add(text, ",\"way\":[%u]", k->kind.way);
    for (int i = 0; i < 4 && k->has_covered; i++)
        core_text_add(text, "%s%lld,%lld%s", i ? "," : ",\"covered\":[",
                      (long long)k->covered.least[i],
                      (long long)k->covered.most[i], i < 3 ? "" : "]");
    if (k->fit.n_samples)
        add_model(text, k);
    add_samples(text, dev, &k->kind);
    core_text_add(text, "}");
}

/* A hash as two numbers that a double holds. */
static void add_programs(core_text *text, const planner_programs *programs)
{
    for (uint32_t i = 0; i < programs->n; i++) {
        const planner_program_record *r = &programs->items[i];
        core_text_add(
            text, "%s\n[%u,%u,%.9g,%.9g,%.9g,%.9g,%.9g,%d]",
            i ? "," : ",\n\"programs\":[", (uint32_t)(r->program.hash >> 32),
            (uint32_t)r->program.hash, r->program.nodes, r->program.elements,
            r->program.weight_bytes, r->first_ns, r->again_ns, r->is_cached);
    }
    core_text_add(text, programs->n ? "]" : "");
}

clv_status planner_profile_format(const planner_profile_device *dev, char **out)
{
    core_text text = {0};
    core_text_add(&text, "{\"profile\":");
    core_text_add_json(&text, dev->key);
    if (dev->overheads)
        add_overheads(&text, dev->overheads);
    if (dev->standard.ns > 0)
        core_text_add(&text, ",\n\"standard\":[%.9g,%.9g]", dev->standard.ns,
                      dev->standard.noise);
    add_programs(&text, &dev->programs);
    core_text_add(&text, ",\n\"kinds\":[");
    for (uint32_t i = 0; i < dev->n_kinds; i++) {
        core_text_add(&text, i ? ",\n" : "\n");
        add_kind(&text, dev, &dev->kinds[i]);
    }
    core_text_add(&text, "]}\n");
    return core_text_take(&text, out);
}

static void add_list(core_text *text, const char *name, const double *list,
                     uint32_t n)
{
    core_text_add(text, ",\n\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++)
        core_text_add(text, "%s%.9g", i ? "," : "", list[i]);
    core_text_add(text, "]");
}

clv_status planner_profile_format_set(const planner_profile_set *set,
                                      const char *key, char **out)
{
    core_text text = {0};
    core_text_add(&text, "{\"profile\":");
    core_text_add_json(&text, key);
    add_list(&text, "bandwidth", &set->contention.bandwidth, 1);
    add_list(&text, "alone", set->contention.alone, set->n);
    add_list(&text, "slowdown", set->contention.slowdown, set->n);
    core_text_add(&text, "}\n");
    return core_text_take(&text, out);
}

/* ------------------------------------------------------------------------ */
/* Reading                                                                  */

static clv_status damaged(const char *what)
{
    return clv_error(CLV_ERR_FORMAT, "'%s' is missing or damaged", what);
}

/* Exactly n numbers from 0 to max. */
static bool read_numbers(const cJSON *list, double *out, uint32_t n, double max)
{
    const cJSON *item;
    uint32_t i = 0;
    if (!cJSON_IsArray(list))
        return false;
    cJSON_ArrayForEach (item, list) {
        if (i == n || !cJSON_IsNumber(item) ||
            !(item->valuedouble >= 0 && item->valuedouble <= max))
            return false;
        out[i++] = item->valuedouble;
    }
    return i == n;
}

static bool is_whole(const double *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] != floor(x[i]))
            return false;
    return true;
}

/* way: NULL for the plain variant. */
static bool read_kind(const cJSON *list, const cJSON *way,
                      planner_workload_kind *out)
{
    double x[N_KIND], id = 0;
    if (!read_numbers(list, x, N_KIND, UINT32_MAX) || !is_whole(x, N_KIND) ||
        x[0] >= CLV_OP_COUNT ||
        (way && (!read_numbers(way, &id, 1, UINT32_MAX) || !is_whole(&id, 1))))
        return false;
    *out = (planner_workload_kind){(uint32_t)x[0], (uint32_t)x[1],
                                   (uint32_t)x[2], (uint32_t)x[3],
                                   (uint32_t)x[4], (uint32_t)x[5],
                                   (uint32_t)x[6], (uint32_t)x[7],
                                   (uint32_t)id,   0};
    return true;
}

static clv_status read_covered(planner_profile_device *dev,
                               const planner_workload_kind *kind,
                               const cJSON *list)
{
    double x[8];
    planner_workload_box box;
    if (!list)
        return CLV_OK;
    if (!read_numbers(list, x, 8, MAX_NUMBER) || !is_whole(x, 8))
        return damaged("covered");
    for (int i = 0; i < 4; i++) {
        box.least[i] = (int64_t)x[2 * i];
        box.most[i] = (int64_t)x[2 * i + 1];
    }
    return planner_profile_note_covered(dev, kind, &box);
}

static clv_status read_samples(planner_profile_device *dev,
                               const planner_workload_kind *kind,
                               const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return damaged("samples");
    cJSON_ArrayForEach (item, list) {
        double x[N_NOISY] = {0};
        const uint32_t n =
            cJSON_GetArraySize(item) == N_NOISY ? N_NOISY : N_SAMPLE;
        if (!read_numbers(item, x, n, MAX_NUMBER) || !is_whole(x, 4) ||
            (n == N_NOISY && !(x[7] > 0 && x[7] <= 1)))
            return damaged("samples");
        planner_sample s = {.workload = {.kind = *kind,
                                         .n = (int64_t)x[0],
                                         .in = (int64_t)x[1],
                                         .out = (int64_t)x[2],
                                         .depth = (int64_t)x[3]},
                            .ns = x[4],
                            .energy_nj = x[5],
                            .spread = x[6],
                            .drifts = x[7]};
        clv_status status = planner_profile_add_sample(dev, &s);
        if (status)
            return status;
    }
    return CLV_OK;
}

static clv_status read_tree(const cJSON *list, uint32_t n_features,
                            planner_tree **out)
{
    int n = cJSON_GetArraySize(list), i = 0;
    double(*rows)[PLANNER_TREE_ROW] = calloc((size_t)n + 1, sizeof *rows);
    const cJSON *item;
    clv_status status = CLV_OK;
    if (!rows)
        return core_no_memory("for a profile");
    cJSON_ArrayForEach (item, list) {
        if (!status &&
            !read_numbers(item, rows[i++], PLANNER_TREE_ROW, MAX_COST))
            status = damaged("tree");
    }
    if (!status)
        status = planner_tree_from_rows(rows, (uint32_t)n, n_features, out);
    free(rows);
    return status;
}

/* Whether a model may be of the samples that are there, and is of the features
 * that the kind has. */
static bool is_of(const planner_profile_device *dev,
                  const planner_workload_kind *kind, const double *model)
{
    const planner_workload workload = {.kind = *kind};
    double x[PLANNER_FIT_FEATURES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < dev->n_samples; i++)
        n += dev->samples[i].ns > 0 &&
             !memcmp(&dev->samples[i].workload.kind, kind, sizeof *kind);
    return model[0] >= 1 && model[0] <= n && is_whole(model, 2) &&
           model[1] == planner_workload_features(&workload, x);
}

/* The model that was kept, else one that is fitted now. */
static clv_status read_model(planner_profile_device *dev,
                             const planner_workload_kind *kind,
                             const cJSON *item)
{
    planner_profile_kind *k = planner_profile_kind_of(dev, kind);
    const cJSON *tree = cJSON_GetObjectItemCaseSensitive(item, "tree");
    double x[N_MODEL];
    clv_status status = CLV_OK;
    if (!k)
        return CLV_OK;
    if (!read_numbers(cJSON_GetObjectItemCaseSensitive(item, "model"), x,
                      N_MODEL, MAX_COST) ||
        !is_of(dev, kind, x) || !is_whole(x + 5, 1))
        return planner_profile_fit_kind(dev, k);
    planner_fit fit = {.n_samples = (uint32_t)x[0],
                       .n_features = (uint32_t)x[1],
                       .held_out = {x[3], x[4], (uint32_t)x[5]},
                       .linear = {.r2 = x[6], .alpha = x[7]}};
    memcpy(fit.linear.beta, x + 8, sizeof fit.linear.beta);
    if (tree)
        status = read_tree(tree, fit.n_features, &fit.tree);
    if (status)
        return status;
    planner_fit_finish(&k->fit);
    k->fit = fit;
    k->nj_ns = x[2];
    return CLV_OK;
}

static clv_status read_kinds(planner_profile_device *dev, const cJSON *list)
{
    const cJSON *item;
    clv_status status = CLV_OK;
    if (!cJSON_IsArray(list))
        return damaged("kinds");
    cJSON_ArrayForEach (item, list) {
        planner_workload_kind kind;
        if (!read_kind(cJSON_GetObjectItemCaseSensitive(item, "kind"),
                       cJSON_GetObjectItemCaseSensitive(item, "way"), &kind))
            return damaged("kind");
        status = read_covered(
            dev, &kind, cJSON_GetObjectItemCaseSensitive(item, "covered"));
        if (!status)
            status = read_samples(
                dev, &kind, cJSON_GetObjectItemCaseSensitive(item, "samples"));
        if (!status)
            status = read_model(dev, &kind, item);
        if (status)
            return status;
    }
    return status;
}

static clv_status read_overheads(planner_profile_device *dev, const cJSON *list,
                                 const cJSON *learned)
{
    double x[10], bits = 0;
    if (!list)
        return CLV_OK;
    if (!read_numbers(list, x, 10, MAX_NUMBER))
        return damaged("overheads");
    if (learned && (!read_numbers(learned, &bits, 1,
                                  PLANNER_LEARNED_ALL | PLANNER_ASSUMED) ||
                    !is_whole(&bits, 1)))
        return damaged("learned");
    const planner_overheads o = {x[0], x[1], x[2], x[3], x[4],          x[5],
                                 x[6], x[7], x[8], x[9], (uint32_t)bits};
    return planner_profile_set_overheads(dev, &o);
}

static clv_status read_standard(planner_profile_device *dev, const cJSON *list)
{
    double x[2];
    if (!list)
        return CLV_OK;
    if (!read_numbers(list, x, 2, MAX_NUMBER))
        return damaged("standard");
    dev->standard = (planner_reference){.ns = x[0], .noise = x[1]};
    return CLV_OK;
}

static clv_status read_programs(planner_programs *programs, const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach (item, list) {
        double x[N_PROGRAM];
        if (!read_numbers(item, x, N_PROGRAM, MAX_NUMBER) || !is_whole(x, 2) ||
            x[0] > UINT32_MAX || x[1] > UINT32_MAX || x[2] < 1)
            return damaged("programs");
        const planner_program_record record = {
            .program = {(uint64_t)x[0] << 32 | (uint64_t)x[1], x[2], x[3],
                        x[4]},
            .first_ns = x[5],
            .again_ns = x[6],
            .is_cached = x[7] != 0};
        CLV_TRY(planner_programs_add(programs, &record));
    }
    return planner_programs_fit(programs);
}

/* The JSON of a profile of this key; NULL and a status. */
static clv_status open_json(const char *text, uint64_t size, const char *key,
                            cJSON **out)
{
    cJSON *json = cJSON_ParseWithLength(text, (size_t)size);
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(json, "profile");
    clv_status status = CLV_OK;
    *out = NULL;
    if (!cJSON_IsString(found))
        status = clv_error(CLV_ERR_FORMAT, "this is no profile");
    else if (strcmp(found->valuestring, key))
        status = clv_error(CLV_ERR_VERSION,
                           "it was made with '%.200s', not "
                           "'%.200s'",
                           found->valuestring, key);
    if (status) {
        cJSON_Delete(json);
        return status;
    }
    *out = json;
    return CLV_OK;
}

clv_status planner_profile_parse(planner_profile_device *dev, const char *text,
                                 uint64_t size)
{
    cJSON *json;
    planner_profile_device read = {.dev = dev->dev};
    clv_status status = open_json(text, size, dev->key, &json);
    if (status)
        return status;
    status = read_kinds(&read, cJSON_GetObjectItemCaseSensitive(json, "kinds"));
    if (!status)
        status = read_overheads(
            dev, cJSON_GetObjectItemCaseSensitive(json, "overheads"),
            cJSON_GetObjectItemCaseSensitive(json, "learned"));
    if (!status)
        status = read_standard(
            &read, cJSON_GetObjectItemCaseSensitive(json, "standard"));
    if (!status)
        status = read_programs(
            &read.programs, cJSON_GetObjectItemCaseSensitive(json, "programs"));
    cJSON_Delete(json);
    if (status) {
        planner_profile_forget(&read);
        return status;
    }
    dev->programs = read.programs;
    dev->standard = read.standard;
    dev->samples = read.samples;
    dev->n_samples = read.n_samples;
    dev->samples_capacity = read.samples_capacity;
    dev->slots = read.slots;
    dev->n_slots = read.n_slots;
    dev->kinds = read.kinds;
    dev->n_kinds = read.n_kinds;
    dev->top_bytes = read.top_bytes;
    dev->top_flops = read.top_flops;
    return CLV_OK;
}

clv_status planner_profile_parse_set(const char *text, uint64_t size,
                                     const char *key, uint32_t n,
                                     planner_contention *contention)
{
    cJSON *json;
    clv_status status = open_json(text, size, key, &json);
    if (status)
        return status;
    if (!read_numbers(cJSON_GetObjectItemCaseSensitive(json, "bandwidth"),
                      &contention->bandwidth, 1, MAX_NUMBER))
        status = damaged("bandwidth");
    else if (!read_numbers(cJSON_GetObjectItemCaseSensitive(json, "alone"),
                           contention->alone, n, MAX_NUMBER))
        status = damaged("alone");
    else if (!read_numbers(cJSON_GetObjectItemCaseSensitive(json, "slowdown"),
                           contention->slowdown, n, MAX_NUMBER))
        status = damaged("slowdown");
    for (uint32_t i = 0; i < n && !status; i++)
        if (contention->slowdown[i] < 1)
            status = damaged("slowdown");
    cJSON_Delete(json);
    return status;
}
