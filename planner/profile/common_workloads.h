/* Work that is there for its length, not for itself. */
#pragma once

#include "trial.h"

/* Work that the device takes: a product of few rows, or of as many as it needs
 * to compute rather than to read (many), and at least as long as ns, if the
 * pool lets it; 0: short. preferred: a kind of product to take if the device
 * does, or NULL. node_ns, which may be NULL: what one takes.
 * CLV_ERR_UNSUPPORTED: none is taken. */
clv_status planner_common_workloads(planner_meter *meter, clv_device *dev,
                                    bool many, double ns,
                                    const planner_workload_kind *preferred,
                                    planner_workload *out, double *node_ns);
