/* Specs bent to what a device offers, so that devices with static shapes or
 * narrow limits are tested inside them. */
#pragma once

#include "graph.h"
#include "spec.h"

/* Answer for the spec's node. */
void kit_spec_caps(kit *k, const kit_spec *spec, clv_op_caps *out);
/* The value nearest to this one that is inside the limit, and a multiple of
 * unit. */
int64_t kit_inside(const clv_axis_limit *limit, int64_t unit, int64_t value);
/* Changes a spec that is refused: rows to a shape that the device lists when
 * asked for a range, sizes to the limits it states. Whether it changed;
 * is_static, unless NULL: whether there is a list. */
bool kit_fit_spec(kit *k, kit_spec *spec, bool *is_static);
