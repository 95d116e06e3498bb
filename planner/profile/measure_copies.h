/* What copies take: a part of planner_overheads; and copies beside other work.
 */
#pragma once

#include "measure.h"

/* n times, at most 15; noisy: times are random. */
clv_status planner_measure_copies(clv_device *dev, uint32_t n, bool noisy,
                                  planner_overheads *out);

/* A device that copies to memory of its own from memory of the host's, as it
 * does with weights that are streamed. */
typedef struct planner_copier planner_copier;
/* many: from so much memory that no cache holds it. CLV_ERR_UNSUPPORTED: the
 * device cannot. */
clv_status planner_copier_create(clv_device *dev, bool many,
                                 planner_copier **out);
/* NULL is legal. */
void planner_copier_destroy(planner_copier *copier);
/* Bytes of each copy. */
uint64_t planner_copier_bytes(const planner_copier *copier);
/* Submits n copies; correlation: of their records. */
clv_status planner_copier_submit(planner_copier *copier, uint32_t n,
                                 uint64_t correlation);
/* Until all that was submitted is done. */
clv_status planner_copier_wait(planner_copier *copier);
