/* The two files of the group memory. */
#pragma once

#include "../work.h"

/* Cases of imports and exports. */
void memory_list_imports(kit_list *l);
