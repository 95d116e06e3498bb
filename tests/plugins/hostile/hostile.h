/*
 * The hostile plugin: the reference plugin with one thing wrong, chosen by the
 * option "mode". A mode is a row of a table in modes_*.c: the slots that differ
 * from the reference's, which they mostly call and then spoil the answer.
 *
 * Faults that any slot can have are modes with a parameter:
 *   error:SLOT   it fails, and says so            silent:SLOT  without a
 * message status:SLOT  with a status nobody knows       empty:SLOT   OK, no
 * handle crash:SLOT   a signal   abort:SLOT   abort()  exit:SLOT    exit(0)
 *   print:SLOT   to stdout  hang:SLOT    for ever
 *   memory:SLOT  it lacks memory, it says
 *   warn:SLOT    to stderr, once for each directory $XDG_CACHE_HOME
 * program_run is the device's work, on the worker thread.
 */
#pragma once

#include "../ref/ref.h"

typedef struct hostile_mode {
    const char *name;
    const char *what;     /* the fault, for people */
    clv_plugin_api slots; /* those that are set replace the reference's */
} hostile_mode;

/* One a subject, each ending with a row without name. */
extern const hostile_mode hostile_devices[];
extern const hostile_mode hostile_caps[];
extern const hostile_mode hostile_memory[];
extern const hostile_mode hostile_results[];
extern const hostile_mode hostile_timelines[];
extern const hostile_mode hostile_work[];
extern const hostile_mode hostile_programs[];
extern const hostile_mode hostile_times[];
extern const hostile_mode hostile_processes[];

/* The table in use: the reference's with the mode's slots. */
extern clv_plugin_api hostile_active;
/* Of the latest instance. */
extern const clv_host_api *hostile_host;
/* Whether this is the mode; and the part of a name behind a colon. */
bool hostile_is(const char *name);

/* The slots between the host and hostile_active, which meddle for the modes
 * with a parameter (slots.c). */
void hostile_fill_table(clv_plugin_api *table);
/* What such a mode does in a slot: true with the status to answer instead of
 * calling it, or it never returns. */
bool hostile_meddles(const char *slot, clv_status *status);

/* Blocks for ns. */
void hostile_sleep(uint64_t ns);
/* A fault at an address that nobody owns. */
void hostile_crash(void);
