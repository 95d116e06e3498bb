/* The two files of the group timing. */
#pragma once

#include "../work/work.h"

/* Cases of cost hints. */
void timing_list_costs(kit_list *l);
