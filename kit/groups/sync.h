/* The two files of the group sync. */
#pragma once

#include "../work.h"

/* Cases of timelines with submitted work. */
void sync_list_work(kit_list *l);

/* Notes percentiles of n times; sorts them. */
void sync_note_times(kit *k, const char *what, uint64_t *times, uint32_t n);
