/*
 * Which weights devices hold that cannot hold all. The plan that is made first
 * holds what is best for its runs, and later plans get what that leaves. This
 * is the plan of single tokens, unless core.objective has tokens of a prompt
 * and after it and their forecast is less with the plan of a batch first.
 */
#pragma once

#include "runners.h"

/* Sets the lead of runners for which nothing has been planned yet. */
clv_status llm_residency_choose(llm_runners *r);
