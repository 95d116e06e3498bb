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

/* Tries every file of core.plugin_files, then every file of core.plugin_dirs
 * that is named as a plugin, in alphabetical order. A directory that cannot be
 * searched becomes a candidate with the reason. Fills ctx->plugins and
 * ctx->devices. Fails only for what the user asked and
 * cannot have, or for memory; a plugin that fails does not count. */
clv_status core_loader_run(clv_context *ctx);
/* Closes devices and plugins again. */
void core_loader_finish(clv_context *ctx);

/* CLV_ERR_NOT_FOUND that says why the context has no device. */
clv_status core_loader_no_device(const clv_context *ctx);
