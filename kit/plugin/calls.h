/*
 * Calls into the plugin, watched: the parent sees in which of them a process
 * is, so that it can name the one that crashed, and count against the time
 * limit only what the plugin takes.
 */
#pragma once

#include <cleave/plugin.h>

#include <stdatomic.h>

/* In memory that parent and child share. The calls are offsets of slots, or
 * those of calls.c. Accesses are relaxed: between the plugin's threads they
 * order nothing. */
typedef struct kit_watch {
    _Atomic uint32_t inside;   /* calls under way, of all threads */
    _Atomic uint32_t call;     /* the latest */
    _Atomic uint32_t before;   /* the one before it */
    _Atomic uint64_t spent_ns; /* in the plugin, since the time limit began;
                                  the parent's */
} kit_watch;

/* Of this process; to be set before any call. */
void kit_calls_watch(kit_watch *watch);
/* The rest of the process is the plugin's: its exit handlers. */
void kit_calls_exit(void);

/* The watch's spent_ns. */
uint64_t kit_calls_spent(void);

/* Puts watched calls in place of the table's slots. */
void kit_calls_wrap(clv_plugin_api *api);
void *kit_calls_dlopen(const char *path);
int kit_calls_dlclose(void *lib);
/* NULL: the library has none. */
clv_plugin_query_fn kit_calls_query(void *lib);

/* " in program_compile", " after quiesce" or "". */
void kit_calls_where(const kit_watch *watch, char *text, size_t size);
