/* The meter's memory, which grows as works need it. */
#pragma once

#include "trial.h"

/* meter->pool has `need` bytes. filled: it is larger than caches, and holds no
 * zeros. CLV_ERR_LIMIT: need is more than max_pool. */
clv_status core_pool_reserve(core_meter *meter, uint64_t need, bool filled);
/* A trial is gone: pools that it may have held back go too. */
void core_pool_release(core_meter *meter);
