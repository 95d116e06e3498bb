/*
 * Which weights devices hold that cannot hold all. The plan that is made first
 * holds what is best for its runs, and later plans get what that leaves. This
 * is the plan of single tokens, unless core.objective has tokens of a prompt
 * and after it and their forecast is less with the plan of a batch first. After
 * runs that showed other costs the order is chosen again.
 *
 * The other weights are copied once in each batch, so batches are as long as
 * memory allows.
 */
#pragma once

#include "runners.h"

/* Sets the lead, and what its plan leaves, if that is not done. */
clv_status llm_residency_choose(llm_runners *r);
/* What the lead's plan leaves to later ones. Their values lie where weights for
 * single tokens may lie meanwhile; those for batches would have to be copied
 * there for each. */
llm_work llm_residency_reserve(const llm_runners *r, const llm_lead *lead);
/* Whether runs showed other costs since the lead was chosen. */
bool llm_residency_is_doubted(const llm_runners *r);
/* Where devices do not hold all weights, makes n_batch longer, up to `most`, if
 * such a batch works on no more than before and an eighth of their memory.
 * Nothing is planned yet. */
clv_status llm_residency_lengthen(llm_runners *r, uint32_t most);
