/* The files of the group sync. */
#pragma once

#include "../work/work.h"

/* A word of memory that the host can see, for work whose having run shows; a
 * timeline to hold work back, and one to tell its end. */
typedef struct sync_bench {
    kit_plugin *p;
    uint32_t type;
    clv_plugin_buffer *buf;
    clv_plugin_timeline *gate, *done;
} sync_bench;

sync_bench sync_bench_open(kit *k); /* the word is 0 */
uint32_t sync_bench_value(const sync_bench *b);
void sync_bench_close(sync_bench *b);

/* Notes percentiles of n times; sorts them. */
void sync_note_times(kit *k, const char *what, uint64_t *times, uint32_t n);

/* Cases of timelines with submitted work. */
void sync_list_work(kit_list *l);
/* Cases of copies beside work. */
void sync_list_queues(kit_list *l);
/* Cases of work that fails. */
void sync_list_failures(kit_list *l);
