/* One call of planner_profile_cover(). */
#pragma once

#include "store.h"

typedef struct planner_survey {
    planner_profile *profile;
    const planner_profile_params *params;
    planner_meter *meter; /* made when first needed */
    uint32_t index;       /* of the device */
} planner_survey;

/* The device with what the cache has of it. */
clv_status planner_survey_device(planner_survey *s, clv_device *dev,
                                 planner_profile_device **out);
/* Measures these works, whatever models say of them, as far as there is time.
 */
clv_status planner_survey_measure(planner_survey *s,
                                  planner_profile_device *device,
                                  const planner_workloads *list);
/* Makes the meter, and gives it back. */
clv_status planner_survey_open(planner_survey *s);
void planner_survey_close(planner_survey *s);
/* Whether to do more than read the cache. */
bool planner_survey_may_measure(const planner_survey *s);
/* Each group of the devices that shares a clock, as far as it is not known. */
clv_status planner_survey_together(planner_survey *s);
