/*
 * Which runner a batch of n tokens uses.
 *
 * Without devices of static shapes, few tokens have a graph of their own, and
 * so have more than n_batch: how best to divide work, and what programs are
 * fastest, depends on how much there is. It is made when the first such batch
 * comes.
 *
 * Where a device has static shapes, a run has one length: n, or n rounded up to
 * lengths of such devices or to a sum of two or three of them, whichever plan
 * has the least predicted time. Without predictions it is n itself, or the
 * first of the others for which a plan can be made. If a saved plan was made
 * for one of these graphs, it decides.
 *
 * Lengths differ from text to text, and a new runner costs planning, compiling,
 * programs and memory. Therefore
 *
 *   - an existing runner that pads n by no more than a sixteenth is used
 *     without planning;
 *   - else plans are made, and an existing runner of any length goes on being
 *     used for n until the time it has wasted, compared with the best plan,
 *     reaches the time that the latest compilation took (the ski rental rule:
 *     at most twice the cost of an optimal decision);
 *   - long texts run in whole batches, all with one runner, and then the rest.
 */
#pragma once

#include "runners.h"

/* *out is one of the runners, or a new one that is planned but not compiled and
 * belongs to the caller. */
clv_status llm_choice_make(llm_runners *r, const llm_request *request,
                           llm_runner **out);
/* What a run would take, ns, as clv_plan_weigh(); padding is left out. */
clv_status llm_choice_weigh(const llm_runners *r, const llm_request *request,
                            const clv_device *dev, uint64_t bytes, double *ns);
/* Up to how many tokens the graph for a batch of at most n_batch takes that is
 * no graph of one length. */
uint32_t llm_choice_length(const llm_runners *r, const llm_request *request);
/* Shapes of one length that can serve the request, the best guess first. */
clv_status llm_choice_shapes(llm_runners *r, const llm_request *request,
                             llm_shape shapes[LLM_MAX_TRIED], uint32_t *n);
