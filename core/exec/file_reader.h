/*
 * Reads the weights that a plan leaves in the file: a thread of the exec asks
 * for them in the order of the steps that use them, and gives them up once
 * these have ended. So few of them are in memory at a time, and none that the
 * plan keeps is driven out. When a run ends, the first of them are asked for
 * again, for the next run.
 *
 * Asking and giving up changes no result: what is not in memory is read when it
 * is used. Where several runs of the exec are under way at once, nothing is
 * given up before the last has ended.
 */
#pragma once

#include "run.h"

typedef struct core_file_reader core_file_reader;

/* *out: NULL where the plan reads nothing from files. */
clv_status core_file_reader_create(const clv_exec *exec,
                                   core_file_reader **out);
/* No run is under way. NULL is legal. */
void core_file_reader_destroy(core_file_reader *reader);
/* Of each run: before its first step is submitted, and after it has ended,
 * whose queues may go then. NULL is legal. */
void core_file_reader_begin(core_file_reader *reader, const clv_run *run);
void core_file_reader_end(core_file_reader *reader);
