/*
 * How a long text is divided into batches: how many tokens each has, and how
 * many are in flight at once. What the caller did not ask for is chosen by the
 * forecast, for the text at hand:
 *
 *   - batches of LLM_SPLIT_BATCH tokens, of twice or four times as many, or of
 *     half as many. Where a device has static shapes, those that it has
 *     programs for. Where none has, shorter ones share a graph, so there are no
 *     half batches; of longer ones none is planned of which the text would need
 *     less than half;
 *   - one, two or four of them in flight, where several devices work for them;
 *   - for the length that is best so, a plan that is made for runs in flight.
 *
 * What takes more memory has to be 3% faster for it, and on devices in real
 * time 10%, as profiles are less sure there, unless both ways have run. Once
 * the plain one has, longer batches get a trial if they should not take over
 * 10% longer: models know little of what fills a device. Batches in flight that
 * then take longer than is forecast for one of LLM_SPLIT_BATCH at a time are
 * not used again. Beside all this a device that holds all weights has to hold
 * them still.
 */
#pragma once

#include "runners.h"
#include "split_choices.h"

/* The longest batch that may be chosen. */
uint32_t llm_split_most(const llm_splits *s);
/* Where nothing can be forecast it is the plain one. */
clv_status llm_split_choose(llm_splits *s, llm_runners *r,
                            const llm_split_text *text, llm_split *out);
