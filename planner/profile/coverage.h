/* What one call of planner_profile_cover() works with. */
#pragma once

#include "store.h"

typedef struct planner_coverage {
    planner_profile *profile;
    const planner_profile_params *params;
    planner_meter *meter; /* made when first needed */
    uint32_t index;       /* of the device */
} planner_coverage;

/* The device with what the cache has of it. */
clv_status planner_coverage_device(planner_coverage *s, clv_device *dev,
                                   planner_profile_device **out);
/* Measures these works, whatever models say of them, as far as there is time.
 */
clv_status planner_coverage_measure(planner_coverage *s,
                                    planner_profile_device *device,
                                    const planner_workloads *list);
/* Makes the meter, and gives it back. */
clv_status planner_coverage_open(planner_coverage *s);
void planner_coverage_close(planner_coverage *s);
/* Whether the device is measured only as much as a first plan needs: nobody
 * asked, and it takes real time. */
bool planner_coverage_is_quick(const planner_coverage *s,
                               const clv_device *dev);
/* Whether to do more than read the cache. */
bool planner_coverage_may_measure(const planner_coverage *s);
/* Each group of the devices that shares a clock, with weights such as the graph
 * has, as far as it is not known. */
clv_status planner_coverage_contention(planner_coverage *s,
                                       const clv_graph *graph);
