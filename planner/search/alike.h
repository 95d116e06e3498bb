/*
 * Where two schedules of the same nodes run on alike: what is added later
 * begins in both at the same times, but for a shift.
 */
#pragma once

#include "schedule.h"

/* Whether a and b, before the same node, differ in nothing that matters but by
 * a time. shift: of what is there in a against b; it stays as it was where they
 * have not as many results. */
bool planner_states_alike(const planner_schedule *s, uint32_t node,
                          const planner_state *a, const planner_state *b,
                          double *shift);
