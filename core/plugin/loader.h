/*
 * Loads the plugins that may be loaded, opens their devices, and records the
 * outcome of each file.
 */
#pragma once

#include "candidate.h"
#include "offers.h"

typedef struct core_loader {
    core_candidates candidates;
    core_offers offers; /* every device enumerated, opened or not */
} core_loader;

/* Fills ctx->plugins and ctx->devices. Fails only for what the user asked and
 * cannot have, or for memory; a plugin that fails does not count. */
clv_status core_loader_run(clv_context *ctx);
/* Closes devices and plugins again. */
void core_loader_finish(clv_context *ctx);

/* CLV_ERR_NOT_FOUND that says why the context has no device. */
clv_status core_loader_no_device(const clv_context *ctx);

/*
 * For the search: takes a file as far as it goes. name: what it is named for,
 * "" if nothing; any_name: the plugin may have another one. And a place where
 * no file can be found, for the thread's message. Both fail as
 * core_loader_run() does.
 */
clv_status core_loader_try(clv_context *ctx, const char *path, const char *name,
                           bool any_name);
clv_status core_loader_stop(clv_context *ctx, const char *path,
                            clv_status status);
