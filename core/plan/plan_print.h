/*
 * Writing plans: a file for each format. Text is made without printf's floating
 * point, which follows the host's locale.
 */
#pragma once

#include "../base/text.h"
#include "plan.h"

void core_plan_add_json(core_text *text, const clv_plan *plan);
clv_status core_plan_add_md(core_text *text, const clv_plan *plan);
/* CLV_ERR_NOT_FOUND: the plan has no forecast. */
clv_status core_plan_add_svg(core_text *text, const clv_plan *plan);

/* ", rows 0..96, sequence 4..8" */
void core_plan_add_ranges(core_text *text, const core_piece *piece);
/* value with so many decimals, 0 to 6 */
void core_plan_add_fixed(core_text *text, double value, int decimals);
/* "12.345" of nanoseconds */
void core_plan_add_ms(core_text *text, double ns);

/* plan_fold.c: stretches of a list that repeat. The list is folds[0].period *
 * folds[0].count items, then those of folds[1]; count 1: it does not repeat. */
typedef struct core_fold {
    uint32_t first, period, count;
} core_fold;

/* signs[n]: equal for equal items. min_period: shorter ones are left alone.
 * *out is the caller's, for free(). */
clv_status core_folds_find(const uint64_t *signs, uint32_t n,
                           uint32_t min_period, core_fold **out,
                           uint32_t *n_out);
/* signs[source->n_nodes], for free(): equal for nodes that do the same in the
 * same way on the same devices. NULL when out of memory. */
uint64_t *core_plan_node_signs(const clv_plan *plan);
/* What the weights of n nodes of the source graph from `node` on have in their
 * names before the first dot that follows a number: "blk.12"; "" if nothing. */
#define CORE_LAYER_NAME 40
void core_plan_layer(const clv_plan *plan, uint32_t node, uint32_t n,
                     char out[CORE_LAYER_NAME]);
