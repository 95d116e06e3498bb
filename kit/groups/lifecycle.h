/* The files of the group lifecycle. */
#pragma once

#include "../work/work.h"

/* Loads and creates; destroys and unloads. */
void lifecycle_make(kit *k, kit_plugin *p);
void lifecycle_end(kit_plugin *p);

/* Cases of what enumerate says. */
void lifecycle_list_devices(kit_list *l);
void lifecycle_list_signals(kit_list *l);
/* Cases of what is kept in the host's cache. */
void lifecycle_list_cache(kit_list *l);
/* Cases of several threads. */
void lifecycle_list_threads(kit_list *l);
/* Cases in which the host's memory runs out. */
void lifecycle_list_memory(kit_list *l);
