/*
 * Small pieces of work for the cases about slots: moments, timelines, bytes in
 * buffers, transfers, and graphs that the device takes. All on a kit_plugin
 * that is open: the plugin under test, or one that the case opened. A call that
 * fails although the contract gives it no reason ends the case.
 */
#pragma once

#include "graph.h"

#define KIT_MS 1000000ull
/* What a device may take for a small piece of work before the case fails. */
#define KIT_PATIENCE_NS (10000 * KIT_MS)

uint64_t kit_now(void); /* monotonic */
void kit_sleep(uint64_t ns);

/* --- timelines ------------------------------------------------------------ */

clv_plugin_timeline *kit_timeline(kit_plugin *p, uint64_t value);
/* Queries, and checks that flag word and answer agree. */
clv_timeline_info kit_query(kit_plugin *p, clv_plugin_timeline *tl);
/* timeline_wait(), calling progress() in between where the device needs it. */
clv_status kit_wait_for(kit_plugin *p, clv_plugin_timeline *tl, uint64_t value,
                        uint64_t timeout_ns);
/* The value must come; patience is KIT_PATIENCE_NS. */
void kit_await(kit_plugin *p, clv_plugin_timeline *tl, uint64_t value,
               const char *what);

/* --- buffers -------------------------------------------------------------- */

/* The device's first memory type that the host can map, for cases that need one
 * (KIT_NEEDS_HOST_VISIBLE). */
uint32_t kit_visible_type(kit_plugin *p);
clv_plugin_buffer *kit_buffer(kit_plugin *p, uint32_t type, uint64_t size);
/* Bytes to and from a buffer of a host-visible type, flushed or invalidated
 * where it is not coherent. */
void kit_bytes_put(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                   uint64_t offset, const void *data, uint64_t size);
void kit_bytes_get(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                   uint64_t offset, void *data, uint64_t size);
/* Byte i of a pattern that differs between seeds and has no short period. */
uint8_t kit_pattern(uint64_t i, uint32_t seed);
/* An import of host memory, to be completed by the case. */
clv_import kit_host_import(void *pointer, uint64_t size, uint32_t access);

/* --- submits -------------------------------------------------------------- */

clv_command kit_fill(clv_plugin_buffer *dst, uint64_t offset, uint64_t size,
                     uint32_t pattern);
/* One of some milliseconds, by what this device takes, of a buffer of its own,
 * to be freed: work that is under way while something else happens. */
clv_command kit_long_fill(kit_plugin *p);
clv_command kit_copy(clv_plugin_buffer *dst, uint64_t dst_offset,
                     clv_plugin_buffer *src, uint64_t src_offset,
                     uint64_t size);
clv_timeline_point kit_point(clv_plugin_timeline *tl, uint64_t value);
/* To this queue; wait and signal may be NULL. */
clv_status kit_submit_to(kit_plugin *p, uint32_t queue,
                         const clv_command *commands, uint32_t n,
                         const clv_timeline_point *wait,
                         const clv_timeline_point *signal,
                         uint64_t correlation);
/* To queue 0. */
clv_status kit_try_submit(kit_plugin *p, const clv_command *commands,
                          uint32_t n, const clv_timeline_point *wait,
                          const clv_timeline_point *signal,
                          uint64_t correlation);
/* Submits, and waits for the end. */
void kit_do(kit_plugin *p, const clv_command *commands, uint32_t n,
            const char *what);

/* --- graphs --------------------------------------------------------------- */

enum {
    KIT_ANY_WEIGHT = 1u << 0, /* with a weight */
    KIT_ANY_SYMBOL = 1u << 1, /* rows are a symbol in 1..its number */
    KIT_ANY_NODES = 1u << 2,  /* two nodes at least, the second after the
                                 first */
};
/* The first of a row of small graphs that the device takes, on p; its output
 * is tensor *output. False with a reason if it takes none of them. */
bool kit_any_graph(kit *k, kit_plugin *p, kit_graph *g, uint32_t flags,
                   uint32_t *output, char reason[KIT_TEXT_SIZE]);
/* Whether a plugin that was just set up works: a transfer where memory is
 * visible, a program where a graph is taken. */
void kit_use(kit *k, kit_plugin *p);

/* --- processes ------------------------------------------------------------ */

/* Entries of a directory such as /proc/self/fd (the listing's own descriptor
 * counts); or lines of a file such as /proc/self/maps that hold text (NULL:
 * all). */
int kit_count_entries(kit *k, const char *path);
int kit_count_lines(kit *k, const char *path, const char *text);
/* Threads of this process, once those that ended are gone. */
int kit_count_threads(kit *k, int expected);

/* --- threads -------------------------------------------------------------- */

typedef struct kit_thread {
    pthread_t handle;
    kit *k;
    void (*main)(kit *k, void *ctx);
    void *ctx;
    _Atomic bool done;
} kit_thread;

void kit_thread_start(kit *k, kit_thread *t, void (*main)(kit *k, void *ctx),
                      void *ctx);
/* Fails the case, naming what, if it has not ended within the patience. */
void kit_thread_join(kit_thread *t, const char *what);
