/*
 * A progress bar on stderr, where that is a terminal. Reports come from one
 * thread; lines of the log, from any, go through it so that the two do not
 * mix.
 */
#pragma once

#include <cleave/cleave.h>

#include <pthread.h>

typedef struct tool_progress {
    pthread_mutex_t lock;
    bool enabled;      /* stderr is a terminal, and nobody asked for quiet */
    bool shown;        /* the bar stands on the current line */
    uint64_t drawn_ns; /* when it was last drawn */
    bool holds;
    char *held; /* lines held, each with its newline */
} tool_progress;

void tool_progress_init(tool_progress *progress, bool enabled);
void tool_progress_finish(tool_progress *progress);
/* A clv_progress_fn; ctx: the tool_progress. Cancels after an interrupt. */
int tool_progress_report(void *ctx, const char *what, double fraction);
/* Takes the bar away. */
void tool_progress_clear(tool_progress *progress);
/* A line on stderr, in place of the bar. */
void tool_progress_line(tool_progress *progress, const char *line);
/* Holds lines back until they are released: printed, or dropped. */
void tool_progress_hold(tool_progress *progress);
void tool_progress_release(tool_progress *progress, bool print);
