/* The two files of the group lifecycle. */
#pragma once

#include "../work.h"

/* Cases in which the host's memory runs out. */
void lifecycle_list_memory(kit_list *l);
