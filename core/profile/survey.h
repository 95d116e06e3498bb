/* One call of core_profile_cover(). */
#pragma once

#include "store.h"

typedef struct core_survey {
    core_profile *profile;
    const core_profile_params *params;
    core_meter *meter; /* made when first needed */
    uint32_t index;    /* of the device */
} core_survey;

/* The device with what the cache has of it. */
clv_status core_survey_device(core_survey *s, clv_device *dev,
                              core_profile_device **out);
/* Measures these works, whatever models say of them, as far as there is time.
 */
clv_status core_survey_measure(core_survey *s, core_profile_device *device,
                               const core_wants *wants);
/* Makes the meter, and gives it back. */
clv_status core_survey_open(core_survey *s);
void core_survey_close(core_survey *s);
/* Whether to do more than read the cache. */
bool core_survey_may_measure(const core_survey *s);
/* Each group of the devices that shares a clock, as far as it is not known. */
clv_status core_survey_together(core_survey *s);
