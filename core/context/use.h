/*
 * First uses of devices, which may end the process: what is under way is kept
 * in a file, core.cache_dir/uses/PID.N, as long as it lasts. A process that
 * crashes adds how it ended, if it calls clv_crash_note(), and the next start
 * finds the file. It is locked meanwhile, so that one whose process was killed
 * from outside is told from one in use.
 */
#pragma once

#include "context.h"

typedef struct core_use core_use;

/* Never fails: without memory NULL, which the others take. */
core_use *core_use_begin(clv_context *ctx);
void core_use_end(core_use *use);
/* What is under way from now on, and whose fault an end of the process would
 * be; plugin NULL: that cannot be told. */
void core_use_note(core_use *use, const core_plugin *plugin, const char *fmt,
                   ...) CLV_PRINTF(3, 4);

/* CLV_ERR_REFUSED if the process ended in the first use of that plugin file,
 * which is still the same. Forgets what does not matter any more. */
clv_status core_use_check(clv_context *ctx, const char *path);
