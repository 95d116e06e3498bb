/*
 * What repeats in a plan: layers. A repeated block is found from its first
 * item, with the period that covers most; of equal ones the shorter is taken.
 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* Shorter blocks are as well written out. */
#define MIN_PERIOD 3
#define MAX_PERIOD 4096u

static view_fold fold_from(const uint64_t *hashes, uint32_t n, uint32_t first)
{
    view_fold best = {first, 1, 1};
    uint32_t saved = 0, most = (n - first) / 2;
    most = most < MAX_PERIOD ? most : MAX_PERIOD;
    for (uint32_t period = MIN_PERIOD; period <= most; period++) {
        uint32_t length = 0;
        while (first + length + period < n &&
               hashes[first + length] == hashes[first + length + period])
            length++;
        uint32_t count = length / period + 1;
        if (period * (count - 1) <= saved)
            continue;
        saved = period * (count - 1);
        best = (view_fold){first, period, count};
    }
    return best;
}

clv_status view_folds_find(const uint64_t *hashes, uint32_t n, view_fold **out,
                           uint32_t *n_out)
{
    view_fold *folds = calloc(n + 1u, sizeof *folds);
    uint32_t n_folds = 0;
    *out = folds;
    *n_out = 0;
    if (!folds)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    for (uint32_t at = 0; at < n;) {
        view_fold fold = fold_from(hashes, n, at);
        view_fold *last = n_folds ? &folds[n_folds - 1] : NULL;
        if (fold.count == 1 && last && last->count == 1)
            last->period++;
        else
            folds[n_folds++] = fold;
        at += fold.period * fold.count;
    }
    *n_out = n_folds;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

uint64_t view_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? view_hash(hash, text, strlen(text) + 1) : hash;
}

static uint64_t hash_values(uint64_t hash, const view_plan_data *view,
                            const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach (item, list) {
        const view_value *value =
            cJSON_IsNumber(item) ? &view->values[item->valueint] : NULL;
        const bool weight = value && !strcmp(value->usage, "weight");
        hash = hash_text(hash, value ? value->shape : "none");
        hash = view_hash(hash, &weight, sizeof weight);
    }
    return hash;
}

static uint64_t hash_piece(uint64_t hash, const view_piece *piece)
{
    hash = hash_text(hash_text(hash, piece->device), piece->reason);
    hash = hash_text(hash, piece->variant);
    for (uint32_t a = 0; a < piece->n_axes; a++) {
        hash = hash_text(hash, piece->axes[a]);
        hash = view_hash(hash, &piece->begin[a], sizeof piece->begin[a]);
        hash = view_hash(hash, &piece->end[a], sizeof piece->end[a]);
    }
    return hash;
}

/* Copies are left out: where a value lies already depends on what came before,
 * not on how the node is planned. */
static uint64_t hash_source(const view_plan_data *view, uint32_t source)
{
    uint64_t hash =
        hash_text(VIEW_HASH_SEED, view->choices[source].alternative);
    for (uint32_t i = view->first[source]; i < view->first[source + 1]; i++) {
        const view_node *node = &view->nodes[i];
        if (node->piece == VIEW_NONE)
            continue;
        hash = hash_text(hash, node->op);
        hash = hash_values(hash, view, node->inputs);
        hash = hash_values(hash, view, node->outputs);
        hash = hash_piece(hash, &view->pieces[node->piece]);
    }
    return hash;
}

clv_status view_folds_of_nodes(const view_plan_data *view, view_fold **out,
                               uint32_t *n_out)
{
    uint64_t *hashes = calloc(view->n_sources + 1u, sizeof *hashes);
    *out = NULL;
    *n_out = 0;
    if (!hashes)
        return clv_error(CLV_ERR_NO_MEMORY, "no memory to show a plan");
    for (uint32_t i = 0; i < view->n_sources; i++)
        hashes[i] = hash_source(view, i);
    clv_status status = view_folds_find(hashes, view->n_sources, out, n_out);
    free(hashes);
    return status;
}

/* ------------------------------------------------------------------------ */

static bool layer_of(const char *name, char out[VIEW_LAYER_NAME])
{
    size_t begin = strcspn(name, "0123456789");
    size_t end = begin + strspn(name + begin, "0123456789");
    if (end == begin || name[end] != '.' || end >= VIEW_LAYER_NAME)
        return false;
    memcpy(out, name, end);
    out[end] = 0;
    return true;
}

void view_layer_name(const view_plan_data *view, uint32_t source, uint32_t n,
                     char out[VIEW_LAYER_NAME])
{
    for (uint32_t i = view->first[source]; i < view->first[source + n]; i++) {
        const cJSON *item;
        cJSON_ArrayForEach (item, view->nodes[i].inputs) {
            if (!cJSON_IsNumber(item))
                continue;
            const view_value *value = &view->values[item->valueint];
            if (!strcmp(value->usage, "weight") &&
                layer_of(view->values[value->base].name, out))
                return;
        }
    }
    *out = 0;
}
