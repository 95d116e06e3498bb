/*
 * Copies between memories in a schedule (solve.h has the rules). A result is
 * copied once to each memory that needs something of it: out of its device's
 * own memory when the step that made it is over, into another's before the step
 * that reads it begins.
 */
#pragma once

#include "schedule.h"

/* What part `at` of a node's option needs from other memories: time is added to
 * the devices that copy it out. Returns the time to copy it in. first: slot of
 * the option's first piece. */
double planner_copies_bring(const planner_schedule *s, planner_state *state,
                            uint32_t node, uint32_t option, uint32_t at,
                            uint32_t first);
/* The device's time to give the host a result that it asked for; 0: it is
 * there. */
double planner_copies_hand_over(const planner_schedule *s, uint32_t node,
                                uint32_t option, uint32_t at);
