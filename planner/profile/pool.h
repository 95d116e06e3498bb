/* The meter's memory, which grows as works need it. */
#pragma once

#include "trial.h"

/* meter->pool has `need` bytes. filled: it is larger than caches, and holds no
 * zeros. CLV_ERR_LIMIT: need is more than max_pool. */
clv_status planner_pool_reserve(planner_meter *meter, uint64_t need,
                                bool filled);
/* A trial is gone: pools that it may have held back go too. */
void planner_pool_release(planner_meter *meter);
